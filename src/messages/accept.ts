/**
 * Takes a checked send request: may this caller send this? Then one transaction stores content, messages, deliveries, the
 * books' entries and whatever the caller must have committed with them (idempotency record, audit line). When the promise
 * resolves, the mail is durable and its delivery has been rung for.
 *
 * The order of the steps: sender (domain verified, allowed for the key), stream, suppression list, rows, commit, bell.
 */
import { Problem } from '../base/problem.ts';
import { newId } from '../base/id.ts';
import { addToStats } from '../events/stats.ts';
import type { Bell } from '../base/bell.ts';
import type { Clock } from '../base/clock.ts';
import { addressKey, type Mailbox } from '../mail/address.ts';
import type { Gate } from '../base/gate.ts';
import { isStorageTrouble, type Committer } from '../storage/commit.ts';
import type { Rows } from '../storage/rows.ts';
import type {
  AttachmentRow,
  BatchRow,
  ContentRow,
  CounterRow,
  DeliveryRow,
  EventRow,
  MessageMetadataRow,
  MessageRow,
  MessageTagRow,
  MessageWordRow,
  StatRow,
  SuppressionReason,
} from '../storage/tables.ts';
import { SIMULATOR_DOMAIN } from './delivery.ts';
import { failureNotice, type NoticeRule } from './failure-notice.ts';
import { messageRecord, type MessageRecord } from './message.ts';
import { ownMailRows, type OwnMailRows } from './own-mail.ts';
import { count } from './record.ts';
import { giveUpAt, type RetryRule } from './retry.ts';
import type { BulkDraft, MessageContent, MessageDraft } from './send-request.ts';
import { createBodyStore, type BodyStore } from './stored-content.ts';
import { wordRows } from './subject-words.ts';
import type { TrackingRule } from './tracking-rule.ts';
import { tlsWishOf } from './tls-wish.ts';
import { UNTOUCHED_MESSAGE, UNTRIED_DELIVERY } from './untouched.ts';
import { hostedUnsubscribe, refuseListHeaders, unsubscribeJson, type Unsubscribe } from './unsubscribe.ts';

/** Deliveries of one domain, class and account that have just become due: a hint where to look. */
export interface DueHint {
  domain: string;
  class: number;
  accountId: string;
  dueAt: number;
  /** Which it is, where it is one alone: then there is nothing to look for. */
  id?: string;
}

export interface AcceptDeps {
  commit: Committer;
  clock: Clock;
  bells: { deliveries: Bell<readonly DueHint[]>; events: Bell };
  /** The stream with this slug, or null. */
  findStream: (accountId: string, slug: string) => Promise<{ priority: number; paused: number; type?: string } | null>;
  /** What is tracked where the send says nothing, and where links lead to. */
  trackingRule(accountId: string, domain: string): Promise<TrackingRule>;
  isVerified(accountId: string, domain: string): Promise<boolean>;
  /** Which of these addresses must not be mailed on this stream. */
  findSuppressed(
    accountId: string,
    stream: string,
    addressKeys: readonly string[],
  ): Promise<ReadonlyMap<string, { id: string; reason: SuppressionReason }>>;
  /**
   * Takes room for so many mails in what the plan allows; the returned function gives it back. Throws `quota_exceeded`.
   */
  takeQuota?: (accountId: string, plan: string, mails: number) => Promise<() => void>;
  /** False while the disk is too full for new mail. */
  hasRoom(): boolean;
  /** Lets so many acceptances be written at once. */
  intake?: Gate;
  retry: Pick<RetryRule, 'maxAge'>;
  simulatorDomain: string;
  /** How senders by SMTP are told of recipients who are not mailed; without it they are not. */
  notices?: NoticeRule;
}

/** Who sends, as far as it matters here. */
export interface Sender {
  accountId: string;
  keyId: string | null;
  mode: 'live' | 'test';
  /** Name of the account's plan; absent for the operator, who has no quota. */
  plan?: string;
  /** The operator has paused the account's sending. */
  paused?: boolean;
  /** Sending domains the key is restricted to; empty means all of the account. */
  domains: readonly string[];
  requestId: string | null;
}

/** Rows of other tables that must be committed together with the mail, made once the answer is known. */
export type Together<Answer> = (answer: Answer) => Rows;

