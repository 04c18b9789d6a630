/** The DKIM keys of a domain's mail, opened once. Mail is never sent unsigned because of a broken key: `unavailable` means that it waits. */
import { createPrivateKey } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import type { SigningKey } from '../mail/dkim/sign.ts';
import type { Database } from '../storage/database.ts';
import type { DkimKeyRow, DomainRow } from '../storage/tables.ts';
import { sealPurpose } from './dkim-key.ts';

export type SigningKeysAnswer =
  | { kind: 'ready'; keys: readonly SigningKey[] }
  /** The mail must wait; `why` is for the operator. */
  | { kind: 'unavailable'; why: string };

const MOST_CACHED = 5000;
/** Delay until a change by another process is seen, in milliseconds; the old key's record is still published then. */
const FRESH_MS = 5000;

export function createSigningKeys(deps: { db: Pick<Database, 'prepared'>; keyring: Keyring; clock: Clock }) {
  const cache = createLookUpCache<readonly Claim[]>(
    deps,
    { max: MOST_CACHED, freshMs: FRESH_MS, keep: (claims) => claims.some(({ keys }) => keys.kind === 'ready') },
    (name, before) => load(deps, name, before),
  );
  return {
    /** Returns the active keys of exactly this domain of this account, RSA first; null: the operator, who signs as the account that verified it. */
    async keysFor(accountId: string | null, domainName: string): Promise<SigningKeysAnswer> {
      const claims = await cache.get(domainName);
      const keys = claims.find((claim) =>
        accountId === null ? claim.isVerified : claim.accountId === accountId,
      )?.keys;
      if (keys === undefined) return { kind: 'unavailable', why: `${domainName} has no active DKIM key` };
      return keys.kind === 'ready' ? keys.answer : keys;
    },
    /** Must be called when the domain's keys change. */
    forget(domainName: string): void {
      cache.forget(domainName);
    },
  };
}

export type SigningKeys = ReturnType<typeof createSigningKeys>;

type Loaded = { kind: 'ready'; keyIds: string; answer: SigningKeysAnswer } | { kind: 'unavailable'; why: string };

/** The keys of one account for the name; several accounts may claim it. */
interface Claim {
  accountId: string;
  isVerified: boolean;
  keys: Loaded;
}

type KeyRow = Pick<DkimKeyRow, 'id' | 'selector' | 'algorithm' | 'private_key_sealed'>;
type ClaimedKeyRow = KeyRow & Pick<DomainRow, 'account_id' | 'status'>;

const activeKeys = `
  SELECT d.account_id, d.status, k.id, k.selector, k.algorithm, k.private_key_sealed
  FROM dkim_keys k JOIN domains d ON d.id = k.domain_id
  WHERE d.name = ? AND k.state = 'active' ORDER BY k.algorithm DESC, k.id`;

async function load(
  { db, keyring }: { db: Pick<Database, 'prepared'>; keyring: Keyring },
  domain: string,
  before: readonly Claim[] | undefined,
): Promise<readonly Claim[]> {
  const rows = await db.prepared.all<ClaimedKeyRow>(activeKeys, [domain]);
  const accounts = new Map(rows.map((row) => [row.account_id, row.status === 'verified']));
  return [...accounts].map(([accountId, isVerified]) => {
    const own = rows.filter(({ account_id }) => account_id === accountId);
    const loadedBefore = before?.find((claim) => claim.accountId === accountId)?.keys;
    return { accountId, isVerified, keys: open(keyring, domain, own, loadedBefore) };
  });
}

function open(keyring: Keyring, domain: string, rows: readonly KeyRow[], before: Loaded | undefined): Loaded {
  const keyIds = rows.map(({ id }) => id).join(' ');
  if (before?.kind === 'ready' && before.keyIds === keyIds) return before;
  const keys: SigningKey[] = [];
  for (const row of rows) {
    const { selector, algorithm } = row;
    try {
      const privateKey = createPrivateKey(keyring.open(sealPurpose(row.id), row.private_key_sealed).toString());
      keys.push({ selector, domain, algorithm, privateKey });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return { kind: 'unavailable', why: `the DKIM key ${selector} of ${domain} cannot be opened: ${reason}` };
    }
  }
  return { kind: 'ready', keyIds, answer: { kind: 'ready', keys } };
}
