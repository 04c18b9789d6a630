/**
 * What goes when it is old enough: bodies, finished messages with all that belongs to them, events, audit lines. Mail that is not
 * finished is never touched. The books count what goes, so that they still balance.
 */
import { idFloor } from '../base/id.ts';
import type { Connection } from '../storage/connection.ts';
import type { Committer } from '../storage/commit.ts';
import { allEventTypes } from '../events/event.ts';
import { insertRows } from '../storage/rows.ts';
import type { CounterRow, DeliveryRow, MessageRow } from '../storage/tables.ts';
import { count } from './record.ts';
import { removeContents } from './stored-content.ts';
import { subjectWords } from './subject-words.ts';

/** What a purge writes through. `most`, of each purge: how many rows it may take at once. */
type Transactor = Pick<Committer, 'transact'>;

/** In the books: accepted attempts that went, and statuses of recipients that went. */
export const PURGED = 'purged';
export const PURGED_ATTEMPTS = 'accepted_attempt';

const CONTENT_MARK = 'purge.content.';

/**
 * Removes the bodies of an account's messages accepted before `before`; returns how many messages were passed. Messages are
 * passed in the order of acceptance, from where the last step ended up to the first that is not finished.
 */
export function purgeContents(commit: Transactor, accountId: string, before: number, most: number): Promise<number> {
  return commit.transact(async (tx) => {
    const mark = `${CONTENT_MARK}${accountId}`;
    const [last] = await tx.all<{ value: string }>('SELECT value FROM settings WHERE name = ?', [mark]);
    const rows = await tx.all<Pick<MessageRow, 'id' | 'content_id' | 'batch_id'> & { waits: number }>(
      `SELECT m.id, m.content_id, m.batch_id,
         EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.id AND d.due_at IS NOT NULL) AS waits
       FROM messages m WHERE m.account_id = ? AND m.id > ? AND m.id < ? ORDER BY m.id LIMIT ?`,
      [accountId, last?.value ?? '', idFloor('msg', before), most],
    );
    const end = rows.findIndex(({ waits }) => waits === 1);
    const passed = end < 0 ? rows : rows.slice(0, end);
    const newest = passed.at(-1);
    if (newest === undefined) return 0;
    await removeContents(tx, await unshared(tx, passed, newest.id));
    await tx.run('DELETE FROM settings WHERE name = ?', [mark]);
    await tx.run('INSERT INTO settings (name, value) VALUES (?, ?)', [mark, newest.id]);
    return passed.length;
  });
}

/** Removes finished messages of an account accepted before `before`, oldest first; returns how many. */
export function purgeMessages(
  commit: Transactor,
  accountId: string,
  { before, now, most }: { before: number; now: number; most: number },
): Promise<number> {
  return commit.transact(async (tx) => {
    const rows = await tx.all<Leaving>(
      `SELECT m.id, m.account_id, m.batch_id, m.content_id, m.subject, m.tags_json, m.metadata_json FROM messages m WHERE m.account_id = ? AND m.id < ?
         AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.id AND d.due_at IS NOT NULL)
       ORDER BY m.id LIMIT ?`,
      [accountId, idFloor('msg', before), most],
    );
    if (rows.length > 0) await removeMessages(tx, rows, now);
    return rows.length;
  });
}

/** What has to be known of a message to find all that belongs to it. */
type Leaving = Pick<
  MessageRow,
  'id' | 'account_id' | 'batch_id' | 'content_id' | 'subject' | 'tags_json' | 'metadata_json'
>;

async function removeMessages(tx: Connection, rows: readonly Leaving[], now: number): Promise<void> {
  const ids = JSON.stringify(rows.map(({ id }) => id));
  const counters = new Map<string, CounterRow>();
  const within = 'message_id IN (SELECT value FROM json_each(?))';
  const deliveries = await tx.all<Pick<DeliveryRow, 'account_id' | 'status'>>(
    `DELETE FROM deliveries WHERE ${within} RETURNING account_id, status`,
    [ids],
  );
  for (const { account_id, status } of deliveries) count(counters, account_id, now, status, PURGED);
  const attempts = await tx.all<{ outcome: string }>(`DELETE FROM attempts WHERE ${within} RETURNING outcome`, [ids]);
  const accountId = rows[0]?.account_id ?? '';
  for (const { outcome } of attempts)
    if (outcome === 'accepted') count(counters, accountId, now, PURGED_ATTEMPTS, PURGED);
  await removeMarks(tx, rows);
  await tx.run('DELETE FROM messages WHERE id IN (SELECT value FROM json_each(?))', [ids]);
  await removeContents(tx, await unshared(tx, rows, ''));
  await removeBatches(tx, rows);
  await insertRows(tx, [{ counters: [...counters.values()] }]);
}

/**
 * The bodies of these messages that no other needs: entries of a bulk send share theirs, and the last of them takes it along.
 * `after`: only messages with later ids count as others. Bulk send by bulk send, as each has a thousand messages at most.
 */
