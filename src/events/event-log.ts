/** Reads the event log. One writer numbers events at its commit, so they appear in order, and who asks for those after number n misses none. */
import type { Knex } from 'knex';
import type { Connection } from '../storage/connection.ts';
import { idFloor } from '../base/id.ts';
import { readBounded, readWhole, SLICES, type BoundedPage } from '../storage/page.ts';
import { dialectOf, statement } from '../storage/sql.ts';
import { eventTypes, type EventSource, type EventType } from './event.ts';

export interface EventFilter {
  accountId: string;
  /** Empty means the six default types. */
  types?: readonly EventType[] | undefined;
  messageId?: string | undefined;
  recipient?: string | undefined;
  batchId?: string | undefined;
  tag?: string | undefined;
  /** Half-open range of times in ms: from `occurredAfter` up to, not including, `occurredBefore`. */
  occurredAfter?: number | undefined;
  occurredBefore?: number | undefined;
  test?: boolean | undefined;
  /** Only events of messages that are simulated as a whole: live mail may have a recipient at the simulator. */
  ofTestMail?: boolean | undefined;
}

export interface EventPage {
  events: EventSource[];
  /** The position after the page: all matching events up to here were returned, or the limit was reached here. */
  position: number;
  /** The position from which to ask for the page before; null on an empty page of a list that was read to its end. */
  start: number | null;
  /** True if there is more in the direction that was asked for, which is possible even on an empty page. */
  hasMore: boolean;
}

const NEWEST = 'SELECT MAX(sequence) AS last FROM events';

/** Returns the newest sequence number, 0 if there are no events. */
export async function lastSequence(read: Knex): Promise<number> {
  const [row] = await read.raw<{ last: number | null }[]>(NEWEST);
  return row?.last ?? 0;
}

/** Returns the same, for readers that follow the log. */
export async function newestSequence(prepared: Connection): Promise<number> {
  const [row] = await prepared.all<{ last: number | null }>(NEWEST);
  return row?.last ?? 0;
}

/** Returns the sequence number of an event of this account, or null. */
export async function sequenceOf(read: Knex, accountId: string, eventId: string): Promise<number | null> {
  const row = (await read('events').select('sequence').where({ id: eventId, account_id: accountId }).first()) as
    { sequence: number } | undefined;
  return row?.sequence ?? null;
}

/** Reads up to `limit` events after position `after`, in sequence order. `slices` is smaller in tests. */
export async function eventsAfter(
  read: Knex,
  filter: EventFilter,
  after: number,
  limit: number,
  slices = SLICES,
): Promise<EventPage> {
  const last = await lastSequence(read);
  const { rows, hasMore, reached } = await pageOf(read, filter, { after, before: last + 1, limit, slices }, 'asc');
  const events = await sourcesOf(read, rows);
  const end = reached ?? rows.at(-1)?.sequence ?? after;
  return { events, start: rows[0]?.sequence ?? null, position: hasMore ? end : Math.max(last, after), hasMore };
}

/** Reads up to `limit` events before position `before`, in sequence order. */
export async function eventsBefore(
  read: Knex,
  filter: EventFilter,
  before: number,
  limit: number,
  slices = SLICES,
): Promise<EventPage> {
  const { rows, hasMore, reached } = await pageOf(read, filter, { after: 0, before, limit, slices }, 'desc');
  const events = await sourcesOf(read, rows.reverse());
  const start = reached ?? rows[0]?.sequence ?? null;
  return { events, start, position: rows.at(-1)?.sequence ?? before - 1, hasMore };
}

export interface LoggedEvent extends EventSource {
  account_id: string;
  /** 1 if the whole message is simulated, and not this recipient alone. */
  message_test: number;
}

