/** Answers the questions about sending domains that every message asks, from memory that is at most a second old. */
import type { Clock } from '../base/clock.ts';
import { fitsPattern } from '../base/address-pattern.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import type { Database } from '../storage/database.ts';
import type { DomainRow } from '../storage/tables.ts';
import { lostChecks, storedChecks } from './domain-record.ts';
import { PRINCIPAL_FIRST } from './domain-store.ts';
import { lostText } from './lost-records.ts';

export type SendingDomain = Pick<
  DomainRow,
  'id' | 'account_id' | 'name' | 'status' | 'return_path' | 'track_opens' | 'track_clicks' | 'refused_at' | 'receiving'
> & {
  /** True if another account has verified the name. */
  taken: boolean;
  /** The reason why mail from it is refused that was accepted before, or would be if the name were free; null without one. */
  because: string | null;
  /** Its own tracking host if DNS led to us at the last check, or null. */
  tracking_host: string | null;
  /** Local parts that take mail if it is `receiving`. */
  receiving_addresses: readonly string[];
};

const MOST_CACHED = 10_000;
/** Delay until a change by another process is seen, in milliseconds. */
const FRESH_MS = 1000;

type Claim = Omit<SendingDomain, 'taken' | 'because' | 'tracking_host' | 'receiving_addresses'> &
  Pick<DomainRow, 'records_json' | 'verified_at' | 'receiving_addresses_json'>;

export function createDomainDirectory(deps: { db: Pick<Database, 'prepared'>; clock: Clock }) {
  const cache = createLookUpCache<readonly SendingDomain[]>(
    deps,
    { max: MOST_CACHED, freshMs: FRESH_MS, keep: (domains) => domains.length > 0 },
    async (name) => {
      const rows = await deps.db.prepared.all<Claim>(
        `SELECT id, account_id, name, status, return_path, track_opens, track_clicks, refused_at, records_json, verified_at,
           receiving, receiving_addresses_json FROM domains WHERE name = ? ORDER BY ${PRINCIPAL_FIRST}`,
        [name],
      );
      const isOwned = rows[0]?.status === 'verified';
      return rows.map((row) => sendingDomain(row, isOwned));
    },
  );
  const findOf = async (accountId: string, name: string): Promise<SendingDomain | null> =>
    (await cache.get(name)).find(({ account_id }) => account_id === accountId) ?? null;
  return {
    /** Returns the domain with this name (A-labels, lower case), or null; of several claims that of the account that verified it, or had it last. */
    find: async (name: string): Promise<SendingDomain | null> => (await cache.get(name))[0] ?? null,
    /** Returns this account's domain with exactly this name, or null. Mail of an account is judged by its own domain only. */
    findOf,
    /** Returns whether the account may send from exactly this name; a domain does not cover those below it. */
    isVerified: async (accountId: string, name: string): Promise<boolean> =>
      (await findOf(accountId, name))?.status === 'verified',
    /** Returns why mail from a domain that was verified before is refused now; null without a reason. */
    async whyRefused(accountId: string, name: string): Promise<string | null> {
      const domain = await findOf(accountId, name);
      return domain === null ? null : refusalOf(domain);
    },
    /** Returns the verified domain that receives mail to this address; `refused` if it receives and has no such address, else null. */
    async receiverOf(local: string, name: string): Promise<SendingDomain | 'refused' | null> {
      const domain = (await cache.get(name))[0];
      if (domain?.status !== 'verified' || domain.receiving !== 1) return null;
      return domain.receiving_addresses.some((pattern) => fitsPattern(pattern, local)) ? domain : 'refused';
    },
    async isReturnPath(host: string): Promise<boolean> {
      const rows = await deps.db.prepared.all('SELECT 1 FROM domains WHERE return_path = ? LIMIT 1', [host]);
      return rows.length > 0;
    },
    /** The same of a domain that is verified, or was until its records were lost: complaints about its mail come late. */
    async isVerifiedReturnPath(host: string): Promise<boolean> {
      const rows = await deps.db.prepared.all(
        'SELECT 1 FROM domains WHERE return_path = ? AND verified_at IS NOT NULL LIMIT 1',
        [host],
      );
      return rows.length > 0;
    },
    /** Must be called when the domain changes. */
    forget(name: string): void {
      cache.forget(name);
    },
  };
}

export type DomainDirectory = ReturnType<typeof createDomainDirectory>;

function sendingDomain(
  { records_json, verified_at, receiving_addresses_json: addresses, ...domain }: Claim,
  isOwned: boolean,
): SendingDomain {
  const tracking = storedChecks({ records_json }).find(
    ({ purpose, status }) => purpose === 'tracking' && status === 'ok',
  );
  const isVerified = domain.status === 'verified';
  const taken = isOwned && !isVerified;
  const lost = isVerified || verified_at === null ? null : lostText(lostChecks({ records_json }));
  const because = taken ? 'another account of this server has verified the name' : lost;
  const receiving_addresses = JSON.parse(addresses) as string[];
  return { ...domain, taken, because, tracking_host: tracking?.host ?? null, receiving_addresses };
}

/** Returns the reason, or null: `mail from acme.example is refused since ..., because the SPF record at rp.acme.example is missing`. */
export function refusalOf({
  name,
  because,
  refused_at,
}: Pick<SendingDomain, 'name' | 'because' | 'refused_at'>): string | null {
  if (because === null) return null;
  return `mail from ${name} is refused${refused_at === null ? '' : ` since ${rfc3339(refused_at)}`}, because ${because}`;
}
