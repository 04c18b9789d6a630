/**
 * Reading the event log. Events become visible in the order of their sequence, since one writer gives the numbers at its
 * commit; so "what comes after number n" never misses one.
 */
import type { Knex } from 'knex';
import type { Connection } from '../storage/connection.ts';
import { idFloor } from '../base/id.ts';
import { eventTypes, type EventSource, type EventType } from './event.ts';

export interface EventFilter {
  accountId: string;
  /** Empty means the six kinds that everybody gets. */
  types?: readonly EventType[];
  messageId?: string;
  recipient?: string;
  batchId?: string;
  tag?: string;
  /** Half-open range of times in ms: from `occurredAfter` up to, not including, `occurredBefore`. */
  occurredAfter?: number;
  occurredBefore?: number;
  test?: boolean;
}

export interface EventPage {
  events: EventSource[];
  /** The position reached: everything up to here that matches was returned, or the limit was hit at it. */
  position: number;
  hasMore: boolean;
}

/** The newest sequence number, 0 where there are no events. */
export async function lastSequence(read: Knex): Promise<number> {
  const row = (await read('events').max({ last: 'sequence' }).first()) as { last: number | null } | undefined;
  return row?.last ?? 0;
}

/** The sequence number of an event of this account, or null. */
export async function sequenceOf(read: Knex, accountId: string, eventId: string): Promise<number | null> {
  const row = (await read('events').select('sequence').where({ id: eventId, account_id: accountId }).first()) as
    { sequence: number } | undefined;
  return row?.sequence ?? null;
}

/** Up to `limit` events after position `after`, in sequence order. */
export async function eventsAfter(read: Knex, filter: EventFilter, after: number, limit: number): Promise<EventPage> {
  const last = await lastSequence(read);
  const events = (await matching(read, filter)
    .where('e.sequence', '>', after)
    .where('e.sequence', '<=', last)
    .orderBy('e.sequence')
    .limit(limit + 1)) as EventSource[];
  const hasMore = events.length > limit;
  if (hasMore) events.length = limit;
  const end = events.at(-1)?.sequence ?? after;
  return { events, position: hasMore ? end : Math.max(last, after), hasMore };
}

/** Up to `limit` events before position `before`, in sequence order. */
export async function eventsBefore(read: Knex, filter: EventFilter, before: number, limit: number): Promise<EventPage> {
  const events = (await matching(read, filter)
    .where('e.sequence', '<', before)
    .orderBy('e.sequence', 'desc')
    .limit(limit + 1)) as EventSource[];
  const hasMore = events.length > limit;
  if (hasMore) events.length = limit;
  events.reverse();
  return { events, position: events.at(-1)?.sequence ?? before - 1, hasMore };
}

/** An event with whose it is. */
export interface LoggedEvent extends EventSource {
  account_id: string;
}

const LOGGED = `
  SELECT e.sequence, e.id, e.account_id, e.type, e.at, e.test, e.message_id, e.status, e.machine, e.detail_json,
    m.batch_id, m.rfc_message_id, m.from_address, m.subject, m.template_id, m.stream, m.tags_json, m.metadata_json,
    d.address AS recipient, d.type AS recipient_type
  FROM events e JOIN messages m ON m.id = e.message_id JOIN deliveries d ON d.id = e.delivery_id`;

/** Numbers looked at by one read: among millions of others' events those of a small account are far apart. */
const WINDOW = 2000;

/**
 * The events of these accounts after position `after`, of every kind, in sequence order: for readers who follow the log.
 * `position` and `hasMore` are as in EventPage, but an empty page may have more behind it.
 */
export async function followEvents(
  fast: Connection,
  accountIds: readonly string[],
  after: number,
  limit: number,
): Promise<{ events: LoggedEvent[]; position: number; hasMore: boolean }> {
  const [newest] = await fast.all<{ last: number | null }>('SELECT MAX(sequence) AS last FROM events');
  const last = newest?.last ?? 0;
  if (last <= after) return { events: [], position: after, hasMore: false };
  const windowEnd = Math.min(last, after + WINDOW);
  const events = await fast.all<LoggedEvent>(
    `${LOGGED} WHERE e.sequence > ? AND e.sequence <= ? AND e.account_id IN (SELECT value FROM json_each(?))
     ORDER BY e.sequence LIMIT ?`,
    [after, windowEnd, JSON.stringify(accountIds), limit],
  );
  const end = events.at(-1);
  const position = end !== undefined && events.length === limit ? end.sequence : windowEnd;
  return { events, position, hasMore: position < last };
}

/** The events with these numbers, those that are still there, in sequence order. */
export function eventsNumbered(fast: Connection, sequences: readonly number[]): Promise<LoggedEvent[]> {
  return fast.all<LoggedEvent>(`${LOGGED} WHERE e.sequence IN (SELECT value FROM json_each(?)) ORDER BY e.sequence`, [
    JSON.stringify(sequences),
  ]);
}

/** How many events a message shows. */
const SHOWN = 20;

/** The last events of a message, opt-in kinds included, oldest first. */
export async function lastEventsOf(read: Knex, messageId: string): Promise<EventSource[]> {
  const rows = (await sources(read)
    .where('e.message_id', messageId)
    .orderBy('e.sequence', 'desc')
    .limit(SHOWN)) as EventSource[];
  return rows.reverse();
}

/** Events of one commit have their ids and their times some milliseconds apart. */
const ID_DRIFT_MS = 60_000;

function matching(read: Knex, filter: EventFilter): Knex.QueryBuilder {
  const { types = [], messageId, recipient, batchId, tag, occurredAfter, occurredBefore, test } = filter;
  const query = sources(read)
    .where('e.account_id', filter.accountId)
    .whereIn('e.type', types.length === 0 ? eventTypes : types);
  if (messageId !== undefined) query.where('e.message_id', messageId);
  if (recipient !== undefined) query.where('d.address_key', recipient);
  if (batchId !== undefined) query.where('m.batch_id', batchId);
  if (tag !== undefined) {
    query.whereIn(
      'e.message_id',
      read('message_tags').select('message_id').where({ account_id: filter.accountId, tag }),
    );
  }
  if (occurredAfter !== undefined) {
    // Ids sort by time, so what is older needs not be read to be passed over.
    const floor = read('events')
      .select('sequence')
      .where('id', '>=', idFloor('evt', occurredAfter - ID_DRIFT_MS));
    query.where('e.at', '>=', occurredAfter).where('e.sequence', '>=', floor.orderBy('id').limit(1));
  }
  if (occurredBefore !== undefined) query.where('e.at', '<', occurredBefore);
  if (test !== undefined) query.where('e.test', test ? 1 : 0);
  return query;
}

const sources = (read: Knex): Knex.QueryBuilder =>
  read('events as e')
    .join('messages as m', 'm.id', 'e.message_id')
    .join('deliveries as d', 'd.id', 'e.delivery_id')
    .select(
      'e.sequence', 'e.id', 'e.type', 'e.at', 'e.test', 'e.message_id', 'e.status', 'e.machine', 'e.detail_json',
      'm.batch_id', 'm.rfc_message_id', 'm.from_address', 'm.subject', 'm.template_id', 'm.stream', 'm.tags_json', 'm.metadata_json',
      'd.address as recipient', 'd.type as recipient_type',
    ); // prettier-ignore