/** What an answer to a bulk send says of one entry. */
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

/** Stream of mail that names none. */
const DEFAULT_STREAM = 'transactional';

/** Accepts one message. Throws Problem where the caller may not send it. */
export async function acceptSingle(
  deps: AcceptDeps,
  sender: Sender,
  draft: MessageDraft,
  together: Together<MessageRecord>,
): Promise<MessageRecord> {
  const now = deps.clock.now();
  const simulated = isSimulated(deps, sender, draft);
  await checkSender(deps, sender, draft, simulated);
  const stream = await checkStream(deps, sender, draft);
  const suppressed = await suppressedOf(deps, sender, stream.slug, [draft]);
  refuseSuppressed(draft, suppressed);
  const tracking = await deps.trackingRule(sender.accountId, draft.from.domain);
  const plan = newPlan(createBodyStore([], now));
  const message = addMessage(deps, plan, { sender, draft, stream, tracking, suppressed, now, batchId: null });
  const record = messageRecord(message);
  await commitPlan(deps, sender, plan, together(record), suppressionNotice(deps, plan, message, now));
  return record;
}

/** Tells who submitted it of the recipients on the suppression list; null where there are none, or nobody is to be told. */
function suppressionNotice(deps: AcceptDeps, plan: Plan, message: MessageRow, now: number): OwnMailRows | null {
  const { notice_to: noticeTo } = message;
  if (deps.notices === undefined || noticeTo === null) return null;
  const failures = plan.events.flatMap(({ type, test, delivery_id: id, detail_json: detail }) => {
    const address = plan.deliveries.find((delivery) => delivery.id === id)?.address;
    if (type !== 'suppressed' || test === 1 || address === undefined) return [];
    return [{ messageId: message.id, address, event: { type, detail: JSON.parse(detail) as Record<string, unknown> } }];
  });
  if (failures.length === 0) return null;
  const mail = { ...message, notice_to: noticeTo, front: plan.contents[0]?.raw ?? null };
  const notice = failureNotice(deps.notices, mail, failures, now);
  return notice === null ? null : ownMailRows(notice, now, deps.notices.retry);
}

/** Accepts a bulk send: each entry is a message of its own. Throws Problem where the whole request is refused. */
export async function acceptBulk(
  deps: AcceptDeps,
  sender: Sender,
  bulk: BulkDraft,
  together: Together<BatchRecord>,
): Promise<BatchRecord> {
  const now = deps.clock.now();
  const batchId = newId('bat', now);
  const good = bulk.entries.filter((entry) => entry.kind === 'ok');
  const drafts = good.map(({ draft }) => draft);
  const { streams, rules } = await checkAll(deps, sender, good);
  const suppressed = await suppressedByStream(deps, sender, drafts, streams);
  const sources = drafts.map(({ renderedFrom }) => renderedFrom);
  const plan = newPlan(createBodyStore(sources, now));
  const data: BatchEntry[] = [];
  for (const entry of bulk.entries) {
    const result =
      entry.kind === 'ok'
        ? addEntry(deps, plan, {
            sender,
            draft: entry.draft,
            index: entry.index,
            now,
            batchId,
            streams,
            rules,
            suppressed,
          })
        : rejected(entry.index, entry.to, entry.problem, sender);
    if (result.problem !== null && bulk.onError === 'abort') throw result.problem;
    data.push(result.entry);
    const most = entry.kind === 'ok' && entry.draft.renderedFrom !== undefined ? RENDERED_AT_A_TIME : ENTRIES_AT_A_TIME; // prettier-ignore
    if (data.length % most === 0) await turnOfTheLoop();
  }
  const accepted = data.filter(({ error }) => error === null).length;
  const first = data.find(({ error }) => error !== null)?.error;
  if (accepted === 0) {
    throw new Problem('no_valid_recipients', `every entry was refused; the first: ${first?.message ?? 'no entries'}`, {
      field: 'recipients',
    });
  }
  const row: BatchRow = {
    id: batchId,
    account_id: sender.accountId,
    accepted,
    rejected: data.length - accepted,
    created_at: now,
  };
  plan.batches.push(row);
  const record: BatchRecord = {
    object: 'batch',
    id: batchId,
    accepted,
    rejected: row.rejected,
    created_at: new Date(now).toISOString(),
    data,
  };
  await commitPlan(deps, sender, plan, together(record));
  return record;
}

