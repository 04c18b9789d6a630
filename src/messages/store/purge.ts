/**
 * Removes old data: whole messages with all their rows in other tables, bodies, events, reports, audit lines. Unfinished mail is never touched, and
 * the books count what was removed, so they still balance. Old rows have to come from the disk. So they are chosen ahead on a reader while others
 * write.
 */
import { allEventTypes } from '../../events/event.ts';
import type { CounterRow, DeliveryRow, EventRow, MessageRow } from '../../storage/tables.ts';
import { removeContents, type RetentionPlace } from './stored-content.ts';
import { idFloor } from '../../base/id.ts';
import type { Connection, Value } from '../../storage/connection.ts';
import { insertRows } from '../../storage/rows.ts';
import { statement, type Dialect } from '../../storage/sql.ts';
import { addToCounters, PURGED, PURGED_ATTEMPTS } from './books.ts';
import { subjectWords } from '../list/message-filter.ts';

export type Reader = Pick<Connection, 'all'>;

/** The rows of which the oldest are chosen. */
export interface Range<Row> {
  /** Rows from before this time. */
  before: number;
  /** The account; things that do not belong to one account ignore it. */
  accountId: string;
  /** The last row that was chosen before and may not be removed yet. */
  after: Row | null;
  most: number;
}

/** Chooses and removes one kind of row. Others write between the steps: finished mail stays finished, and a row that is already gone does no harm. */
export interface Purge<Row> {
  /** Chooses the oldest rows to remove, none if there are none. */
  choose(reader: Reader, range: Range<Row>): Promise<Row[]>;
  remove(tx: Connection, rows: readonly Row[], now: number): Promise<void>;
}

const CONTENT_MARK = 'purge.content.';
/** Messages of an account that are passed over while they wait. With this many, the rest of its bodies waits for them. */
const MOST_PASSED = 1000;

/** Reads the setting of the account: the ids of `mark` and `passed`, with spaces between them. */
export async function retentionPlaceOf(connection: Reader, accountId: string): Promise<RetentionPlace> {
  const [row] = await connection.all<{ value: string }>('SELECT value FROM settings WHERE name = ?', [
    CONTENT_MARK + accountId,
  ]);
  const [mark = '', ...passed] = row?.value.split(' ') ?? [];
  return { mark, passed };
}

type BodyOwner = Pick<MessageRow, 'id' | 'account_id' | 'content_id' | 'batch_id'> & { waits: number };

const BODY_OWNERS = `SELECT m.id, m.account_id, m.content_id, m.batch_id,
    EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.id AND d.due_at IS NOT NULL) AS waits
  FROM messages m WHERE`;
const ownersNamed = statement(({ among }) => `${BODY_OWNERS} m.id ${among('text')} ORDER BY m.id`);

/** Removes bodies in the order of acceptance. It passes over messages that wait, such as those with a later `send_at`, and comes back to them. */
export const oldContents: Purge<BodyOwner> = {
  async choose(reader, { accountId, before, after, most }) {
    const { mark, passed } = await retentionPlaceOf(reader, accountId);
    const passedRows = passed.length === 0 ? [] : await reader.all<BodyOwner>(ownersNamed, [JSON.stringify(passed)]);
    const end = idFloor('msg', before);
    // The account may keep bodies longer now than when they were passed over.
    const finished = passedRows.filter(({ id, waits }) => waits === 0 && id > (after?.id ?? '') && id < end);
    if (finished.length > 0) return finished.slice(0, most);
    const from = after !== null && after.id > mark ? after.id : mark;
    const rows = await reader.all<BodyOwner>(
      `${BODY_OWNERS} m.account_id = ? AND m.id > ? AND m.id < ? ORDER BY m.id LIMIT ?`,
      [accountId, from, end, most],
    );
    let room = MOST_PASSED - passedRows.length;
    const beyond = rows.findIndex(({ waits }) => waits === 1 && --room < 0);
    return beyond < 0 ? rows : rows.slice(0, beyond);
  },
  async remove(tx, rows) {
    const newest = rows.at(-1);
    if (newest === undefined) return;
    const before = await retentionPlaceOf(tx, newest.account_id);
    const mark = newest.id > before.mark ? newest.id : before.mark;
    const gone = rows.filter(({ waits }) => waits === 0);
    const isGone = new Set(gone.map(({ id }) => id));
    await removeContents(tx, gone, { mark, passed: before.passed.filter((id) => !isGone.has(id)) });
    const passed = [...before.passed, ...rows.map(({ id }) => id)].filter((id) => !isGone.has(id));
    // One that was removed as a whole is not looked at again.
    const there = await tx.all<{ id: string }>(messagesNamed, [JSON.stringify(passed)]);
    const value = [mark, ...there.map(({ id }) => id)].join(' ');
    const name = CONTENT_MARK + newest.account_id;
    await tx.run('DELETE FROM settings WHERE name = ?', [name]);
    await tx.run('INSERT INTO settings (name, value) VALUES (?, ?)', [name, value]);
  },
};

