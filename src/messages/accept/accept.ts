/** Accepts a checked send request: all its rows, and those that the caller adds, in one transaction. Then it is durable, and the engine is told. */
import type { Clock } from '../../base/clock.ts';
import { newId } from '../../base/id.ts';
import { Problem } from '../../base/problem.ts';
import { nextSlice } from '../../base/slices.ts';
import { insertRows, type RowsFor, type Rows, type RowsToWrite } from '../../storage/rows.ts';
import type { BatchRow, MessageRow } from '../../storage/tables.ts';
import { addMessage, newPlan, packRows, unpackedRows } from './accept-rows.ts';
import type { AcceptRowsDeps, NewMessage, Plan } from './accept-rows.ts';
import { failureNotice, type NoticeRule } from '../delivery/failure-notice.ts';
import {
  knownOf,
  lookUp,
  problemOfEntry,
  questionsOf,
  type LookedUp,
  type MaySendDeps,
  type Sender,
} from './may-send.ts';
import type { FreshMails } from '../store/fresh-mails.ts';
import { messageRecord, type MessageRecord } from '../store/message.ts';
import { rowsInPieces } from '../store/stored-content.ts';
import { addOwnMail } from './own-mail.ts';
import type { BulkDraft, BulkEntryDraft, MessageDraft } from '../request/message-draft.ts';
import type { SettleQuota } from '../../accounts/quota.ts';
import type { Notifier } from '../../scheduling/notifier.ts';
import { isStorageTrouble, type Committer, type Work } from '../../storage/commit.ts';
import { findSuppressed, type Suppressed, type SuppressionQuestion } from '../../suppressions/suppression-store.ts';
import type { DueHint } from '../delivery/due-hint.ts';

export interface AcceptDeps extends MaySendDeps, AcceptRowsDeps {
  clock: Clock;
  commit: Committer;
  notifiers: { deliveries: Notifier<readonly DueHint[]>; events: Notifier };
  /** Takes this number of mails from the plan's quota; the returned function is told whether they were accepted. Throws `quota_exceeded`. */
  takeQuota?: (accountId: string, plan: string, mails: number) => Promise<SettleQuota>;
  /** False while the disk is too full for new mail. */
  hasRoom(): boolean;
  /** Writes failure notices to senders who submitted by SMTP; without it none are written. */
  notices?: NoticeRule;
  /** Keeps what was accepted for its first attempt; without it the mail is read back. */
  fresh?: FreshMails;
}

export interface BatchEntry {
  index: number;
  to: string | null;
  id: string | null;
  status: string;
  error: { code: string; message: string; field: string | null; request_id: string | null } | null;
}

export interface BatchRecord {
  object: 'batch';
  id: string;
  accepted: number;
  rejected: number;
  created_at: string;
  data: BatchEntry[];
}

/** Accepts one message. Throws a Problem if the sender may not send it. */
export async function acceptSingle(
  deps: AcceptDeps,
  sender: Sender,
  draft: MessageDraft,
  alsoInTransaction: RowsFor<MessageRecord>,
): Promise<MessageRecord> {
  const now = deps.clock.now();
  const known = await lookUp(deps, sender, [{ kind: 'ok', index: 0, draft }]);
  // The transaction asks who is suppressed, as few are: to ask before it takes a sixth of the time to the answer.
  for (let questions = questionsOf(deps, sender, known); ; questions = []) {
    const plan = newPlan(false);
    const message = addMessage(deps, plan, { sender, draft, now, batchId: null, ...knownOf(draft, known) });
    const record = messageRecord(message);
    addSuppressionNotice(deps, plan, message, now);
    const [question] = questions;
    const more = { question, stored: () => keepFresh(deps, plan, draft) };
    const found = await commitPlan(deps, sender, plan, alsoInTransaction(record), more);
    if (found === null || question === undefined) return record;
    known.suppressed.set(question.stream, found);
  }
}

/** Keeps the mail for its first attempt if it is due now, and has one delivery: a content that several share is read for them. */
function keepFresh({ fresh }: AcceptDeps, { rows, due, hints }: Plan, { source }: MessageDraft): void {
  const [content, message, delivery] = [rows.contents[0], rows.messages[0], rows.deliveries[0]];
  if (content === undefined || message === undefined || delivery === undefined) return;
  if (due !== 1 || rows.deliveries.length > 1) return;
  fresh?.add({ message, delivery, content, attachments: rows.attachments, facts: source?.facts ?? null });
  for (const hint of hints.values()) hint.deliveryId = delivery.id;
}

