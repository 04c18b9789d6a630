/**
 * Explains why a delivery waits: one function for the API, the command line, the pages and the metrics. It combines the delivery's own state
 * (schedule, holds) with what the engine knows about its lane (`LaneWait`), so that all of them give the true reason.
 */
import { rfc3339 } from '../../base/rfc3339.ts';
import { HELD_WITHOUT_END } from './delivery.ts';
import type { Hold, HoldOf } from './holds.ts';
import type { MailFacts, Limit } from '../limits/limit.ts';
import { nextAttemptAt } from '../store/message-store.ts';
import type { LaneView } from '../../scheduling/lanes.ts';
import type { Connection } from '../../storage/connection.ts';
import type { DeliveryRow, MessageRow } from '../../storage/tables.ts';

export const waitReasons = [
  'finished',
  'scheduled',
  'held',
  'being_sent',
  'waiting_for_retry',
  'dns_trouble',
  'resolving',
  'receiver_refuses_us',
  'receiver_overloaded',
  'receiver_resting',
  'tls_required',
  'destination_parked',
  'connections_in_use',
  'rate_limited',
  'queued',
] as const;
export type WaitReason = (typeof waitReasons)[number];

/** The party that causes a wait: the receiver by its replies, its DNS, the operator, this server, or the sender. */
export const settersOfWaits = ['receiver', 'dns', 'operator', 'us', 'sender'] as const;
export type SetBy = (typeof settersOfWaits)[number];

/** The reason why mail of a lane waits; times in ms since the epoch. */
export interface LaneWait {
  reason: WaitReason;
  message: string;
  since: number | null;
  /** When the lane is tried again, or null if that depends on something else. */
  until: number | null;
  by: SetBy;
  /** The kind of limit, if one that closes the lane or a part of it. */
  kind?: 'sender' | 'block_list' | 'load' | 'tls' | 'rule' | 'warm_up';
  /** True if nothing is sent meanwhile; false if mail is sent more slowly. */
  stops: boolean;
  /** The recipient domain and the account that it is about; absent for all. */
  domain?: string;
  account?: string;
}

/** Returns a wait. If nothing else is said it is ours, its times are not known, and mail is sent meanwhile. */
export const laneWait = (reason: WaitReason, message: string, more: Partial<LaneWait> = {}): LaneWait => ({
  reason,
  message,
  since: null,
  until: null,
  by: 'us',
  stops: false,
  ...more,
});

/** Of the waits of several lanes by any of which a mail may go, returns those of the lane that opens first. */
export function waitsOfSoonest(lanes: readonly (readonly LaneWait[])[]): readonly LaneWait[] {
  const opens = (waits: readonly LaneWait[]): number =>
    Math.max(0, ...waits.map(({ stops, until }) => (stops ? (until ?? Infinity) : 0)));
  return lanes.toSorted((a, b) => opens(a) - opens(b))[0] ?? [];
}

export interface Reason {
  reason: WaitReason;
  message: string;
  /** The message without the last answer, for places that show the attempts as well. */
  summary: string;
  since: string | null;
  until: string | null;
  /** The cause; null if nothing waits. */
  set_by: SetBy | null;
}

export interface WaitContext {
  held: Hold | null;
  now: number;
  /** The waits of its lane, the most informative first. */
  waits: readonly LaneWait[];
}

export function reasonOf(delivery: DeliveryRow, { held, now, waits }: WaitContext): Reason {
  const { due_at: dueAt, status } = delivery;
  if (dueAt === null) return makeReason('finished', `It is finished: ${status}.`);
  if (delivery.claim_epoch !== null) return makeReason('being_sent', 'It is being sent now.');
  // Mail that is held when its time comes keeps its status and gets another due time.
  if (status === 'scheduled' && dueAt > now && delivery.held_by === null)
    return makeReason('scheduled', 'Its time of sending has not come yet.', { until: timeOf(dueAt), by: 'sender' });
  if (held !== null) {
    const by = held.setBy ?? 'operator';
    return makeReason('held', `It is held: ${held.why}.`, { since: held.since, until: held.until, by });
  }
  if (delivery.held_by !== null)
    return makeReason('held', 'Its hold has ended; it will be sent within half a minute.', { until: now, by: 'us' });
  const [first] = waits;
  const outlasts = first?.stops === true && (first.until ?? Infinity) > dueAt;
  if (dueAt > now && !outlasts) return retryReason(delivery, dueAt, first);
  if (first !== undefined) return makeReason(first.reason, first.message, { ...first, answer: lastAnswer(delivery) });
  return makeReason('queued', 'It is due and waits for its turn.', { by: 'us' });
}