const messagesNamed = statement(({ among }) => `SELECT id FROM messages WHERE id ${among('text')} ORDER BY id`);

/** Removes rows whose ids, which sort by time, are those of an earlier time. */
const oldIds = (
  table: 'audit' | 'request_details' | 'events' | 'reports',
  prefix: 'aud' | 'req' | 'evt' | 'rep',
  { column = 'id', where = 'true' }: { column?: string; where?: string } = {},
): Purge<{ id: string }> => ({
  choose: (reader, { before, after, most }) =>
    reader.all(
      `SELECT ${column} AS id FROM ${table} WHERE ${column} > ? AND ${column} < ? AND ${where} ORDER BY ${column} LIMIT ?`,
      [after?.id ?? '', idFloor(prefix, before), most],
    ),
  async remove(tx, rows) {
    await tx.run(
      statement(({ among }) => `DELETE FROM ${table} WHERE ${column} ${among('text')}`),
      [idsOf(rows)],
    );
  },
});

export const oldAuditLines = oldIds('audit', 'aud');
export const oldRequestDetails = oldIds('request_details', 'req', { column: 'request_id' });
/** Sequence numbers are never given again, so cursors stay valid. */
export const oldEvents = oldIds('events', 'evt');
/** Keeps reports that have not been read yet. */
export const oldReports = oldIds('reports', 'rep', { where: 'kind IS NOT NULL' });

type OldEvent = Pick<EventRow, 'id' | 'test' | 'type'> & { sequence: number };

const nextOfType = statement(
  ({ using }) => `SELECT id, test, type, sequence FROM events ${using('events_by_account')}
    WHERE account_id = ? AND test = ? AND type = ? AND sequence > ? AND sequence < ? ORDER BY sequence LIMIT ?`,
);

/** Removes type by type, in the order of the index: any other order would read all of the account's old events for each step. */
export const oldEventsOfAccount: Purge<OldEvent> = {
  async choose(reader, { accountId, before, after, most }) {
    // Numbers and ids ascend together, so the first young event ends the old ones.
    const [young] = await reader.all<Pick<OldEvent, 'sequence'>>(
      'SELECT sequence FROM events WHERE id >= ? ORDER BY id LIMIT 1',
      [idFloor('evt', before)],
    );
    const end = young?.sequence ?? Number.MAX_SAFE_INTEGER;
    const kinds = [0, 1].flatMap((test) => allEventTypes.map((type) => ({ test, type })));
    const begin = after === null ? 0 : kinds.findIndex(({ test, type }) => test === after.test && type === after.type);
    for (const [place, { test, type }] of kinds.slice(begin).entries()) {
      const rows = await reader.all<OldEvent>(nextOfType, [
        accountId,
        test,
        type,
        place === 0 ? (after?.sequence ?? 0) : 0,
        end,
        most,
      ]);
      if (rows.length > 0) return rows;
    }
    return [];
  },
  remove: (tx, rows, now) => oldEvents.remove(tx, rows, now),
};

const idsOf = (rows: readonly { id: string }[]): string => JSON.stringify(rows.map(({ id }) => id));

/** Removes the oldest first and skips unfinished ones. */
export const oldMessages: Purge<Leaving> = {
  choose(reader, { accountId, before, after, most }) {
    return reader.all<Leaving>(
      `SELECT m.id, m.account_id, m.batch_id, m.content_id, m.subject, m.tags_json, m.metadata_json
       FROM messages m WHERE m.account_id = ? AND m.id > ? AND m.id < ?
         AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.id AND d.due_at IS NOT NULL)
       ORDER BY m.id LIMIT ?`,
      [accountId, after?.id ?? '', idFloor('msg', before), most],
    );
  },
  remove: removeMessages,
};

