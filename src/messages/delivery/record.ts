/**
 * The only place where a delivery changes. The units of a grouped commit are written together: one statement reads all their
 * deliveries, decide() says what each change means, and one statement per table writes it. Nothing can change between the read and the
 * write: SQLite has one writer, and on PostgreSQL the read locks its rows.
 */
import { OWN_ACCOUNT } from '../../accounts/account-store.ts';
import type { Clock } from '../../base/clock.ts';
import { newId } from '../../base/id.ts';
import { erasedDetail } from '../../events/event.ts';
import { addToStats, addTry, statTypesOf, type StatFacts } from '../../events/stats.ts';
import { addressKey } from '../../mail/address.ts';
import { decide, type Decision, capped, type DecidedAttempt } from './decide.ts';
import type { DeliveryState, DeliveryChange } from './delivery.ts';
import type { DueHint } from './due-hint.ts';
import { isFailure, noticeRows, type NoticeRule, type Failure } from './failure-notice.ts';
import {
  loadUpdates,
  updateDeliveries,
  updateMessages,
  type LoadedDelivery,
  type PendingUpdate,
  isReport,
} from './pending-update.ts';
import { addToCounters } from '../store/books.ts';
import { removeSealedContents } from '../store/stored-content.ts';
import type { Committer, Work } from '../../storage/commit.ts';
import type { Connection } from '../../storage/connection.ts';
import { allDone, insertRows, type Rows } from '../../storage/rows.ts';
import type {
  AttemptRow,
  CounterRow,
  EventRow,
  StatRow,
  SuppressionReason,
  SuppressionRow,
} from '../../storage/tables.ts';

/** A change of one delivery. */
export interface Occurrence {
  deliveryId: string;
  change: DeliveryChange;
}

/** The result of one change. `applied` is false if the change is not allowed in the present status; `state` is null for an unknown delivery. */
export interface Recorded {
  applied: boolean;
  state: DeliveryState | null;
  /** Where the notice of the failure waits, if one was written. */
  notice?: DueHint;
}

/** Changes that are made in one transaction, in order, with further rows (an audit line, for example). */
interface ChangeUnit {
  occurrences: readonly Occurrence[];
  rows?: Rows | RowsAfter;
}

/** Makes rows from the results (a stored answer, for example). Runs inside the transaction, where the changed rows can be read. */
export type RowsAfter = (tx: Connection, recorded: readonly Recorded[]) => Promise<Rows>;

/** The name of this work in the grouped commit. */
export const RECORD_CHANGE = 'record change';

export function createRecorder(deps: {
  commit: Committer;
  clock: Clock;
  /** Is called when the events are durable. */
  written: (recorded: readonly Recorded[]) => void;
  /** Is called for each complaint that changed its delivery. */
  complained?: (deliveryId: string) => void;
  /** Writes failure notices to senders who submitted by SMTP; without it none are written. */
  notices?: NoticeRule;
}) {
  const work: Work<ChangeUnit, readonly Recorded[], Map<string, PendingUpdate>> = {
    name: RECORD_CHANGE,
    read: (db, units) =>
      loadUpdates(
        db,
        units.flatMap(({ occurrences }) => occurrences),
        deps.clock.now(),
      ),
    run: (tx, units, updates) => writeGroup(tx, units, updates, deps.clock.now(), deps.notices),
  };
  return {
    /** Decides and writes all occurrences in one transaction; returns one result for each. */
    async record(occurrences: readonly Occurrence[], rows?: Rows | RowsAfter): Promise<readonly Recorded[]> {
      const unit: ChangeUnit = rows === undefined ? { occurrences } : { occurrences, rows };
      const recorded = await deps.commit.submit(work, unit, 1024 * occurrences.length);
      deps.written(recorded);
      for (const [at, { deliveryId, change }] of occurrences.entries())
        if (change.kind === 'complained' && recorded[at]?.applied === true) deps.complained?.(deliveryId);
      return recorded;
    },
  };
}

export type Recorder = ReturnType<typeof createRecorder>;

