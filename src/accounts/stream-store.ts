/** Streams: kinds of mail that are kept apart (suppressions, sources, priority). Each account begins with two. */
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import { Problem } from '../base/problem.ts';
import type { Database } from '../storage/database.ts';
import { readPage } from '../storage/page.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import type { StreamRow } from '../storage/tables.ts';

export interface Streams {
  /** The stream of this account with this slug, or null. */
  find(accountId: string, slug: string): Promise<StreamRow | null>;
  /** The stream has changed. */
  forget: (accountId: string, slug: string) => void;
}

export interface StreamDeps {
  db: Pick<Database, 'commit' | 'reader'>;
  clock: Clock;
  /** Who keeps streams in memory. */
  changed?: (accountId: string, slug: string) => void;
}

export interface NewStream {
  accountId: string;
  slug: string;
  name: string;
  type: StreamRow['type'];
  pool?: string | undefined;
  /** 0 goes before 1; where not given, 0 for transactional and 1 for broadcast. */
  priority?: number | undefined;
}

export interface StreamChanges {
  name?: string | undefined;
  pool?: string | undefined;
  priority?: number | undefined;
  paused?: boolean | undefined;
}

const DEFAULT_POOL = 'default';
/** Every mail that names no stream is in one of them, so they stay. */
const BUILT_IN: readonly string[] = ['transactional', 'broadcast'];
/** So many are enough to keep mail apart; and each costs the delivery engine a little. */
const MOST_STREAMS = 100;
const MOST_CACHED = 10_000;
/** Streams change rarely; a change by another process may take this long to be seen, in milliseconds. */
const FRESH_MS = 5000;

/** Looked up for every message, hence cached. */
export function createStreams(deps: { db: Pick<Database, 'prepared'>; clock: Clock }): Streams {
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
    // Neither id nor slug can hold a space; what does is no slug.
    find: (accountId, slug) => (slug.includes(' ') ? Promise.resolve(null) : cache.get(`${accountId} ${slug}`)),
    forget(accountId, slug) {
      cache.forget(`${accountId} ${slug}`);
    },
  };
}

/** Throws `already_exists` for a slug in use and `invalid_state` where there are too many. */
export async function addStream(
  deps: StreamDeps,
  wish: NewStream,
  alsoInTransaction: RowsFor<StreamRow> = noRows,
): Promise<StreamRow> {
  const { accountId, slug, name, type, pool = DEFAULT_POOL, priority = type === 'broadcast' ? 1 : 0 } = wish;
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
    const there = await tx.all<{ slug: string }>('SELECT slug FROM streams WHERE account_id = ?', [accountId]);
    if (there.some((other) => other.slug === slug))
      throw new Problem('already_exists', `There is a stream ${slug} already. Use it, or another slug.`, {
        field: 'slug',
      });
    if (there.length >= MOST_STREAMS)
      throw new Problem('invalid_state', `An account has at most ${String(MOST_STREAMS)} streams.`);
    await insertRows(tx, [{ streams: [row] }, alsoInTransaction(row)]);
  });
  deps.changed?.(accountId, slug);
  return row;
}

/** One page, oldest first. */
export async function pageOfStreams(
  { db }: Pick<StreamDeps, 'db'>,
  { accountId, limit, after, before }: { accountId: string; limit: number; after?: string; before?: string },
): Promise<{ rows: StreamRow[]; hasMore: boolean }> {
  const query = db.reader<StreamRow>('streams').where({ account_id: accountId });
  return readPage<StreamRow>(query, { limit, after, before }, 'oldest first');
}

/** Priority is for mail accepted from then on, the pool for all that has not left; a pause is for all that is not on its way yet. Throws `not_found`. */
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

/**
 * Removes a stream that no mail waits in; what was sent through it keeps its name. Throws `not_found`, and `invalid_state`
 * for the two that every account has and where mail waits.
 */
export async function removeStream(
  deps: StreamDeps,
  { accountId, id }: { accountId: string; id: string },
  alsoInTransaction: RowsFor<StreamRow> = noRows,
): Promise<void> {
  const row = await deps.db.commit.transact(async (tx) => {
    const [found] = await tx.all<StreamRow>('SELECT * FROM streams WHERE id = ? AND account_id = ?', [id, accountId]);
    if (found === undefined) throw noSuchStream();
    if (BUILT_IN.includes(found.slug))
      throw new Problem('invalid_state', `The stream ${found.slug} is one that every account has.`);
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

const noSuchStream = (): Problem => new Problem('not_found', 'There is no such stream.', { field: 'id' });

/** The two streams that an account is born with. */
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
