/** Turns a decision into rows: of the delivery itself, its attempt, its events, the suppression list, the books and the statistics. */
import { newId } from '../../base/id.ts';
import { addToStats, addTry, statTypesOf, type StatFacts } from '../../events/stats.ts';
import type {
  AttemptRow,
  CounterRow,
  EventRow,
  StatRow,
  SuppressionReason,
  SuppressionRow,
} from '../../storage/tables.ts';
import { addToCounters } from '../store/counters.ts';
import { addressKey } from '../../mail/address.ts';
import { capped, type DecidedAttempt, type Decision } from './decision.ts';
import type { DeliveryChange, DeliveryState } from './delivery.ts';
import { erasedDetail } from '../../events/erased.ts';
import type { Failure } from './failure-notice.ts';
import { isReport, type LoadedDelivery, type PendingUpdate } from './pending-update.ts';

/** The rows of one grouped commit. */
export const newRowsToWrite = () => ({
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