async function writeGroup(
  tx: Connection,
  units: readonly ChangeUnit[],
  updates: ReadonlyMap<string, PendingUpdate>,
  now: number,
  notices: NoticeRule | undefined,
): Promise<(readonly Recorded[])[]> {
  const toWrite = newRowsToWrite();
  /** Opens and clicks that this group has already counted, by message: another recipient's hit in the same group adds to them. */
  const seen = new Map<string, Pick<DeliveryState, 'opens' | 'clicks'>>();
  const results = units.map((unit) =>
    unit.occurrences.map(({ deliveryId, change }): Recorded => {
      const one = updates.get(deliveryId);
      if (one === undefined) return { applied: false, state: null };
      const messageId = one.row.message_id;
      const state = 'hit' in change ? { ...one.state, ...seen.get(messageId) } : one.state;
      const decision = decide(state, withSuppression(change, one.row), now);
      if ('hit' in change) seen.set(messageId, { opens: decision.state.opens, clicks: decision.state.clicks });
      applyDecision(one, decision, change, now, toWrite);
      const hasNotice = notices !== undefined && addFailure(one.row, decision, toWrite);
      const notice = hasNotice ? { notice: noticeHint(one.row.notice_to ?? '', now) } : {};
      return { applied: decision.applied, state: decision.state, ...notice };
    }),
  );

  const changed = [...updates.values()].filter((one) => one.changed);
  const noticeMails =
    notices === undefined || toWrite.failures.length === 0 ? [] : await noticeRows(tx, notices, toWrite.failures, now);
  const writes = insertRows(tx, [
    ...noticeMails,
    {
      attempts: toWrite.attempts,
      events: toWrite.events,
      suppressions: toWrite.suppressions,
      counters: [...toWrite.counters.values()],
      event_counts: [...toWrite.stats.values()],
    },
    ...units.flatMap(({ rows }) => (rows === undefined || typeof rows === 'function' ? [] : [rows])),
  ]);
  await allDone([updateDeliveries(tx, changed), updateMessages(tx, changed), writes]);
  const ownEnded = changed.flatMap(({ row, state }) =>
    row.account_id === OWN_ACCOUNT && state.dueAt === null ? row.message_id : [],
  );
  if (ownEnded.length > 0) await removeSealedContents(tx, ownEnded);
  for (const [at, { rows }] of units.entries())
    if (typeof rows === 'function') await insertRows(tx, [await rows(tx, results[at] ?? [])]);
  return results;
}

/** Adds the failure if its sender gets a notice; returns whether it does. Simulated mail never does: nothing of it may leave. */
function addFailure(row: LoadedDelivery, { steps, state, events }: Decision, toWrite: RowsToWrite): boolean {
  const [event] = events;
  if (row.notice_to === null || row.test === 1 || steps.length === 0 || event === undefined || !isFailure(state.status))
    return false;
  toWrite.failures.push({ messageId: row.message_id, address: row.address, event });
  return true;
}

const noticeHint = (address: string, now: number): DueHint => ({
  domain: address.slice(address.lastIndexOf('@') + 1).toLowerCase(),
  class: 0,
  accountId: OWN_ACCOUNT,
  dueAt: now,
});

/** Adds the suppression of the recipient, if there is one, to a claim. */
function withSuppression(change: DeliveryChange, row: LoadedDelivery): DeliveryChange {
  const { suppression_id: id, suppression_reason: reason } = row;
  return change.kind !== 'claimed' || id === null || reason === null
    ? change
    : { ...change, suppressedBy: { id, reason } };
}

/** The rows of one grouped commit. */
const newRowsToWrite = () => ({
  attempts: [] as AttemptRow[],
  events: [] as EventRow[],
  suppressions: [] as SuppressionRow[],
  counters: new Map<string, CounterRow>(),
  stats: new Map<string, StatRow>(),
  /** Failures whose senders get a notice. */
  failures: [] as Failure[],
});
export type RowsToWrite = ReturnType<typeof newRowsToWrite>;

