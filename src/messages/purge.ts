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
    const rows = await tx.all<Pick<MessageRow, 'id' | 'content_id'> & { waits: number }>(
      `SELECT m.id, m.content_id, EXISTS (
         SELECT 1 FROM messages o JOIN deliveries d ON d.message_id = o.id
         WHERE d.due_at IS NOT NULL AND (o.id = m.id OR (m.batch_id IS NOT NULL AND o.batch_id = m.batch_id))) AS waits
       FROM messages m WHERE m.account_id = ? AND m.id > ? AND m.id < ? ORDER BY m.id LIMIT ?`,
      [accountId, last?.value ?? '', idFloor('msg', before), most],
    );
    const end = rows.findIndex(({ waits }) => waits === 1);
    const passed = end < 0 ? rows : rows.slice(0, end);
    const newest = passed.at(-1);
    if (newest === undefined) return 0;
    await removeContents(
      tx,
      passed.map(({ content_id }) => content_id),
    );
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
    const rows = await tx.all<MessageRow>(
      `SELECT m.* FROM messages m WHERE m.account_id = ? AND m.id < ?
         AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.id AND d.due_at IS NOT NULL)
       ORDER BY m.id LIMIT ?`,
      [accountId, idFloor('msg', before), most],
    );
    if (rows.length > 0) await removeMessages(tx, rows, now);
    return rows.length;
  });
}

async function removeMessages(tx: Connection, rows: readonly MessageRow[], now: number): Promise<void> {
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
  // Entries of a bulk send share their body: the last of them takes it along.
  const contents = JSON.stringify(rows.map(({ content_id, batch_id }) => [content_id, batch_id]));
  const unused = await tx.all<{ id: string }>(
    `SELECT DISTINCT value->>0 AS id FROM json_each(?) WHERE NOT EXISTS (
       SELECT 1 FROM messages m WHERE m.batch_id = value->>1 AND m.content_id = value->>0)`,
    [contents],
  );
  await removeContents(
    tx,
    unused.map(({ id }) => id),
  );
  await removeBatches(tx, rows);
  await insertRows(tx, [{ counters: [...counters.values()] }]);
}

/** A bulk send is forgotten with the last of its messages. */
async function removeBatches(tx: Connection, rows: readonly MessageRow[]): Promise<void> {
  const ids = new Set(rows.flatMap(({ batch_id }) => batch_id ?? []));
  if (ids.size === 0) return;
  await tx.run(
    `DELETE FROM batches WHERE id IN (SELECT value FROM json_each(?))
       AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.batch_id = batches.id)`,
    [JSON.stringify([...ids])],
  );
}

/** Tags, metadata and words are indexed by themselves, not by message: their keys stand in the message's row. */
async function removeMarks(tx: Connection, rows: readonly MessageRow[]): Promise<void> {
  const tags = rows.flatMap(({ account_id, id, tags_json }) => (JSON.parse(tags_json) as string[]).map((tag) => [account_id, tag, id])); // prettier-ignore
  const metadata = rows.flatMap(({ account_id, id, metadata_json }) => Object.entries(JSON.parse(metadata_json) as Record<string, string>).map(([name, value]) => [account_id, name, value, id])); // prettier-ignore
  const words = rows.flatMap(({ account_id, id, subject }) => subjectWords(subject).map((word) => [account_id, word, id])); // prettier-ignore
  await tx.run(
    'DELETE FROM message_words WHERE (account_id, word, message_id) IN (SELECT value->>0, value->>1, value->>2 FROM json_each(?))',
    [JSON.stringify(words)],
  );
  if (tags.length > 0)
    await tx.run(
      'DELETE FROM message_tags WHERE (account_id, tag, message_id) IN (SELECT value->>0, value->>1, value->>2 FROM json_each(?))',
      [JSON.stringify(tags)],
    );
  if (metadata.length > 0)
    await tx.run(
      'DELETE FROM message_metadata WHERE (account_id, name, value, message_id) IN (SELECT value->>0, value->>1, value->>2, value->>3 FROM json_each(?))',
      [JSON.stringify(metadata)],
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