/** The columns of an EventSource. A received mail has no delivery, and a message only if it answers one. */
const SOURCE = `e.sequence, e.id, e.type, e.at, e.test, e.message_id, e.delivery_id, e.status, e.machine, e.detail_json,
    m.batch_id, COALESCE(m.rfc_message_id, '') AS rfc_message_id, COALESCE(m.from_address, '') AS from_address,
    COALESCE(m.subject, '') AS subject, m.template_id, COALESCE(m.stream, '') AS stream,
    COALESCE(m.tags_json, '[]') AS tags_json, COALESCE(m.metadata_json, '{}') AS metadata_json,
    COALESCE(d.address, '') AS recipient, COALESCE(d.type, 'to') AS recipient_type`;

/** Events outlive their messages, and are not shown then. */
const LOGGED = `
  SELECT ${SOURCE}, e.account_id, COALESCE(m.test, 0) AS message_test
  FROM events e LEFT JOIN messages m ON m.id = e.message_id LEFT JOIN deliveries d ON d.id = e.delivery_id
  WHERE (d.id IS NOT NULL OR e.type = 'received')`;

/** Sequence numbers looked at by one read: among millions of other events those of a small account are far apart. */
const WINDOW = 2000;

/** Reads events of these accounts and of every type after position `after`, in sequence order. `position` and `hasMore` are as in EventPage. */
export async function followEvents(
  prepared: Connection,
  accountIds: readonly string[],
  after: number,
  limit: number,
): Promise<{ events: LoggedEvent[]; position: number; hasMore: boolean }> {
  const last = await newestSequence(prepared);
  if (last <= after) return { events: [], position: after, hasMore: false };
  const windowEnd = Math.min(last, after + WINDOW);
  const events = await prepared.all<LoggedEvent>(
    statement(
      ({ among }) => `${LOGGED} AND e.sequence > ? AND e.sequence <= ? AND e.account_id ${among('text')}
     ORDER BY e.sequence LIMIT ?`,
    ),
    [after, windowEnd, JSON.stringify(accountIds), limit],
  );
  const end = events.at(-1);
  const position = end !== undefined && events.length === limit ? end.sequence : windowEnd;
  return { events, position, hasMore: position < last };
}

const NUMBERED = statement(({ among }) => `${LOGGED} AND e.sequence ${among('integer')} ORDER BY e.sequence`);

/** Reads the events with these numbers that still exist, in sequence order. */
export const eventsNumbered = (prepared: Connection, sequences: readonly number[]): Promise<LoggedEvent[]> =>
  prepared.all<LoggedEvent>(NUMBERED, [JSON.stringify(sequences)]);

/** Events that a message shows. */
const SHOWN = 20;

/** Returns the last events of a message, opt-in types included, oldest first. */
export async function lastEventsOf(read: Knex, messageId: string): Promise<EventSource[]> {
  const last = `${LOGGED} AND e.message_id = ? ORDER BY e.sequence DESC LIMIT ?`;
  return (await read.raw<LoggedEvent[]>(last, [messageId, SHOWN])).reverse();
}

/** Tolerance for ids and times of events in one commit, which are some milliseconds apart. */
const ID_DRIFT_MS = 60_000;

interface Numbered {
  sequence: number;
}

/** Numbers of events, both ends exclusive. */
interface Range {
  after: number;
  before: number;
}

type Order = 'asc' | 'desc';

