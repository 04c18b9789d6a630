/** Streams: kinds of mail that are kept apart (suppressions, sources, priority). Each account begins with two. */
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import type { Database } from '../storage/database.ts';
import type { StreamRow } from '../storage/tables.ts';

export interface Streams {
  /** The stream of this account with this slug, or null. */
  find(accountId: string, slug: string): Promise<StreamRow | null>;
}

const DEFAULT_POOL = 'default';
const MOST_CACHED = 10_000;
/** Streams change rarely; a change by another process may take this long to be seen, in milliseconds. */
const FRESH_MS = 5000;

/** Looked up for every message, hence cached. */
export function createStreams(deps: { db: Pick<Database, 'fast'>; clock: Clock }): Streams {
  const cache = createLookUpCache<StreamRow | null>(
    deps,
    { max: MOST_CACHED, freshMs: FRESH_MS, keep: (row) => row !== null },
    async (key) => {
      const [accountId = '', slug = ''] = key.split(' ');
      const [row] = await deps.db.fast.all<StreamRow>('SELECT * FROM streams WHERE account_id = ? AND slug = ?', [
        accountId,
        slug,
      ]);
      return row ?? null;
    },
  );
  return {
    // Neither id nor slug can hold a space; what does is no slug.
    find: (accountId, slug) => (slug.includes(' ') ? Promise.resolve(null) : cache.get(`${accountId} ${slug}`)),
  };
}

/** The two streams that an account is born with. */
export function firstStreams(accountId: string, now: number): StreamRow[] {
  const common = { account_id: accountId, pool: DEFAULT_POOL, created_at: now };
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