/** Building an entry costs about 15 us; other requests get their turn in between. */
const ENTRIES_AT_A_TIME = 50;
/** Telling what a rendered body has in common with its source takes up to a millisecond. */
const RENDERED_AT_A_TIME = 5;
const turnOfTheLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const isSimulatedAddress = (deps: AcceptDeps, { domain }: Mailbox): boolean => domain === deps.simulatorDomain;

/** Whether no recipient of it is ever dialled. */
function isSimulated(deps: AcceptDeps, sender: Sender, draft: MessageDraft): boolean {
  if (sender.mode === 'test' || draft.test !== null) return true;
  return everyRecipient(draft).every(({ mailbox }) => isSimulatedAddress(deps, mailbox));
}

function everyRecipient(draft: MessageDraft): { type: 'to' | 'cc' | 'bcc'; mailbox: Mailbox }[] {
  const seen = new Set<string>();
  const all = draft.source?.recipients ?? [
    { type: 'to' as const, mailbox: draft.to },
    ...draft.cc.map((mailbox) => ({ type: 'cc' as const, mailbox })),
    ...draft.bcc.map((mailbox) => ({ type: 'bcc' as const, mailbox })),
  ];
  // An address that stands in two fields gets one copy, for the first of them.
  return all.filter(({ mailbox }) => {
    const key = addressKey(mailbox.address);
    return seen.has(key) ? false : seen.add(key);
  });
}

async function checkSender(deps: AcceptDeps, sender: Sender, draft: MessageDraft, simulated: boolean): Promise<void> {
  const { domain } = draft.from;
  if (sender.paused === true) throw new Problem('sending_paused', 'sending is paused for this account');
  if (sender.domains.length > 0 && !sender.domains.includes(domain)) {
    throw new Problem(
      'domain_not_allowed',
      `this key may send only from ${sender.domains.join(', ')}, not from ${domain}`,
      { field: 'from' },
    );
  }
  if (sender.mode === 'test' || (simulated && domain === deps.simulatorDomain)) return;
  if (await deps.isVerified(sender.accountId, domain)) return;
  throw new Problem('domain_not_verified', `${domain} is not a verified domain of this account`, { field: 'from' });
}

interface Stream {
  slug: string;
  class: number;
  isBroadcast: boolean;
}

async function checkStream(deps: AcceptDeps, sender: Sender, draft: MessageDraft): Promise<Stream> {
  const slug = draft.stream ?? DEFAULT_STREAM;
  const stream = await deps.findStream(sender.accountId, slug);
  if (stream === null)
    throw new Problem('unknown_stream', `there is no stream ${JSON.stringify(slug)}`, { field: 'stream' });
  if (stream.paused === 1)
    throw new Problem('sending_paused', `the stream ${slug} is paused`, {
      field: draft.stream === null ? null : 'stream',
    });
  return { slug, class: stream.priority, isBroadcast: stream.type === 'broadcast' };
}

/** Sender, stream and tracking of all entries, each different one checked once: a fault here refuses the whole request. */
async function checkAll(
  deps: AcceptDeps,
  sender: Sender,
  entries: readonly GoodEntry[],
): Promise<{ streams: Map<string, Stream>; rules: Map<string, TrackingRule> }> {
  const streams = new Map<string, Stream>();
  const rules = new Map<string, TrackingRule>();
  const senders = new Set<string>();
  for (const entry of entries) {
    const { draft } = entry;
    const simulated = isSimulated(deps, sender, draft);
    const from = `${draft.from.domain} ${String(simulated)}`;
    if (!senders.has(from)) {
      await inEntry(entry, checkSender(deps, sender, draft, simulated));
      senders.add(from);
    }
    const slug = draft.stream ?? DEFAULT_STREAM;
    if (!streams.has(slug)) streams.set(slug, await inEntry(entry, checkStream(deps, sender, draft)));
    const { domain } = draft.from;
    if (!rules.has(domain)) rules.set(domain, await deps.trackingRule(sender.accountId, domain));
  }
  return { streams, rules };
}

type GoodEntry = Extract<BulkDraft['entries'][number], { kind: 'ok' }>;