/** Finds the numbers of the events that fit; only then are events read, with their messages and recipients. */
async function pageOf(
  read: Knex,
  filter: EventFilter,
  wanted: Range & { limit: number; slices: readonly number[] },
  order: Order,
): Promise<BoundedPage<number, Numbered>> {
  const { limit, slices } = wanted;
  const whole = await withinTimes(read, filter, wanted);
  const edge = order === 'asc' ? whole.after : whole.before;
  const rangeOf = (from: number | null, to: number | null): Range =>
    order === 'asc'
      ? { after: from ?? whole.after, before: to === null ? whole.before : to + 1 }
      : { after: to === null ? whole.after : to - 1, before: from ?? whole.before };
  const most = slices.reduce((sum, count) => sum + count, 0) / EVENTS_OF_MESSAGE;
  const small = await smallIndex(read, filter, Math.ceil(most));
  const readFitting = async (from: number | null, to: number | null, mostRead: number): Promise<Numbered[]> => {
    const range = rangeOf(from, to);
    if (small !== null) {
      const { table, where, events } = small;
      const query = within(read.from(read.raw(`${table} ${events}`)), filter, range);
      const numbers = fitted(query, filter).where(where).whereIn('e.type', typesOf(filter));
      return (await numbers.orderBy('e.sequence', order).limit(mostRead)) as Numbered[];
    }
    const runs = runsOf(read, filter, range).map((run) => fitted(run, filter).limit(mostRead));
    return (await ofRuns(read, runs, order).limit(mostRead)) as Numbered[];
  };
  const { messageId, recipient, batchId, tag, ofTestMail = false } = filter;
  const isTested = ofTestMail || [messageId, recipient, batchId, tag].some((one) => one !== undefined);
  if (small !== null || !isTested) return readWhole({ readFitting }, edge, limit);
  /** The nearest position at which a run has given its share of `count` events; null if all runs have fewer. */
  const endOfSlice = async (from: number | null, count: number): Promise<number | null> => {
    const runs = runsOf(read, filter, rangeOf(from, null));
    const share = Math.ceil(count / runs.length);
    const ends = runs.map((run) => run.limit(1).offset(share - 1));
    const row = (await ofRuns(read, ends, order).first()) as Numbered | undefined;
    return row?.sequence ?? null;
  };
  return readBounded({ endOfSlice, readFitting }, edge, limit, slices);
}

const ofRuns = (read: Knex, runs: readonly Knex.QueryBuilder[], order: Order): Knex.QueryBuilder =>
  read
    .select('sequence')
    .from(
      read
        .unionAll(runs.map((run) => read.select('sequence').from(run.orderBy('e.sequence', order).as('run'))))
        .as('runs'),
    )
    .orderBy('sequence', order);

/** Narrows the numbers to the filter's times. Ids sort by time, so older and newer events are skipped without being read. */
async function withinTimes(read: Knex, { occurredAfter, occurredBefore }: EventFilter, range: Range): Promise<Range> {
  const firstFrom = async (floor: number, at: number): Promise<number | undefined> => {
    const query = read('events').select('sequence').where('id', '>=', idFloor('evt', floor)).where('at', '>=', at);
    const row = (await query.orderBy('id').first()) as Numbered | undefined;
    return row?.sequence;
  };
  const from = occurredAfter === undefined ? 1 : ((await firstFrom(occurredAfter - ID_DRIFT_MS, 0)) ?? Infinity);
  const to = occurredBefore === undefined ? undefined : await firstFrom(occurredBefore + ID_DRIFT_MS, occurredBefore);
  return {
    after: Math.max(range.after, Math.min(from - 1, range.before)),
    before: Math.min(range.before, to ?? range.before),
  };
}

/** Events of a message, about. An index with fewer messages than a request may look at events is read whole, otherwise the log is. */
const EVENTS_OF_MESSAGE = 4;

/** An index with few messages or deliveries: its name as a table, and its condition. */
interface SmallIndex {
  table: string;
  where: Readonly<Record<string, string>>;
  /** Joins its events. */
  events: string;
}