/** The columns of a message by which its rows in other tables are found. */
type Leaving = Pick<
  MessageRow,
  'id' | 'account_id' | 'batch_id' | 'content_id' | 'subject' | 'tags_json' | 'metadata_json'
>;

/** Some rows of a table, as a statement names them behind FROM. */
interface Rows {
  from: (sql: Dialect) => string;
  values: readonly Value[];
}

const rowsWithin = (table: string, rows: readonly Leaving[]): Rows => ({
  from: ({ among }) => `${table} WHERE message_id ${among('text')}`,
  values: [idsOf(rows)],
});

/**
 * Returns the rows of tags, metadata and words, which are indexed by themselves and not by message: their keys are in the message's
 * row. The range from the oldest to the newest of these messages keeps the planner from reading all that the account ever sent with a tag.
 */
function marksOf(rows: readonly Leaving[]): Rows[] {
  const ids = rows.map(({ id }) => id).sort();
  const accountId = rows[0]?.account_id ?? '';
  const tags = new Set(rows.flatMap(({ tags_json }) => JSON.parse(tags_json) as string[]));
  const words = new Set(rows.flatMap(({ subject }) => subjectWords(subject)));
  const metadata = rows.flatMap(({ metadata_json }) =>
    Object.entries(JSON.parse(metadata_json) as Record<string, string>),
  );
  const marks = (table: string, is: (sql: Dialect) => string, keys: readonly unknown[]): Rows[] =>
    keys.length === 0
      ? []
      : [
          {
            from: (sql) =>
              `${table} WHERE account_id = ? AND ${is(sql)} AND message_id BETWEEN ? AND ? AND ${sql.unindexed('message_id')} ${sql.among('text')}`,
            values: [accountId, JSON.stringify(keys), ids[0] ?? '', ids.at(-1) ?? '', JSON.stringify(ids)],
          },
        ];
  return [
    ...marks('message_tags', ({ among }) => `tag ${among('text')}`, [...tags]),
    ...marks('message_words', ({ among }) => `word ${among('text')}`, [...words]),
    ...marks(
      'message_metadata',
      ({ unfold }) => `(name, value) IN (SELECT name, value FROM ${unfold('j', { name: 'text', value: 'text' })})`,
      metadata,
    ),
  ];
}

async function removeMessages(tx: Connection, rows: readonly Leaving[], now: number): Promise<void> {
  const counters = new Map<string, CounterRow>();
  const remove = <Row>({ from, values }: Rows, returned: string): Promise<Row[]> =>
    tx.all(
      statement((sql) => `DELETE FROM ${from(sql)} RETURNING ${returned}`),
      values,
    );
  const deliveries = await remove<Pick<DeliveryRow, 'account_id' | 'status' | 'due_at'>>(
    rowsWithin('deliveries', rows),
    'account_id, status, due_at',
  );
  for (const { account_id, status, due_at } of deliveries) {
    if (due_at !== null) throw new Error('mail that was finished waits again');
    addToCounters(counters, account_id, now, status, PURGED);
  }
  const attempts = await remove<{ outcome: string }>(rowsWithin('attempts', rows), 'outcome');
  const accountId = rows[0]?.account_id ?? '';
  for (const { outcome } of attempts)
    if (outcome === 'accepted') addToCounters(counters, accountId, now, PURGED_ATTEMPTS, PURGED);
  for (const { from, values } of marksOf(rows))
    await tx.run(
      statement((sql) => `DELETE FROM ${from(sql)}`),
      values,
    );
  await tx.run(
    statement(({ among }) => `DELETE FROM messages WHERE id ${among('text')}`),
    [idsOf(rows)],
  );
  await removeContents(tx, rows);
  await removeBatches(tx, rows);
  await insertRows(tx, [{ counters: [...counters.values()] }]);
}

/** Removes bulk sends with the last of their messages. */
async function removeBatches(tx: Connection, rows: readonly Leaving[]): Promise<void> {
  const ids = new Set(rows.flatMap(({ batch_id }) => batch_id ?? []));
  if (ids.size === 0) return;
  await tx.run(
    statement(
      ({ among }) => `DELETE FROM batches WHERE id ${among('text')}
       AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.batch_id = batches.id)`,
    ),
    [JSON.stringify([...ids])],
  );
}