/** A check of what an entry may have of its own: then its fault is told of the entry's member. */
async function inEntry<T>({ index, own }: GoodEntry, checking: Promise<T>): Promise<T> {
  try {
    return await checking;
  } catch (error) {
    const isOwn = error instanceof Problem && error.field !== null && own?.includes(error.field) === true;
    throw isOwn ? within(error, index) : error;
  }
}

type Suppressed = ReadonlyMap<string, { id: string; reason: SuppressionReason }>;

function suppressedOf(
  deps: AcceptDeps,
  sender: Sender,
  stream: string,
  drafts: readonly MessageDraft[],
): Promise<Suppressed> {
  const keys = new Set<string>();
  for (const draft of drafts) {
    if (sender.mode === 'test' || draft.test !== null) continue;
    for (const { mailbox } of everyRecipient(draft))
      if (!isSimulatedAddress(deps, mailbox)) keys.add(addressKey(mailbox.address));
  }
  return keys.size === 0 ? Promise.resolve(new Map()) : deps.findSuppressed(sender.accountId, stream, [...keys]);
}

async function suppressedByStream(
  deps: AcceptDeps,
  sender: Sender,
  drafts: readonly MessageDraft[],
  streams: ReadonlyMap<string, Stream>,
): Promise<Map<string, Suppressed>> {
  const found = new Map<string, Suppressed>();
  for (const slug of streams.keys()) {
    const own = drafts.filter((draft) => (draft.stream ?? DEFAULT_STREAM) === slug);
    found.set(slug, await suppressedOf(deps, sender, slug, own));
  }
  return found;
}

function refuseSuppressed(draft: MessageDraft, suppressed: Suppressed): void {
  if (draft.onSuppressed !== 'reject') return;
  const hit = everyRecipient(draft).find(({ mailbox }) => suppressed.has(addressKey(mailbox.address)));
  if (hit === undefined) return;
  const reason = suppressed.get(addressKey(hit.mailbox.address))?.reason ?? 'manual';
  throw new Problem('recipient_suppressed', `${hit.mailbox.address} is on the suppression list (${reason})`, {
    field: fieldOf(draft, hit),
  });
}

/** A single copy may have been given as a string, so only of several the place is told. */
function fieldOf(draft: MessageDraft, { type, mailbox }: ReturnType<typeof everyRecipient>[number]): string {
  const place = type === 'to' || draft[type].length < 2 ? -1 : draft[type].indexOf(mailbox);
  return place === -1 ? type : `${type}[${String(place)}]`;
}

/** The rows of one acceptance. */
interface Plan {
  batches: BatchRow[];
  contents: ContentRow[];
  bodies: BodyStore;
  attachments: AttachmentRow[];
  messages: MessageRow[];
  deliveries: DeliveryRow[];
  events: EventRow[];
  tags: MessageTagRow[];
  metadata: MessageMetadataRow[];
  words: MessageWordRow[];
  counters: Map<string, CounterRow>;
  stats: Map<string, StatRow>;
  contentIds: Map<MessageContent, string>;
  hints: Map<string, DueHint>;
  bytes: number;
}

const newPlan = (bodies: BodyStore): Plan => ({
  bodies,
  batches: [],
  contents: [],
  attachments: [],
  messages: [],
  deliveries: [],
  events: [],
  tags: [],
  metadata: [],
  words: [],
  counters: new Map(),
  stats: new Map(),
  contentIds: new Map(),
  hints: new Map(),
  bytes: 0,
});

interface NewMessage {
  sender: Sender;
  draft: MessageDraft;
  stream: Stream;
  tracking: TrackingRule;
  suppressed: Suppressed;
  now: number;
  batchId: string | null;
}

