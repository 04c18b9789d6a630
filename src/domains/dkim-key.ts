/**
 * DKIM keys of a domain (RFC 6376, RFC 8463), made in pairs: RSA-2048 and Ed25519. A new key is `pending` until DNS shows it. Then it is `active` and
 * signs, and the one before is `retiring`: its record must stay for RETIRING_MS, while mail that it signed is on its way.
 */
import { generateKeyPair } from 'node:crypto';
import { promisify } from 'node:util';
import type { Keyring } from '../base/keyring.ts';
import { newId } from '../base/id.ts';
import { DAY_MS } from '../base/time.ts';
import type { DkimKeyRow } from '../storage/tables.ts';

export type DkimAlgorithm = DkimKeyRow['algorithm'];

/** The columns of a key that its DNS record is made from. */
export type PublishedKey = Pick<DkimKeyRow, 'selector' | 'algorithm' | 'public_key' | 'state'>;

export const RETIRING_MS = 7 * DAY_MS;

const algorithms: readonly DkimAlgorithm[] = ['rsa-sha256', 'ed25519-sha256'];
const RSA_BITS = 2048;
const generate = promisify(generateKeyPair);

/** Makes one key for each algorithm; RSA takes about 100 ms of another thread. `taken`: the selectors that the domain has used. */
export async function makeDkimKeys(
  { keyring }: { keyring: Keyring },
  options: { domainId: string; now: number; state: 'pending' | 'active'; taken: readonly string[] },
): Promise<DkimKeyRow[]> {
  const { domainId, now, state, taken } = options;
  return Promise.all(
    algorithms.map(async (algorithm) => {
      // Made before the first wait, so that ids, and lists by id, have the order of the algorithms.
      const id = newId('dkm', now);
      const { privateKey, publicKey } = await makePair(algorithm);
      return {
        id,
        domain_id: domainId,
        selector: selectorFor(algorithm, now, taken),
        algorithm,
        private_key_sealed: keyring.seal(sealPurpose(id), privateKey),
        public_key: publicKey,
        state,
        created_at: now,
        active_at: state === 'active' ? now : null,
        retired_at: null,
      };
    }),
  );
}

/** Returns the purpose that binds a sealed key to its row: moved to another row, it does not open. */
export const sealPurpose = (keyId: string): string => `dkim:${keyId}`;

/**
 * Returns a selector such as `ph202601r`: year, month, `r` or `e` for the algorithm, and from the second of a month on a number. It follows the
 * highest: a lower one may be in caches of DNS with a removed key.
 */
export function selectorFor(algorithm: DkimAlgorithm, now: number, taken: readonly string[]): string {
  const month = new Date(now).toISOString().slice(0, 7).replace('-', '');
  const base = `ph${month}${algorithm === 'rsa-sha256' ? 'r' : 'e'}`;
  const numbers = taken.filter((one) => one.startsWith(base)).map((one) => Number(one.slice(base.length) || 1));
  const next = Math.max(0, ...numbers) + 1;
  return next === 1 ? base : `${base}${String(next)}`;
}

/** Returns the keys that change when DNS shows those in `seen` (ids): pending ones start to sign, older ones retire. */
export function promote<Key extends Pick<DkimKeyRow, 'id' | 'algorithm' | 'state'>>(
  keys: readonly Key[],
  seen: ReadonlySet<string>,
): { activate: Key[]; retire: Key[] } {
  const activate: Key[] = [];
  for (const algorithm of algorithms) {
    // Ids ascend in time: the newest visible key takes over, older pending ones are skipped.
    const newest = keys
      .filter((key) => key.algorithm === algorithm && key.state === 'pending' && seen.has(key.id))
      .sort((a, b) => (a.id < b.id ? 1 : -1))[0];
    if (newest !== undefined) activate.push(newest);
  }
  const retire = keys.filter(
    (key) => key.state !== 'retiring' && activate.some((next) => next.algorithm === key.algorithm && next.id > key.id),
  );
  return { activate, retire };
}

/** Returns all keys with the states that they have after that, in the same order. */
export function promoted<Key extends Pick<DkimKeyRow, 'id' | 'algorithm' | 'state'>>(
  keys: readonly Key[],
  seen: ReadonlySet<string>,
): Key[] {
  const { activate, retire } = promote(keys, seen);
  return keys.map((key) =>
    activate.includes(key) ? { ...key, state: 'active' } : retire.includes(key) ? { ...key, state: 'retiring' } : key,
  );
}

async function makePair(algorithm: DkimAlgorithm): Promise<{ privateKey: string; publicKey: string }> {
  const pair = await (algorithm === 'rsa-sha256' ? generate('rsa', { modulusLength: RSA_BITS }) : generate('ed25519'));
  return {
    privateKey: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicKey: pair.publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  };
}
