/** What the path of every message asks about sending domains, kept in memory for a moment. */
import type { Clock } from '../base/clock.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import type { Database } from '../storage/database.ts';
import type { DomainRow } from '../storage/tables.ts';
import { storedChecks } from './domain-record.ts';
import { PRINCIPAL_FIRST } from './domain-store.ts';

export type SendingDomain = Pick<
  DomainRow,
  'id' | 'account_id' | 'name' | 'status' | 'return_path' | 'track_opens' | 'track_clicks'
> & {
  /** The host of its own that DNS led to us at the last check, or null. */
  tracking_host: string | null;
};

export interface DomainDirectory {
  /** The domain with exactly this name (A-labels, lower case), or null. */
  find(name: string): Promise<SendingDomain | null>;
  /** True where the account may send from this very name: a domain says nothing about those below it. */
  isVerified(accountId: string, name: string): Promise<boolean>;
  /** Whether bounces of some domain come to this host. */
  isReturnPath(host: string): Promise<boolean>;
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
      const [row] = await deps.db.fast.all<Omit<SendingDomain, 'tracking_host'> & Pick<DomainRow, 'records_json'>>(
        `SELECT id, account_id, name, status, return_path, track_opens, track_clicks, records_json FROM domains WHERE name = ? ORDER BY ${PRINCIPAL_FIRST} LIMIT 1`,
        [name],
      );
      if (row === undefined) return null;
      const { records_json, ...domain } = row;
      const tracking = storedChecks({ records_json }).find(
        ({ purpose, status }) => purpose === 'tracking' && status === 'ok',
      );
      return { ...domain, tracking_host: tracking?.host ?? null };
    },
  );
  return {
    find: (name) => cache.get(name),
    async isVerified(accountId, name) {
      const domain = await cache.get(name);
      return domain?.account_id === accountId && domain.status === 'verified';
    },
    async isReturnPath(host) {
      const rows = await deps.db.fast.all('SELECT 1 FROM domains WHERE return_path = ? LIMIT 1', [host]);
      return rows.length > 0;
    },
    forget(name) {
      cache.forget(name);
    },
  };
}