function addMessage(deps: AcceptDeps, plan: Plan, message: NewMessage): MessageRow {
  const { draft, now, sender } = message;
  const row = messageRow(deps, plan, message);
  const sendAt = row.send_at ?? now;
  const giveUp = giveUpAt(deps.retry, now, row.send_at, row.expires_at);
  for (const [place, { type, mailbox }] of everyRecipient(draft).entries()) {
    const delivery = deliveryRow(deps, message, row, { type, mailbox, lead: place === 0, sendAt, giveUp });
    addDelivery(plan, message, row, delivery);
    if (delivery.lead === 1) row.status = delivery.status;
    if (delivery.status === 'suppressed') {
      row.last_event_type = 'suppressed';
      row.last_event_at = now;
    }
  }
  plan.messages.push(row);
  for (const tag of draft.tags) plan.tags.push({ account_id: sender.accountId, tag, message_id: row.id });
  for (const [name, value] of Object.entries(draft.metadata)) {
    plan.metadata.push({ account_id: sender.accountId, name, value, message_id: row.id });
  }
  plan.words.push(...wordRows(sender.accountId, row.id, row.subject));
  plan.bytes += 2048;
  return row;
}

function messageRow(deps: AcceptDeps, plan: Plan, message: NewMessage): MessageRow {
  const { sender, draft, stream, tracking, now, batchId } = message;
  const id = draft.source?.id ?? newId('msg', now);
  const unsubscribe = unsubscribeOf(draft, stream);
  const opens = draft.trackOpens ?? tracking.opens;
  const clicks = draft.trackClicks ?? tracking.clicks;
  const mailboxes = (list: readonly Mailbox[]): string =>
    list.length === 0 ? '[]' : JSON.stringify(list.map(({ name, address }) => [name, address]));
  return {
    id,
    account_id: sender.accountId,
    key_id: sender.keyId,
    batch_id: batchId,
    content_id: addContent(plan, draft, sender.accountId, now),
    from_name: draft.from.name,
    from_address: draft.from.address,
    from_domain: draft.from.domain,
    to_name: draft.to.name,
    to_address: draft.to.address,
    cc_json: mailboxes(draft.cc),
    bcc_json: mailboxes(draft.bcc),
    reply_to_json: mailboxes(draft.replyTo),
    subject: draft.subject,
    headers_json: draft.headers.length === 0 ? '[]' : JSON.stringify(draft.headers),
    stream: stream.slug,
    template_id: draft.template?.id ?? null,
    template_version: draft.template?.version ?? null,
    tags_json: JSON.stringify(draft.tags),
    metadata_json: JSON.stringify(draft.metadata),
    send_at: draft.sendAt !== null && draft.sendAt > now ? draft.sendAt : null,
    expires_at: draft.expiresAt,
    track_opens: opens ? 1 : 0,
    track_clicks: clicks ? 1 : 0,
    test: isSimulated(deps, sender, draft) ? 1 : 0,
    test_outcome: draft.test?.outcome ?? null,
    rfc_message_id: draft.source?.rfcMessageId ?? `<${id}@${draft.from.domain}>`,
    request_id: sender.requestId,
    created_at: now,
    ...UNTOUCHED_MESSAGE,
    status_at: now,
    tracking_url: opens || clicks || unsubscribe !== null ? tracking.base : null,
    unsubscribe_json: unsubscribeJson(unsubscribe),
    require_tls: tlsWishOf(draft),
    notice_to: draft.source?.noticeTo ?? null,
    null_sender: 0,
  };
}

/** Null is off. Throws `header_not_allowed` where the caller writes himself what this would write. */
function unsubscribeOf(draft: MessageDraft, { isBroadcast }: Stream): Unsubscribe | null {
  const wish = draft.unsubscribe ?? (isBroadcast ? hostedUnsubscribe : false);
  if (wish === false) return null;
  refuseListHeaders(draft.headers);
  return wish;
}

/** Entries that share their content share one row of it. */
function addContent(
  plan: Plan,
  { content, source: whole, renderedFrom: source }: MessageDraft,
  accountId: string,
  now: number,
): string {
  const raw = whole?.bytes ?? null;
  const known = plan.contentIds.get(content);
  if (known !== undefined) return known;
  const id = newId('cnt', now);
  const { html, text, autoText, attachments } = content;
  const body = plan.bodies.store({ html, text }, source);
  plan.contentIds.set(content, id);
  plan.contents.push({
    id,
    account_id: accountId,
    ...body,
    auto_text: autoText ? 1 : 0,
    attachment_count: attachments.length,
    created_at: now,
    raw,
  });
  plan.bytes += (body.html?.length ?? 0) + (body.text?.length ?? 0) + (raw?.length ?? 0);
  attachments.forEach(({ filename, contentType, contentId, disposition, content: bytes }, position) => {
    plan.attachments.push({
      content_id: id,
      position,
      filename,
      content_type: contentType,
      cid: contentId,
      disposition,
      bytes,
    });
    plan.bytes += bytes.length;
  });
  return id;
}