/** Adds the notice about suppressed recipients for a sender by SMTP, if one is needed. */
function addSuppressionNotice(deps: AcceptDeps, plan: Plan, message: MessageRow, now: number): void {
  const { notice_to: noticeTo } = message;
  if (deps.notices === undefined || noticeTo === null) return;
  const failures = plan.rows.events.flatMap(({ type, test, delivery_id: id, detail_json: detail }) => {
    const address = plan.rows.deliveries.find((delivery) => delivery.id === id)?.address;
    if (type !== 'suppressed' || test === 1 || address === undefined) return [];
    return [{ messageId: message.id, address, event: { type, detail: JSON.parse(detail) as Record<string, unknown> } }];
  });
  if (failures.length === 0) return;
  const mail = { ...message, notice_to: noticeTo, front: plan.rows.contents[0]?.raw ?? null };
  const notice = failureNotice(deps.notices, mail, failures, now);
  if (notice !== null) addOwnMail(plan, notice, now, deps.notices.retry);
}

/** Accepts a bulk send: each entry is a message. They are taken out of `bulk` and packed few at a time, so that little is alive. Throws a Problem. */
export async function acceptBulk(
  deps: AcceptDeps,
  sender: Sender,
  bulk: BulkDraft,
  alsoInTransaction: RowsFor<BatchRecord>,
): Promise<BatchRecord> {
  const now = deps.clock.now();
  const batchId = newId('bat', now);
  const good = (): Extract<BulkEntryDraft, { kind: 'ok' }>[] => bulk.entries.filter((entry) => entry.kind === 'ok');
  const known = await lookUp(deps, sender, good());
  const questions = questionsOf(deps, sender, known);
  const found = await deps.findSuppressed(questions);
  questions.forEach(({ stream }, at) => known.suppressed.set(stream, found[at] ?? new Map()));
  const hasBodies = new Set(good().map(({ draft }) => draft.content)).size > 1;
  const plan = newPlan(hasBodies);
  const slice = hasBodies ? BODIES_AT_A_TIME : ENTRIES_AT_A_TIME;
  const data: BatchEntry[] = [];
  // Taken from the end: V8 moves all that is left of a long list (over 16,000) for each `shift`.
  bulk.entries.reverse();
  for (let entry = bulk.entries.pop(); entry !== undefined; entry = bulk.entries.pop()) {
    data.push(addEntry(deps, plan, { sender, now, batchId, known, abort: bulk.onError === 'abort' }, entry));
    if (data.length % slice !== 0 && unpackedRows(plan) < ROWS_AT_A_TIME) continue;
    packRows(plan);
    await nextSlice();
  }
  packRows(plan);
  const batch = batchOf(batchId, now, data);
  plan.rows.batches.push(batchRow(batch, sender, now, plan.real === 0));
  await commitPlan(deps, sender, plan, alsoInTransaction(batch));
  return batch;
}

/** Returns the answer. Throws `no_valid_recipients` if no entry was accepted. */
function batchOf(id: string, now: number, data: BatchEntry[]): BatchRecord {
  const accepted = data.filter(({ error }) => error === null).length;
  if (accepted === 0) {
    const why = data[0]?.error?.message ?? 'there are no entries.';
    throw new Problem('no_valid_recipients', `Every entry was refused, the first because: ${why}`, {
      field: 'recipients',
    });
  }
  const rejected = data.length - accepted;
  return { object: 'batch', id, accepted, rejected, created_at: new Date(now).toISOString(), data };
}

const batchRow = (
  { id, accepted, rejected }: BatchRecord,
  { accountId }: Sender,
  now: number,
  isTest: boolean,
): BatchRow => ({ id, account_id: accountId, accepted, rejected, created_at: now, test: isTest ? 1 : 0 });

/** Entries between two turns of the event loop; building one takes about 15 us. */
const ENTRIES_AT_A_TIME = 50;
/** The same for rows, if entries have many recipients or much metadata. */
const ROWS_AT_A_TIME = 500;
/** The same for bodies of their own: compressing one of 50 KB takes about 0.6 ms. */
const BODIES_AT_A_TIME = 2;

