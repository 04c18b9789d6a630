/** Streams: kinds of mail with their own suppressions, sources and priority. Each account begins with two. */
import { newId } from '../base/id.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import { Problem, notFound } from '../base/problem.ts';
import type { StoreDeps } from '../storage/database.ts';
import { readPage } from '../storage/page.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import { DEFAULT_POOL, type StreamRow } from '../storage/tables.ts';

export interface StreamDeps extends StoreDeps {
  /** Is called when a stream changes, to clear caches. */
  changed?: (accountId: string, slug: string) => void;
}

export interface NewStream {
  accountId: string;
  slug: string;
  name: string;
  type: StreamRow['type'];
  pool?: string | undefined;
  /** 0 is sent before 1; by default 0 for transactional and 1 for broadcast. */
  priority?: number | undefined;
}

export interface StreamChanges {
  name?: string | undefined;
  pool?: string | undefined;
  priority?: number | undefined;
  paused?: boolean | undefined;
}

/** The streams of mail that names none; they cannot be removed. */
const BUILT_IN: readonly string[] = ['transactional', 'broadcast'];
/** Streams of one account; each costs the delivery engine a little. */
const MOST_STREAMS = 100;
const MOST_CACHED = 10_000;
/** Delay until a change by another process is seen, in milliseconds; streams change rarely. */
const FRESH_MS = 5000;

/** Answers from a cache, because every message asks. */
export function createStreams(deps: StoreDeps) {
  const cache = createLookUpCache<StreamRow | null>(
    deps,
    { max: MOST_CACHED, freshMs: FRESH_MS, keep: (row) => row !== null },
    async (key) => {
      const [accountId = '', slug = ''] = key.split(' ');
      const [row] = await deps.db.prepared.all<StreamRow>('SELECT * FROM streams WHERE account_id = ? AND slug = ?', [
        accountId,
        slug,
      ]);
      return row ?? null;
    },
  );
  return {
    /** Returns this account's stream with this slug, or null. Ids and slugs have no spaces; a text with one is not a slug. */
    find: async (accountId: string, slug: string): Promise<StreamRow | null> =>
      slug.includes(' ') ? null : await cache.get(`${accountId} ${slug}`),
    /** Must be called when the stream changes. */
    forget: (accountId: string, slug: string): void => {
      cache.forget(`${accountId} ${slug}`);
    },
  };
}

export type Streams = ReturnType<typeof createStreams>;

/** Adds a stream. Throws `already_exists` for a slug in use and `invalid_state` if there are too many. */
export async function addStream(
  deps: StreamDeps,
  input: NewStream,
  alsoInTransaction: RowsFor<StreamRow> = noRows,
): Promise<StreamRow> {
  const { accountId, slug, name, type, pool = DEFAULT_POOL, priority = type === 'broadcast' ? 1 : 0 } = input;
  const now = deps.clock.now();
  const row: StreamRow = {
    id: newId('str', now),
    account_id: accountId,
    slug,
    name,
    type,
    pool,
    priority,
    created_at: now,
    paused: 0,
  };
  await deps.db.commit.transact(async (tx) => {
    const existing = await tx.all<{ slug: string }>('SELECT slug FROM streams WHERE account_id = ?', [accountId]);
    if (existing.some((other) => other.slug === slug))
      throw new Problem('already_exists', `There is already a stream ${slug}. Use it, or another slug.`, {
        field: 'slug',
      });
    if (existing.length >= MOST_STREAMS)
      throw new Problem(
        'invalid_state',
        `An account can have at most ${String(MOST_STREAMS)} streams. Remove one first.`,
      );
    await insertRows(tx, [{ streams: [row] }, alsoInTransaction(row)]);
  });
  deps.changed?.(accountId, slug);
  return row;
}

/** Returns one page, oldest first. */
export async function pageOfStreams(
  { db }: Pick<StoreDeps, 'db'>,
  { accountId, limit, after, before }: { accountId: string; limit: number; after?: string; before?: string },
): Promise<{ rows: StreamRow[]; hasMore: boolean }> {
  const query = db.reader<StreamRow>('streams').where({ account_id: accountId });
  return readPage<StreamRow>(query, { limit, after, before }, 'oldest first');
}

/** Changes a stream. A priority applies to mail accepted later, a pool to mail not yet sent, a pause to mail not being sent. Throws `not_found`. */
export async function updateStream(
  deps: StreamDeps,
  { accountId, id }: { accountId: string; id: string },
  changes: StreamChanges,
  alsoInTransaction: RowsFor<StreamRow> = noRows,
): Promise<StreamRow> {
  const { name = null, pool = null, priority = null, paused } = changes;
  const row = await deps.db.commit.transact(async (tx) => {
    const [changed] = await tx.all<StreamRow>(
      `UPDATE streams SET name = COALESCE(?, name), pool = COALESCE(?, pool), priority = COALESCE(?, priority),
       paused = COALESCE(?, paused) WHERE id = ? AND account_id = ? RETURNING *`,
      [name, pool, priority, paused === undefined ? null : Number(paused), id, accountId],
    );
    if (changed === undefined) throw noSuchStream();
    await insertRows(tx, [alsoInTransaction(changed)]);
    return changed;
  });
  deps.changed?.(row.account_id, row.slug);
  return row;
}

/** Removes a stream without waiting mail; its messages keep the name. Throws `not_found`, and `invalid_state` if it is built in or mail waits. */
export async function removeStream(
  deps: StreamDeps,
  { accountId, id }: { accountId: string; id: string },
  alsoInTransaction: RowsFor<StreamRow> = noRows,
): Promise<void> {
  const row = await deps.db.commit.transact(async (tx) => {
    const [found] = await tx.all<StreamRow>('SELECT * FROM streams WHERE id = ? AND account_id = ?', [id, accountId]);
    if (found === undefined) throw noSuchStream();
    if (BUILT_IN.includes(found.slug))
      throw new Problem('invalid_state', `The stream ${found.slug} is built in and cannot be removed.`);
    const waiting = await tx.all(
      `SELECT 1 FROM deliveries d JOIN messages m ON m.id = d.message_id
       WHERE d.due_at IS NOT NULL AND m.account_id = ? AND m.stream = ? LIMIT 1`,
      [accountId, found.slug],
    );
    if (waiting.length > 0)
      throw new Problem(
        'invalid_state',
        `Mail waits in the stream ${found.slug}. Wait until it is sent, or cancel it.`,
      );
    await tx.run('DELETE FROM streams WHERE id = ?', [id]);
    await insertRows(tx, [alsoInTransaction(found)]);
    return found;
  });
  deps.changed?.(row.account_id, row.slug);
}

const noSuchStream = (): Problem => notFound('id', 'There is no such stream.');

export function firstStreams(accountId: string, now: number): StreamRow[] {
  const common = { account_id: accountId, pool: DEFAULT_POOL, created_at: now, paused: 0 };
  return [
    {
      ...common,
      id: newId('str', now),
      slug: 'transactional',
      name: 'Transactional',
      type: 'transactional',
      priority: 0,
    },
    { ...common, id: newId('str', now), slug: 'broadcast', name: 'Broadcast', type: 'broadcast', priority: 1 },
  ];
}