interface NewDelivery {
  type: 'to' | 'cc' | 'bcc';
  mailbox: Mailbox;
  lead: boolean;
  sendAt: number;
  giveUp: number;
}

function deliveryRow(
  deps: AcceptDeps,
  message: NewMessage,
  row: MessageRow,
  { type, mailbox, lead, sendAt, giveUp }: NewDelivery,
): DeliveryRow {
  const { now, stream, suppressed } = message;
  const key = addressKey(mailbox.address);
  const simulated = row.test === 1 || isSimulatedAddress(deps, mailbox);
  const status = suppressed.has(key) ? 'suppressed' : sendAt > now ? 'scheduled' : 'queued';
  return {
    id: newId('dlv', now),
    message_id: row.id,
    account_id: row.account_id,
    type,
    lead: lead ? 1 : 0,
    name: mailbox.name,
    address: mailbox.address,
    address_key: key,
    domain: simulated ? SIMULATOR_DOMAIN : mailbox.domain,
    class: stream.class,
    test: simulated ? 1 : 0,
    status,
    status_at: now,
    due_at: status === 'suppressed' ? null : sendAt,
    queued_at: sendAt,
    give_up_at: giveUp,
    ...UNTRIED_DELIVERY,
  };
}

function addDelivery(plan: Plan, { draft, suppressed, now }: NewMessage, row: MessageRow, delivery: DeliveryRow): void {
  plan.deliveries.push(delivery);
  count(plan.counters, delivery.account_id, now, 'none', delivery.status);
  const hit = suppressed.get(delivery.address_key);
  if (delivery.status === 'suppressed' && hit !== undefined) {
    plan.events.push({
      id: newId('evt', now),
      account_id: delivery.account_id,
      type: 'suppressed',
      at: now,
      test: delivery.test,
      message_id: delivery.message_id,
      delivery_id: delivery.id,
      status: 'suppressed',
      machine: 0,
      detail_json: JSON.stringify({ reason: hit.reason, suppression_id: hit.id }),
    });
    const facts = {
      accountId: row.account_id,
      at: now,
      test: delivery.test === 1,
      stream: row.stream,
      domain: row.from_domain,
      recipient: delivery.address,
      tags: draft.tags,
      template: row.template_id,
    };
    addToStats(plan.stats, facts, ['suppressed']);
  }
  if (delivery.due_at !== null) addHint(plan, delivery, delivery.due_at);
}

function addHint(plan: Plan, { id, domain, class: order, account_id: accountId }: DeliveryRow, dueAt: number): void {
  const key = `${domain} ${String(order)} ${accountId}`;
  const known = plan.hints.get(key);
  if (known === undefined) plan.hints.set(key, { domain, class: order, accountId, dueAt, id });
  else plan.hints.set(key, { domain, class: order, accountId, dueAt: Math.min(dueAt, known.dueAt) });
}

interface NewEntry {
  sender: Sender;
  draft: MessageDraft;
  index: number;
  now: number;
  batchId: string;
  streams: ReadonlyMap<string, Stream>;
  /** By sending domain. */
  rules: ReadonlyMap<string, TrackingRule>;
  suppressed: ReadonlyMap<string, Suppressed>;
}

interface EntryResult {
  entry: BatchEntry;
  problem: Problem | null;
}

function addEntry(
  deps: AcceptDeps,
  plan: Plan,
  { sender, draft, index, now, batchId, streams, rules, suppressed }: NewEntry,
): EntryResult {
  const slug = draft.stream ?? DEFAULT_STREAM;
  const stream = streams.get(slug);
  const tracking = rules.get(draft.from.domain);
  if (stream === undefined || tracking === undefined) throw new Error(`${slug} or its sender was not looked up`);
  const hits: Suppressed = suppressed.get(slug) ?? new Map();
  try {
    refuseSuppressed(draft, hits);
    unsubscribeOf(draft, stream);
  } catch (error) {
    if (error instanceof Problem) return rejected(index, draft.to.address, within(error, index), sender);
    throw error;
  }
  const row = addMessage(deps, plan, { sender, draft, stream, tracking, suppressed: hits, now, batchId });
  return { entry: { index, to: draft.to.address, id: row.id, status: row.status, error: null }, problem: null };
}