/** Puts a decision into the delivery (`one`) and adds all other rows to `toWrite`. */
export function applyDecision(
  one: PendingUpdate,
  decision: Decision,
  change: DeliveryChange,
  now: number,
  toWrite: RowsToWrite,
): void {
  const { row } = one;
  one.state = row.erased === 1 ? withoutReply(decision.state) : decision.state;
  if (decision.applied) one.changed = true;
  if (decision.applied && change.kind === 'rescheduled') one.sendAt = change.sendAt;
  for (const [from, to] of decision.steps) {
    one.statusAt = now;
    addToCounters(toWrite.counters, row.account_id, now, from, to);
  }
  if (decision.attempt !== null) {
    toWrite.attempts.push(attemptRow(one, decision.attempt, change, now));
    one.tls = decision.attempt.facts.tls?.protocol ?? null;
    if (decision.attempt.facts.source !== null) addTry(toWrite.stats, statFacts(one, decision.attempt.facts.source));
  }
  const source = decision.attempt?.facts.source ?? (isReport(change) ? row.source : null);
  // Opens and clicks are recorded a little after they happened (tracking/hit.ts).
  const at = 'hit' in change ? change.hit.at : now;
  for (const event of decision.events) {
    // Opens and clicks by machines do not become the message's last event.
    if (event.machine !== true) one.lastEvent = { type: event.type, at };
    countHit(one, event.type, event.machine ?? false, at);
    // A recipient is put off once, however many attempts fail.
    if (event.type !== 'deferred' || decision.steps.length > 0)
      addToStats(toWrite.stats, statFacts(one, source), statTypesOf(event.type, event.detail, event.machine ?? false));
    toWrite.events.push({
      id: newId('evt', now),
      account_id: row.account_id,
      type: event.type,
      at,
      test: row.test,
      message_id: row.message_id,
      delivery_id: row.id,
      status: decision.state.status,
      machine: event.machine === true ? 1 : 0,
      detail_json: JSON.stringify(row.erased === 1 ? erasedDetail(event.type, event.detail) : event.detail),
    });
  }
  if (decision.suppress !== null) {
    const email = change.kind === 'unsubscribed' ? (change.email ?? row.address) : row.address;
    const entry = suppressionRow(row, email, decision.suppress, now);
    // Of entries for one address in one commit the first is written, and a complaint wins (storage/tables/suppressions.ts).
    if (entry.reason === 'complaint') toWrite.suppressions.unshift(entry);
    else toWrite.suppressions.push(entry);
  }
}

const withoutReply = (state: DeliveryState): DeliveryState => ({
  ...state,
  lastReply: { ...state.lastReply, smtpReply: null },
});

/** Whatever happens to a mail counts in the hour that it was first due: shares of a time are of the mail of that time. */
const statFacts = ({ row, state }: PendingUpdate, source: string | null): StatFacts => ({
  accountId: row.account_id,
  at: state.queuedAt,
  test: row.test === 1,
  stream: row.stream,
  domain: row.from_domain,
  recipient: row.address,
  tags: row.tags_json === '[]' ? [] : (JSON.parse(row.tags_json) as string[]),
  template: row.template_id,
  key: row.key_id,
  source,
});

function countHit(one: PendingUpdate, type: string, machine: boolean, now: number): void {
  if (type !== 'opened' && type !== 'clicked') return;
  if (machine) one.bots[type === 'opened' ? 'opens' : 'clicks']++;
  else {
    one[type]++;
    one.hitAt[type] = now;
  }
}

function attemptRow(
  { row, state }: PendingUpdate,
  { facts, outcome, verdict, nextAttemptAt }: DecidedAttempt,
  change: DeliveryChange,
  now: number,
): AttemptRow {
  return {
    id: newId('att', now),
    delivery_id: row.id,
    message_id: row.message_id,
    number: change.kind === 'outcome' ? change.attempt : state.attemptCount,
    started_at: facts.startedAt,
    ended_at: facts.endedAt,
    mx: facts.mx,
    ip: facts.ip,
    source: facts.source,
    tls_json: facts.tls === null ? null : JSON.stringify(facts.tls),
    timings_json: JSON.stringify(facts.timings),
    outcome,
    smtp_code: facts.smtpCode,
    enhanced_code: facts.enhancedCode,
    smtp_reply: row.erased === 1 ? null : capped(facts.smtpReply),
    class: verdict?.class ?? null,
    reason: verdict?.reason ?? null,
    next_attempt_at: nextAttemptAt,
  };
}

const suppressionRow = (
  row: LoadedDelivery,
  email: string,
  reason: SuppressionReason,
  now: number,
): SuppressionRow => ({
  id: newId('sup', now),
  account_id: row.account_id,
  email,
  address_key: addressKey(email),
  // An unsubscription is about one stream; a bounce or a complaint is about the address.
  scope: reason === 'unsubscribe' ? `stream:${row.stream}` : 'account',
  reason,
  // It would say who an erased recipient was.
  source_message_id: row.erased === 1 ? null : row.message_id,
  note: null,
  created_at: now,
  created_by: reason === 'unsubscribe' ? 'recipient' : 'posthorn',
  expires_at: null,
});