function retryReason(delivery: DeliveryRow, dueAt: number, wait: LaneWait | undefined): Reason {
  // A further reason that keeps the lane back then, such as the pace that this mail's own answer has set.
  const also = wait === undefined || !(wait.stops || wait.reason === 'rate_limited') ? '' : ` Also: ${wait.message}`;
  const message = `It waits for attempt ${String(delivery.attempt_count + 1)}.`;
  // Without an answer, such as after a timeout, only our schedule says when the next attempt is.
  const by = delivery.smtp_code === null ? 'us' : 'receiver';
  const given = { until: timeOf(dueAt), by, answer: lastAnswer(delivery), also } as const;
  return makeReason('waiting_for_retry', message, given);
}

function lastAnswer({ smtp_code: code, smtp_reply: reply }: DeliveryRow): string {
  if (reply === null) return '';
  const words = code === null || reply.startsWith(String(code)) ? reply : `${String(code)} ${reply}`;
  return ` The last answer was: ${words}`;
}

const timeOf = (at: number): number | null => (at >= HELD_WITHOUT_END ? null : at);

interface Details {
  since?: number | null;
  until?: number | null;
  by?: SetBy | null;
  /** The last answer as a sentence, left out of the summary. */
  answer?: string;
  also?: string;
}

function makeReason(
  reason: WaitReason,
  text: string,
  { since = null, until = null, by = null, answer = '', also = '' }: Details = {},
): Reason {
  const stop = answer === '' || also === '' || /[.!?]$/.test(answer) ? '' : '.';
  const message = `${text}${answer}${stop}${also}`;
  return { reason, message, summary: `${text}${also}`, since: rfc3339(since), until: rfc3339(until), set_by: by };
}

/** A mail, as far as its lane depends on it. */
export interface MailOfLane {
  domain: string;
  account: string;
  /** The stream of its message, which names the pool of sources; null if that is not known. */
  stream?: string | null;
  mark?: string | null;
}

/** The waits of the lane for a recipient's domain, and the hold on the lane. */
export interface LaneFacts {
  waits: readonly LaneWait[];
  held: Hold | null;
}

/** Returns the facts of each of these mails, in their order. Other nodes show those of the mail that they deliver. */
export type LaneFactsOf = (mails: readonly MailOfLane[]) => Promise<readonly LaneFacts[]>;

/** Returns when each delivery is tried next at the earliest: when due; later if its lane rests or its DNS is asked again; null if none is planned. */
export async function nextTries(
  laneFacts: LaneFactsOf,
  rows: readonly DeliveryRow[],
  now: number,
): Promise<readonly (string | null)[]> {
  const planned = rows.filter((row) => nextAttemptAt(row) !== null);
  const found = await laneFacts(
    planned.map(({ domain, account_id: account, held_by: mark }) => ({ domain, account, mark })),
  );
  const factsOfRow = new Map(planned.map((row, at) => [row, found[at]]));
  return rows.map((row) => {
    const facts = factsOfRow.get(row);
    if (facts === undefined) return nextAttemptAt(row);
    const { until } = reasonOf(row, { held: null, now, waits: facts.waits });
    const later = until === null ? 0 : Date.parse(until);
    return nextAttemptAt({ ...row, due_at: Math.max(row.due_at ?? 0, later) });
  });
}

export interface WhyDeps {
  db: { prepared: Connection };
  holdOf: HoldOf;
  laneFacts: LaneFactsOf;
}

export interface Waiting extends Reason {
  email: string;
  status: DeliveryRow['status'];
}