interface NewBatch extends Pick<NewMessage, 'sender' | 'now' | 'batchId'> {
  known: LookedUp;
  /** The first entry that is refused refuses the request. */
  abort: boolean;
}

function addEntry(
  deps: AcceptDeps,
  plan: Plan,
  { known, abort, ...message }: NewBatch,
  entry: BulkEntryDraft,
): BatchEntry {
  const { index } = entry;
  const to = entry.kind === 'ok' ? entry.draft.to.address : entry.to;
  try {
    if (entry.kind === 'rejected') throw entry.problem;
    const fault = known.faulty.get(index);
    if (fault !== undefined) throw fault;
    const row = addMessage(deps, plan, { draft: entry.draft, ...knownOf(entry.draft, known), ...message });
    return { index, to, id: row.id, status: row.status, error: null };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const problem = entry.kind === 'ok' ? problemOfEntry(error, index) : error;
    if (abort) throw problem;
    const { code, message: text, field } = problem;
    const { requestId } = message.sender;
    return { index, to, id: null, status: 'rejected', error: { code, message: text, field, request_id: requestId } };
  }
}

/** Returns who is suppressed of those that the question is about: nothing is written then. Null if the mail is accepted. */
async function commitPlan(
  deps: AcceptDeps,
  sender: Sender,
  plan: Plan,
  alsoInTransaction: Rows,
  { question, stored }: { question?: SuppressionQuestion | undefined; stored?: () => void } = {},
): Promise<Suppressed | null> {
  const { rows, packed, counters, stats, hints, bytes } = plan;
  const own: RowsToWrite = {
    counters: [...counters.values()],
    event_counts: [...stats.values()],
    ...rows,
    ...rowsInPieces(rows),
    ...Object.fromEntries(packed),
  };
  if (Object.keys(alsoInTransaction).some((table) => table in own))
    throw new Error('the further rows contain a table of the message itself');
  // Mail that does not count is accepted also if the quota is used up.
  const settleQuota =
    sender.plan === undefined || plan.charged === 0
      ? undefined
      : await deps.takeQuota?.(sender.accountId, sender.plan, plan.charged);
  let found: Suppressed | null = null;
  try {
    found = await store(deps, { rows: Object.assign(own, alsoInTransaction), question, now: deps.clock.now() }, bytes);
  } catch (error) {
    settleQuota?.(false);
    throw error;
  }
  settleQuota?.(found === null);
  if (found !== null) return found;
  stored?.();
  deps.notifiers.deliveries.notify([...hints.values()]);
  if (rows.events.length > 0 || packed.has('events')) deps.notifiers.events.notify();
  return null;
}

/** Rows that are written if none of the recipients in the question is suppressed. */
interface Acceptance {
  rows: RowsToWrite;
  question: SuppressionQuestion | undefined;
  now: number;
}

/** The output of an acceptance is who is suppressed, or null once its rows are written. */
const acceptWork: Work<Acceptance, Suppressed | null, readonly (Suppressed | null)[]> = {
  name: 'accept',
  isIntake: true,
  async read(connection, inputs) {
    const asked = inputs.map(({ question }) => question ?? { accountId: '', stream: '', addressKeys: [] });
    const found = await findSuppressed(connection, inputs[0]?.now ?? 0, asked);
    return found.map((one) => (one.size === 0 ? null : one));
  },
  async run(tx, inputs, found) {
    const written = inputs.filter((_, at) => found[at] === null).map(({ rows }) => rows);
    await insertRows(tx, written);
    return found;
  },
};

/** `Retry-After` in seconds when the disk or the database does not accept mail. */
const RETRY_AFTER_S = 10;

async function store(deps: AcceptDeps, acceptance: Acceptance, bytes: number): Promise<Suppressed | null> {
  if (!deps.hasRoom())
    throw new Problem('service_unavailable', 'The disk is too full for new mail. Try again later.', {
      retryAfter: RETRY_AFTER_S,
    });
  try {
    return await deps.commit.submit(acceptWork, acceptance, bytes);
  } catch (error) {
    if (!isStorageTrouble(error)) throw error;
    throw new Problem('service_unavailable', 'The message could not be stored now. Try again.', {
      retryAfter: RETRY_AFTER_S,
      cause: error,
    });
  }
}