/** Returns the index of the first filter that fewer than `most` messages fit; null if there is none. */
async function smallIndex(read: Knex, filter: EventFilter, most: number): Promise<SmallIndex | null> {
  const { accountId, messageId, recipient, batchId, tag } = filter;
  const { thenJoin, using } = dialectOf(read);
  const ofMessage = (id: string): string =>
    `${thenJoin} events as e ${using('events_by_message')} on e.message_id = ${id}`;
  if (messageId !== undefined)
    return { table: 'messages as m', where: { 'm.id': messageId }, events: ofMessage('m.id') };
  const candidates: SmallIndex[] = [];
  if (recipient !== undefined)
    candidates.push({
      table: `deliveries as d ${using('deliveries_by_address')}`,
      where: { 'd.address_key': recipient },
      events: `${ofMessage('d.message_id')} and e.delivery_id = d.id`,
    });
  if (batchId !== undefined)
    candidates.push({
      table: `messages as m ${using('messages_by_batch')}`,
      where: { 'm.batch_id': batchId },
      events: ofMessage('m.id'),
    });
  if (tag !== undefined)
    candidates.push({
      table: 'message_tags as t',
      where: { 't.account_id': accountId, 't.tag': tag },
      events: ofMessage('t.message_id'),
    });
  for (const candidate of candidates) if (await hasFewer(read, candidate, most)) return candidate;
  return null;
}

async function hasFewer(read: Knex, { table, where }: SmallIndex, most: number): Promise<boolean> {
  const some = read.select(read.raw('1')).from(read.raw(table)).where(where).limit(most);
  const row = (await read.count({ n: '*' }).from(some.as('s')).first()) as { n: number } | undefined;
  return (row?.n ?? 0) < most;
}

export const typesOf = ({ types = [] }: EventFilter): readonly EventType[] => (types.length === 0 ? eventTypes : types);

/** Returns one query for each type, since each is a separate run in the account's index, in the order of the log. */
function runsOf(read: Knex, filter: EventFilter, range: Range): Knex.QueryBuilder[] {
  const tests = filter.test === undefined ? [0, 1] : [filter.test ? 1 : 0];
  return typesOf(filter).flatMap((type) =>
    tests.map((test) =>
      within(read.from(read.raw(`events as e ${dialectOf(read).using('events_by_account')}`)), filter, range).where({
        'e.test': test,
        'e.type': type,
      }),
    ),
  );
}

const within = (query: Knex.QueryBuilder, { accountId }: EventFilter, { after, before }: Range): Knex.QueryBuilder =>
  query
    .select('e.sequence')
    .where('e.account_id', accountId)
    .where('e.sequence', '>', after)
    .where('e.sequence', '<', before);

/** Adds the conditions of the filter other than the type. */
function fitted(query: Knex.QueryBuilder, filter: EventFilter): Knex.QueryBuilder {
  const { accountId, messageId, recipient, batchId, tag, occurredAfter, occurredBefore, test, ofTestMail } = filter;
  const has = (sql: string, ...values: string[]): Knex.QueryBuilder =>
    query.whereRaw(`EXISTS (SELECT 1 ${sql})`, values);
  if (messageId !== undefined) query.where('e.message_id', messageId);
  if (recipient !== undefined) has('FROM deliveries x WHERE x.id = e.delivery_id AND x.address_key = ?', recipient);
  if (batchId !== undefined) has('FROM messages x WHERE x.id = e.message_id AND x.batch_id = ?', batchId);
  if (tag !== undefined)
    has('FROM message_tags x WHERE x.account_id = ? AND x.tag = ? AND x.message_id = e.message_id', accountId, tag);
  if (occurredAfter !== undefined) query.where('e.at', '>=', occurredAfter);
  if (occurredBefore !== undefined) query.where('e.at', '<', occurredBefore);
  if (test !== undefined) query.where('e.test', test ? 1 : 0);
  if (ofTestMail === true) has('FROM messages x WHERE x.id = e.message_id AND x.test = 1');
  return query;
}

/** Events read at once: the driver makes their objects on the main thread, 10 us each. */
const READ_AT_ONCE = 200;

async function sourcesOf(read: Knex, rows: readonly Numbered[]): Promise<EventSource[]> {
  const events: EventSource[] = [];
  for (let at = 0; at < rows.length; at += READ_AT_ONCE) {
    const some = JSON.stringify(rows.slice(at, at + READ_AT_ONCE).map(({ sequence }) => sequence));
    events.push(...(await read.raw<LoggedEvent[]>(NUMBERED[dialectOf(read).engine], [some])));
  }
  return events;
}
