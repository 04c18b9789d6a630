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
  const events = await matching(read, filter, { from: after, to: last + 1, descending: false, limit: limit + 1 });
  const hasMore = events.length > limit;
  if (hasMore) events.length = limit;
  const end = events.at(-1)?.sequence ?? after;
  return { events, position: hasMore ? end : Math.max(last, after), hasMore };
}

/** Up to `limit` events before position `before`, in sequence order. */
export async function eventsBefore(read: Knex, filter: EventFilter, before: number, limit: number): Promise<EventPage> {
  const events = await matching(read, filter, { from: 0, to: before, descending: true, limit: limit + 1 });
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
  const last = await newestSequence(fast);
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

/** The same as lastSequence, for who follows the log. */
export async function newestSequence(fast: Connection): Promise<number> {
  const [newest] = await fast.all<{ last: number | null }>('SELECT MAX(sequence) AS last FROM events');
  return newest?.last ?? 0;
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

/** Which numbers, both ends exclusive, from which end, and how many at most. */
interface Part {
  from: number;
  to: number;
  descending: boolean;
  limit: number;
}

/** The numbers that fit are found in an index first; only then are events read, with their messages and recipients. */
async function matching(read: Knex, filter: EventFilter, part: Part): Promise<EventSource[]> {
  const within = await narrowed(read, filter, part);
  const order = part.descending ? 'desc' : 'asc';
  const found = await (isOfBatch(filter) ? numbersOfBatch(read, filter, within) : numbersInOrder(read, filter, within));
  if (found.length === 0) return [];
  return (await sources(read)
    .whereRaw('e.sequence IN (SELECT value FROM json_each(?))', [JSON.stringify(found.map(({ sequence }) => sequence))])
    .orderBy('e.sequence', order)) as EventSource[];
}

interface Numbered {
  sequence: number;
}

async function numbersInOrder(read: Knex, filter: EventFilter, part: Part): Promise<Numbered[]> {
  const byTag = filter.tag !== undefined && (await hasFew(read, filter.accountId, filter.tag));
  const numbers = numbersOf(read, filter, part, byTag);
  return (await numbers.orderBy('sequence', part.descending ? 'desc' : 'asc').limit(part.limit)) as Numbered[];
}

type OfBatch = EventFilter & { batchId: string };

/** Whether the bulk send is what fits fewest. */
const isOfBatch = (filter: EventFilter): filter is OfBatch =>
  filter.batchId !== undefined && filter.messageId === undefined && filter.recipient === undefined;

/** Numbers of a bulk send's events that are looked at first, for each that is wanted, and by what more there are each time that they were not enough. */
const [LOOKED_AT_FIRST, MORE_EACH_TIME] = [4, 8];

/** All numbers of a bulk send stand in an index; only those that come next in the log are looked at as events. */
async function numbersOfBatch(read: Knex, { batchId, ...others }: OfBatch, part: Part): Promise<Numbered[]> {
  const order = part.descending ? 'desc' : 'asc';
  const found: Numbered[] = [];
  let { from, to } = part;
  for (let take = part.limit * LOOKED_AT_FIRST; ; take *= MORE_EACH_TIME) {
    const next = (await read
      .select('e.sequence')
      .from(
        read.raw(
          'messages as m indexed by messages_by_batch cross join events as e indexed by events_by_message on e.message_id = m.id',
        ) as unknown as string,
      )
      .where('m.batch_id', batchId)
      .where('e.sequence', '>', from)
      .where('e.sequence', '<', to)
      .orderBy('e.sequence', order)
      .limit(take)) as Numbered[];
    const named = JSON.stringify(next.map(({ sequence }) => sequence));
    const looked = read.raw('json_each(?) as s cross join events as e on e.sequence = s.value', [named]);
    const fitting = suitable(read.from(looked as unknown as string), others, part).whereIn('e.type', typesOf(others));
    found.push(...((await fitting.orderBy('e.sequence', order).limit(part.limit - found.length)) as Numbered[]));
    const last = next.at(-1)?.sequence;
    if (last === undefined || next.length < take || found.length >= part.limit) return found;
    if (part.descending) to = last;
    else from = last;
  }
}

/** Ids sort by time, so what is older or newer needs not be read to be passed over. */
async function narrowed(read: Knex, { occurredAfter, occurredBefore }: EventFilter, part: Part): Promise<Part> {
  const firstFrom = async (floor: number, at: number): Promise<number | undefined> => {
    const query = read('events').select('sequence').where('id', '>=', idFloor('evt', floor)).where('at', '>=', at);
    const row = (await query.orderBy('id').first()) as { sequence: number } | undefined;
    return row?.sequence;
  };
  const from = occurredAfter === undefined ? 1 : ((await firstFrom(occurredAfter - ID_DRIFT_MS, 0)) ?? Infinity);
  const to = occurredBefore === undefined ? undefined : await firstFrom(occurredBefore + ID_DRIFT_MS, occurredBefore);
  return { ...part, from: Math.max(part.from, Math.min(from - 1, part.to)), to: Math.min(part.to, to ?? part.to) };
}

/** Messages with a tag up to which their events are read one message after the other; beyond, the log is read in its order. */
const FEW_MESSAGES = 20_000;

function numbersOf(read: Knex, filter: EventFilter, part: Part, byTag: boolean): Knex.QueryBuilder {
  const { accountId, messageId, recipient, tag } = filter;
  const { recipient: _recipient, ...butRecipient } = filter;
  const { tag: _tag, ...butTag } = filter;
  const few = (from: string, others: EventFilter): Knex.QueryBuilder =>
    suitable(read.from(read.raw(from) as unknown as string), others, part).whereIn('e.type', typesOf(filter));
  const EVENTS = 'cross join events as e indexed by events_by_message on e.message_id';
  if (messageId !== undefined)
    return few('events as e indexed by events_by_message', filter).where('e.message_id', messageId);
  if (recipient !== undefined)
    return few(
      `deliveries as d indexed by deliveries_by_address ${EVENTS} = d.message_id and e.delivery_id = d.id`,
      butRecipient,
    ).where('d.address_key', recipient);
  if (tag !== undefined && byTag)
    return few(`message_tags as t ${EVENTS} = t.message_id`, butTag).where({ 't.account_id': accountId, 't.tag': tag });
  return inOrder(read, filter, part);
}

/** The kinds that a filter lets through. */
export const typesOf = ({ types = [] }: EventFilter): readonly EventType[] => (types.length === 0 ? eventTypes : types);

/** Each kind is a run of its own in the index, in the order of the log; together they are as many as one page has. */
function inOrder(read: Knex, filter: EventFilter, part: Part): Knex.QueryBuilder {
  const tests = filter.test === undefined ? [0, 1] : [filter.test ? 1 : 0];
  const runs = typesOf(filter).flatMap((type) =>
    tests.map((test) => {
      const from = read.raw('events as e indexed by events_by_account') as unknown as string;
      const run = suitable(read.from(from), filter, part).where({ 'e.test': test, 'e.type': type });
      return read.select('sequence').from(
        run
          .orderBy('e.sequence', part.descending ? 'desc' : 'asc')
          .limit(part.limit)
          .as('run'),
      );
    }),
  );
  return read.select('sequence').from(read.unionAll(runs).as('runs'));
}

/** The numbers of what fits apart from its kind. */
function suitable(query: Knex.QueryBuilder, filter: EventFilter, { from, to }: Part): Knex.QueryBuilder {
  const { accountId, messageId, recipient, batchId, tag, occurredAfter, occurredBefore, test } = filter;
  const has = (sql: string, ...values: string[]): Knex.QueryBuilder =>
    query.whereRaw(`EXISTS (SELECT 1 ${sql})`, values);
  query
    .select('e.sequence')
    .where('e.account_id', accountId)
    .where('e.sequence', '>', from)
    .where('e.sequence', '<', to);
  if (messageId !== undefined) query.where('e.message_id', messageId);
  if (recipient !== undefined) has('FROM deliveries x WHERE x.id = e.delivery_id AND x.address_key = ?', recipient);
  if (batchId !== undefined) has('FROM messages x WHERE x.id = e.message_id AND x.batch_id = ?', batchId);
  if (tag !== undefined)
    has('FROM message_tags x WHERE x.account_id = ? AND x.tag = ? AND x.message_id = e.message_id', accountId, tag);
  if (occurredAfter !== undefined) query.where('e.at', '>=', occurredAfter);
  if (occurredBefore !== undefined) query.where('e.at', '<', occurredBefore);
  if (test !== undefined) query.where('e.test', test ? 1 : 0);
  return query;
}

async function hasFew(read: Knex, accountId: string, tag: string): Promise<boolean> {
  const some = read('message_tags').select(read.raw('1')).where({ account_id: accountId, tag }).limit(FEW_MESSAGES);
  const row = (await read.count({ n: '*' }).from(some.as('s')).first()) as { n: number } | undefined;
  return (row?.n ?? 0) < FEW_MESSAGES;
}

const sources = (read: Knex): Knex.QueryBuilder =>
  read('events as e')
    .join('messages as m', 'm.id', 'e.message_id')
    .join('deliveries as d', 'd.id', 'e.delivery_id')
    .select(
      'e.sequence',
      'e.id',
      'e.type',
      'e.at',
      'e.test',
      'e.message_id',
      'e.status',
      'e.machine',
      'e.detail_json',
      'm.batch_id',
      'm.rfc_message_id',
      'm.from_address',
      'm.subject',
      'm.template_id',
      'm.stream',
      'm.tags_json',
      'm.metadata_json',
      'd.address as recipient',
      'd.type as recipient_type',
    );