async function unshared(
  tx: Connection,
  rows: readonly Pick<MessageRow, 'content_id' | 'batch_id'>[],
  after: string,
): Promise<string[]> {
  const batches = new Set(rows.flatMap(({ batch_id }) => batch_id ?? []));
  const needed = new Set<string>();
  for (const batch of batches) {
    const others = await tx.all<{ content_id: string }>(
      'SELECT DISTINCT content_id FROM messages WHERE batch_id = ? AND id > ?',
      [batch, after],
    );
    for (const { content_id } of others) needed.add(content_id);
  }
  return [...new Set(rows.map(({ content_id }) => content_id))].filter((id) => !needed.has(id));
}

/** A bulk send is forgotten with the last of its messages. */
async function removeBatches(tx: Connection, rows: readonly Leaving[]): Promise<void> {
  const ids = new Set(rows.flatMap(({ batch_id }) => batch_id ?? []));
  if (ids.size === 0) return;
  await tx.run(
    `DELETE FROM batches WHERE id IN (SELECT value FROM json_each(?))
       AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.batch_id = batches.id)`,
    [JSON.stringify([...ids])],
  );
}

/**
 * Tags, metadata and words are indexed by themselves, not by message: their keys stand in the message's row. What is asked for is
 * their rows from the oldest to the newest of these messages: without that range the planner takes the tag or word alone for
 * choice enough, and reads all that the account ever sent with it.
 */
async function removeMarks(tx: Connection, rows: readonly Leaving[]): Promise<void> {
  const ids = rows.map(({ id }) => id).sort();
  const within = 'message_id BETWEEN ? AND ? AND +message_id IN (SELECT value FROM json_each(?))';
  const range = [ids[0] ?? '', ids.at(-1) ?? '', JSON.stringify(ids)];
  const accountId = rows[0]?.account_id ?? '';
  const tags = new Set(rows.flatMap(({ tags_json }) => JSON.parse(tags_json) as string[]));
  const words = new Set(rows.flatMap(({ subject }) => subjectWords(subject)));
  for (const [table, column, values] of [
    ['message_tags', 'tag', tags],
    ['message_words', 'word', words],
  ] as const)
    if (values.size > 0)
      await tx.run(
        `DELETE FROM ${table} WHERE account_id = ? AND ${column} IN (SELECT value FROM json_each(?)) AND ${within}`,
        [accountId, JSON.stringify([...values]), ...range],
      );
  const metadata = rows.flatMap(({ metadata_json }) => Object.entries(JSON.parse(metadata_json) as Record<string, string>)); // prettier-ignore
  if (metadata.length > 0)
    await tx.run(
      `DELETE FROM message_metadata WHERE account_id = ?
         AND (name, value) IN (SELECT value->>0, value->>1 FROM json_each(?)) AND ${within}`,
      [accountId, JSON.stringify(metadata), ...range],
    );
}

/** Removes the oldest events from before `before`; returns how many. Numbers are never given twice, so cursors stay good. */
export async function purgeEvents(commit: Transactor, before: number, most: number): Promise<number> {
  const removed = await commit.transact((tx) =>
    tx.all(
      `DELETE FROM events WHERE sequence IN (SELECT sequence FROM events ORDER BY sequence LIMIT ?) AND at < ? RETURNING sequence`,
      [most, before],
    ),
  );
  return removed.length;
}

/** Removes events of one account from before `before`, up to `most`; returns how many. */
export async function purgeEventsOf(
  commit: Transactor,
  accountId: string,
  before: number,
  most: number,
): Promise<number> {
  const removed = await commit.transact(async (tx) => {
    // Numbers and ids ascend together: the first that is young enough ends the old ones.
    const [young] = await tx.all<{ sequence: number }>('SELECT sequence FROM events WHERE id >= ? ORDER BY id LIMIT 1', [idFloor('evt', before)]); // prettier-ignore
    return tx.all(
      `DELETE FROM events WHERE sequence IN (
         SELECT sequence FROM events INDEXED BY events_by_account WHERE account_id = ? AND test IN (0, 1)
           AND type IN (SELECT value FROM json_each(?)) AND sequence < ? LIMIT ?) RETURNING sequence`,
      [accountId, JSON.stringify(allEventTypes), young?.sequence ?? Number.MAX_SAFE_INTEGER, most],
    );
  });
  return removed.length;
}

/** Removes the oldest reports that came in before `before`; returns how many. One that nobody has read yet stays. */
export async function purgeReports(commit: Transactor, before: number, most: number): Promise<number> {
  const removed = await commit.transact((tx) =>
    tx.all(
      'DELETE FROM reports WHERE id IN (SELECT id FROM reports WHERE received_at < ? AND kind IS NOT NULL ORDER BY received_at LIMIT ?) RETURNING id',
      [before, most],
    ),
  );
  return removed.length;
}

/** Removes the oldest lines of the audit log from before `before`; returns how many. */
export async function purgeAudit(commit: Transactor, before: number, most: number): Promise<number> {
  const removed = await commit.transact((tx) =>
    tx.all('DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < ? ORDER BY id LIMIT ?) RETURNING id', [
      idFloor('aud', before),
      most,
    ]),
  );
  return removed.length;
}