export async function whyWaiting(
  { db, holdOf, laneFacts }: WhyDeps,
  message: Pick<MessageRow, 'id' | 'account_id' | 'stream' | 'from_domain' | 'batch_id' | 'key_id' | 'created_at'>,
  now: number,
): Promise<Waiting[]> {
  const deliveries = await db.prepared.all<DeliveryRow>('SELECT * FROM deliveries WHERE message_id = ? ORDER BY id', [
    message.id,
  ]);
  const lanes = await laneFacts(
    deliveries.map(({ domain, held_by: mark }) => ({
      domain,
      account: message.account_id,
      stream: message.stream,
      mark,
    })),
  );
  return Promise.all(
    deliveries.map(async (delivery, at): Promise<Waiting> => {
      const lane: LaneFacts = lanes[at] ?? { waits: [], held: null };
      const held = delivery.test === 1 ? null : ((await holdOf(factsOf(message, delivery.domain))) ?? lane.held);
      const { address: email, status } = delivery;
      return { email, status, ...reasonOf(delivery, { held, now, waits: lane.waits }) };
    }),
  );
}

const factsOf = (
  message: Pick<MessageRow, 'id' | 'account_id' | 'stream' | 'from_domain' | 'batch_id' | 'key_id' | 'created_at'>,
  domain: string,
): MailFacts => ({
  accountId: message.account_id,
  stream: message.stream,
  fromDomain: message.from_domain,
  domain,
  messageId: message.id,
  batchId: message.batch_id,
  keyId: message.key_id,
  createdAt: message.created_at,
});

export const limitedWhats = ['connections', 'mails_per_minute', 'mails_per_hour', 'mails_per_day'] as const;

export interface LaneLimit {
  what: (typeof limitedWhats)[number];
  to: number;
  /** `rule`: a shaping rule of this server. `nodes`: the lane's limit is larger, and other nodes use the rest of it. */
  by: 'receiver' | 'rule' | 'operator' | 'start' | 'nodes';
  cause: string;
  since: number | null;
  /** The recipient domain that it is about; absent if it is about the whole lane. */
  domain?: string;
}

/** A lane with its jobs in memory, of which more may wait on disk, its busy workers and its limits. */
export interface LaneReport extends LaneView {
  source: string | null;
  limit: number;
  cause: string;
  causeAt: number | null;
  perMinute: number | null;
  limits: readonly LaneLimit[];
  /** No mail is tried before then, because no host is dialled or the lane rests; or null. */
  parkedUntil: number | null;
  /** The reasons why mail of the lane waits, the most telling first. */
  waits: readonly LaneWait[];
  lastReply: string | null;
  lastProgressAt: number;
  /** The last changes of its limits, oldest first. */
  changes: readonly LaneChange[];
}

export const blankLane = (name: string): LaneReport => ({
  name,
  waiting: 0,
  slots: 0,
  source: null,
  limit: 0,
  cause: 'not tried since the start',
  causeAt: null,
  perMinute: null,
  limits: [],
  parkedUntil: null,
  waits: [],
  lastReply: null,
  lastProgressAt: 0,
  changes: [],
});

export interface LaneChange {
  at: number;
  what: 'connections' | 'pace' | 'pause' | 'rule' | 'source';
  /** The new value, in words: `4 connections`. */
  to: string;
  cause: string;
}

export interface SourceReport {
  /** Null for the address that the system chooses. */
  readonly name: string | null;
  readonly pool: string;
  readonly ehlo: string;
  readonly ipv4: string | null;
  readonly ipv6: string | null;
  paused: boolean;
  /** Its addresses that this machine does not have. */
  absent: readonly string[];
  /** The sites that have it on a list, or all of them, and until when nothing goes there. */
  blocks: readonly { site: string; since: number; until: number; reply: string }[];
  /** Today's counts; empty if the source is warm. */
  warmUp: readonly { site: string; sent: number; cap: number | null }[];
}

export interface TranscriptPage {
  lines: readonly TranscriptLine[];
  /** The position after the last line, and how many lines before the first were not kept. */
  position: number;
  lost: number;
}

export interface TranscriptLine {
  at: number;
  /** Connections are numbered, since several may speak at once. */
  connection: number;
  lane: string;
  host: string;
  messageId: string;
  /** `>` is us. */
  side: '<' | '>';
  text: string;
}

/** Returns the numbers of a limit that the operator has set. */
export const limitsByHand = ({ connections, perMinute, perHour, perDay, cause: note, since }: Limit): LaneLimit[] => {
  const cause = `set by the operator${note === '' ? '' : `: ${note}`}`;
  const numbers = [connections, perMinute, perHour, perDay];
  return limitedWhats.flatMap((what, at) =>
    numbers[at] == null ? [] : { what, to: numbers[at], by: 'operator', cause, since },
  );
};
