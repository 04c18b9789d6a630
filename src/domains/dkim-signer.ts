/**
 * Signs with DKIM keys: they are opened once, kept as key objects, and used off the main loop. RSA costs 0.2 ms of a core and
 * runs in the thread pool, a few at a time (sign-slots.ts); Ed25519 costs 24 us, less than the way to another thread.
 *
 * Mail is never sent unsigned because of a broken key: `unavailable` means that it waits.
 */
import { createPrivateKey, sign, type KeyObject } from 'node:crypto';
import { availableParallelism } from 'node:os';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import type { DkimSigner } from '../mail/dkim/sign.ts';
import type { Database } from '../storage/database.ts';
import type { DkimKeyRow, DomainRow } from '../storage/tables.ts';
import { sealPurpose } from './dkim-key.ts';
import { createSignSlots, type SignSlots } from './sign-slots.ts';

export type SignersAnswer =
  | { kind: 'ready'; signers: readonly DkimSigner[] }
  /** The mail must wait; `why` is for the operator. */
  | { kind: 'unavailable'; why: string };

const MOST_CACHED = 5000;
/** Delay until a change by another process is seen, in milliseconds; the old key's record is still published then. */
const FRESH_MS = 5000;

export function createDkimSigners(deps: { db: Pick<Database, 'prepared'>; keyring: Keyring; clock: Clock }) {
  const slots = createSignSlots(availableParallelism());
  const cache = createLookUpCache<readonly Claim[]>(
    deps,
    { max: MOST_CACHED, freshMs: FRESH_MS, keep: (claims) => claims.some(({ keys }) => keys.kind === 'ready') },
    (name, before) => load(deps, slots, name, before),
  );
  return {
    /**
     * Returns the signers of the active keys of exactly this domain of this account, RSA first. Null stands for the operator, who
     * signs with the keys of the account that has verified the name. `order`: 0 for transactional mail, 1 for broadcasts.
     */
    async signersFor(accountId: string | null, domainName: string, order: 0 | 1 = 0): Promise<SignersAnswer> {
      const claims = await cache.get(domainName);
      const keys = claims.find((claim) =>
        accountId === null ? claim.isVerified : claim.accountId === accountId,
      )?.keys;
      if (keys === undefined) return { kind: 'unavailable', why: `${domainName} has no active DKIM key` };
      return keys.kind === 'ready' ? keys.answers[order] : keys;
    },
    /** Must be called when the domain's keys change. */
    forget(domainName: string): void {
      cache.forget(domainName);
    },
  };
}

export type DkimSigners = ReturnType<typeof createDkimSigners>;

type Loaded =
  | { kind: 'ready'; keyIds: string; answers: readonly [SignersAnswer, SignersAnswer] }
  | { kind: 'unavailable'; why: string };

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
  slots: SignSlots,
  domain: string,
  before: readonly Claim[] | undefined,
): Promise<readonly Claim[]> {
  const rows = await db.prepared.all<ClaimedKeyRow>(activeKeys, [domain]);
  const accounts = new Map(rows.map((row) => [row.account_id, row.status === 'verified']));
  return [...accounts].map(([accountId, isVerified]) => {
    const own = rows.filter(({ account_id }) => account_id === accountId);
    const loadedBefore = before?.find((claim) => claim.accountId === accountId)?.keys;
    return { accountId, isVerified, keys: open({ keyring, slots }, domain, own, loadedBefore) };
  });
}

function open(
  { keyring, slots }: { keyring: Keyring; slots: SignSlots },
  domain: string,
  rows: readonly KeyRow[],
  before: Loaded | undefined,
): Loaded {
  const keyIds = rows.map(({ id }) => id).join(' ');
  if (before?.kind === 'ready' && before.keyIds === keyIds) return before;
  const opened: { row: KeyRow; key: KeyObject }[] = [];
  for (const row of rows) {
    try {
      opened.push({ row, key: createPrivateKey(keyring.open(sealPurpose(row.id), row.private_key_sealed).toString()) });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return { kind: 'unavailable', why: `the DKIM key ${row.selector} of ${domain} cannot be opened: ${reason}` };
    }
  }
  const answer = (order: 0 | 1): SignersAnswer => ({
    kind: 'ready',
    signers: opened.map(({ row, key }) => signerOf({ slots, order }, domain, row, key)),
  });
  return { kind: 'ready', keyIds, answers: [answer(0), answer(1)] };
}

function signerOf(
  room: { slots: SignSlots; order: 0 | 1 },
  domain: string,
  { selector, algorithm }: KeyRow,
  key: KeyObject,
): DkimSigner {
  return {
    key: { selector, domain, algorithm },
    sign:
      algorithm === 'ed25519-sha256'
        ? (digest) => sign(null, digest, key)
        : (data) => room.slots.run(room.order, () => signRsa(data, key)),
  };
}

function signRsa(data: Buffer, key: KeyObject): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    sign('sha256', data, key, (error, signature) => {
      if (error === null) resolve(signature);
      else reject(error);
    });
  });
}
