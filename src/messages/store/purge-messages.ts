/**
 * Removes finished messages that are old enough, with all their rows in other tables. The books count them, so they still balance.
 */
import { idFloor } from '../../base/id.ts';
import type { Connection, Value } from '../../storage/connection.ts';
import { insertRows } from '../../storage/rows.ts';
import { rowsParameter } from '../../storage/rows-parameter.ts';
import {
  deliveries as deliveryTable,
  type CounterRow,
  type DeliveryRow,
  type MessageRow,
} from '../../storage/tables.ts';
import { statement, type Dialect } from '../../storage/sql.ts';
import type { Purge, Reader } from './purge.ts';
import { addToCounters } from './counters.ts';
import { lookAtContents, removeContents } from './stored-content.ts';
import { subjectWords } from '../list/subject-words.ts';

/** Names in the books for recipients and accepted attempts that were removed. */
export const PURGED = 'purged';
export const PURGED_ATTEMPTS = 'accepted_attempt';

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
  lookAt,
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

const idsOf = (rows: readonly Leaving[]): string => JSON.stringify(rows.map(({ id }) => id));

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

const removedAddresses = rowsParameter(deliveryTable.columns, ['address_key', 'message_id']);

/** Reads all that will be removed, including index entries that are spread over the file. */
async function lookAt(reader: Reader, rows: readonly Leaving[]): Promise<void> {
  const deliveries = rowsWithin('deliveries', rows);
  const addresses = await reader.all<Pick<DeliveryRow, 'address_key' | 'message_id'>>(
    statement((sql) => `SELECT address_key, message_id FROM ${deliveries.from(sql)}`),
    deliveries.values,
  );
  await reader.all(
    statement(
      (sql) =>
        `SELECT COUNT(d.message_id) FROM ${removedAddresses.table(sql, 'x')}
         ${sql.thenJoin} deliveries d ${sql.using('deliveries_by_address')}
         ON d.address_key = x.address_key AND d.message_id = x.message_id`,
    ),
    [removedAddresses.json(addresses)],
  );
  const attempts = rowsWithin('attempts', rows);
  await reader.all(
    statement((sql) => `SELECT COUNT(outcome) FROM ${attempts.from(sql)}`),
    attempts.values,
  );
  for (const { from, values } of marksOf(rows))
    await reader.all(
      statement((sql) => `SELECT COUNT(*) FROM ${from(sql)}`),
      values,
    );
  await lookAtContents(reader, rows);
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
