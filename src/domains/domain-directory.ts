/** What the path of every message asks about sending domains, kept in memory for a moment. */
import type { Clock } from '../base/clock.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import type { Database } from '../storage/database.ts';
import type { DomainRow } from '../storage/tables.ts';

export type SendingDomain = Pick<
  DomainRow,
  'id' | 'account_id' | 'name' | 'status' | 'return_path' | 'track_opens' | 'track_clicks'
>;

export interface DomainDirectory {
  /** The domain with exactly this name (A-labels, lower case), or null. */
  find(name: string): Promise<SendingDomain | null>;
  /** True where the account may send from this very name: a domain says nothing about those below it. */
  isVerified(accountId: string, name: string): Promise<boolean>;
  /** The domain has changed. */
  forget(name: string): void;
}

const MOST_CACHED = 10_000;
/** A change by another process may take this long to be seen, in milliseconds. */
const FRESH_MS = 1000;

export function createDomainDirectory(deps: { db: Pick<Database, 'fast'>; clock: Clock }): DomainDirectory {
  const cache = createLookUpCache<SendingDomain | null>(
    deps,
    { max: MOST_CACHED, freshMs: FRESH_MS, keep: (domain) => domain !== null },
    async (name) => {
      const [domain] = await deps.db.fast.all<SendingDomain>(
        'SELECT id, account_id, name, status, return_path, track_opens, track_clicks FROM domains WHERE name = ?',
        [name],
      );
      return domain ?? null;
    },
  );
  return {
    find: (name) => cache.get(name),
    async isVerified(accountId, name) {
      const domain = await cache.get(name);
      return domain?.account_id === accountId && domain.status === 'verified';
    },
    forget(name) {
      cache.forget(name);
    },
  };
}