/** The same problem with its field named from the top of the request. */
const within = (problem: Problem, index: number): Problem =>
  new Problem(problem.code, problem.message, { field: `recipients[${String(index)}].${problem.field ?? 'to'}` });

function rejected(index: number, to: string | null, problem: Problem, sender: Sender): EntryResult {
  const { code, message, field } = problem;
  return {
    entry: { index, to, id: null, status: 'rejected', error: { code, message, field, request_id: sender.requestId } },
    problem,
  };
}

async function commitPlan(
  deps: AcceptDeps,
  sender: Sender,
  plan: Plan,
  together: Rows,
  notice: OwnMailRows | null = null,
): Promise<void> {
  const {
    batches,
    contents,
    attachments,
    messages,
    deliveries,
    events,
    tags,
    metadata,
    words,
    counters,
    stats,
    hints,
    bytes,
  } = plan;
  const bases = plan.bodies.bases();
  const own: Rows = {
    batches,
    contents,
    ...(bases.length === 0 ? {} : { content_bases: bases }),
    attachments,
    messages,
    deliveries,
    events,
    message_tags: tags,
    message_metadata: metadata,
    message_words: words,
    counters: [...counters.values()],
    ...(stats.size === 0 ? {} : { event_counts: [...stats.values()] }),
  };
  if (Object.keys(together).some((table) => table in own)) throw new Error('rows of the mail itself came from outside');
  const giveBack = await takeQuota(deps, sender, deliveries);
  try {
    await store(deps, { ...withNotice(own, notice), ...together }, bytes);
  } catch (error) {
    giveBack();
    throw error;
  }
  deps.bells.deliveries.ring([...hints.values(), ...(notice === null ? [] : hintsOf(notice))]);
  if (events.length > 0) deps.bells.events.ring();
}

const withNotice = (own: Rows, notice: OwnMailRows | null): Rows =>
  notice === null ? own : {
    ...own,
    contents: [...(own.contents ?? []), ...notice.contents],
    messages: [...(own.messages ?? []), ...notice.messages],
    deliveries: [...(own.deliveries ?? []), ...notice.deliveries],
    counters: [...(own.counters ?? []), ...notice.counters],
  }; // prettier-ignore

/** Where to look for what these rows add. */
export const hintsOf = ({ deliveries }: OwnMailRows): DueHint[] =>
  deliveries.map(({ domain, class: order, account_id: accountId, due_at: dueAt }) => ({ domain, class: order, accountId, dueAt: dueAt ?? 0 })); // prettier-ignore

const nothing = (): void => undefined;

/** What is suppressed is not mailed, so it does not count. */
function takeQuota(
  { takeQuota: take }: AcceptDeps,
  { accountId, plan }: Sender,
  deliveries: readonly DeliveryRow[],
): Promise<() => void> | (() => void) {
  if (take === undefined || plan === undefined) return nothing;
  return take(accountId, plan, deliveries.filter(({ status }) => status !== 'suppressed').length);
}

/** Waiting seconds for a client whose mail found no room or no database. */
const RETRY_AFTER_S = 10;
/** For a client that came at a time of too many others. */
const OVERLOAD_RETRY_AFTER_S = 1;

async function store(deps: AcceptDeps, rows: Rows, bytes: number): Promise<void> {
  if (!deps.hasRoom())
    throw new Problem('service_unavailable', 'the disk is too full for new mail', { retryAfter: RETRY_AFTER_S });
  // Without a limit intake would take turns of the writer and of the loop that deliveries need.
  const leave = await deps.intake?.enter();
  if (leave === null)
    throw new Problem('service_unavailable', 'too much mail at once', { retryAfter: OVERLOAD_RETRY_AFTER_S });
  try {
    await deps.commit.insert(rows, bytes);
  } catch (error) {
    if (!isStorageTrouble(error)) throw error;
    throw new Problem('service_unavailable', 'the mail could not be stored now', {
      retryAfter: RETRY_AFTER_S,
      cause: error,
    });
  } finally {
    leave?.();
  }
}
