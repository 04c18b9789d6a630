/**
 * The signing side of DKIM keys: opened once, kept as key objects, used off the main loop. RSA costs 0.2 ms of a core and
 * goes through the thread pool, a few at a time (sign-slots.ts); Ed25519 costs 24 us, less than the way to another thread.
 *
 * Mail is never sent unsigned because a key is out of order: `unavailable` means that it has to wait.
 */
import { createPrivateKey, sign, type KeyObject } from 'node:crypto';
import { availableParallelism } from 'node:os';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import type { DkimSigner } from '../mail/dkim/sign.ts';
import type { Database } from '../storage/database.ts';
import type { DkimKeyRow } from '../storage/tables.ts';
import { PRINCIPAL_FIRST } from './domain-store.ts';
import { sealPurpose } from './dkim-key.ts';
import { createSignSlots, type SignSlots } from './sign-slots.ts';

export type SignersAnswer =
  | { kind: 'ready'; signers: readonly DkimSigner[] }
  /** The mail waits; `why` is for the operator. */
  | { kind: 'unavailable'; why: string };

export interface DkimSigners {
  /** The signers of the active keys of exactly this domain, RSA first. `order`: 0 for transactional mail, 1 for broadcasts. */
  signersFor(domainName: string, order?: 0 | 1): Promise<SignersAnswer>;
  /** The domain's keys have changed. */
  forget(domainName: string): void;
}

const MOST_CACHED = 5000;
/** A change by another process may take this long to be seen, in milliseconds: the old key's record is still published. */
const FRESH_MS = 5000;

export function createDkimSigners(deps: { db: Pick<Database, 'fast'>; keyring: Keyring; clock: Clock }): DkimSigners {
  const slots = createSignSlots(availableParallelism());
  const cache = createLookUpCache<Loaded>(
    deps,
    { max: MOST_CACHED, freshMs: FRESH_MS, keep: ({ kind }) => kind === 'ready' },
    (name, before) => load(deps, slots, name, before),
  );
  return {
    async signersFor(domainName, order = 0) {
      const loaded = await cache.get(domainName);
      return loaded.kind === 'ready' ? loaded.answers[order] : loaded;
    },
    forget(domainName) {
      cache.forget(domainName);
    },
  };
}

type Loaded =
  | { kind: 'ready'; keyIds: string; answers: readonly [SignersAnswer, SignersAnswer] }
  | { kind: 'unavailable'; why: string };

type KeyRow = Pick<DkimKeyRow, 'id' | 'selector' | 'algorithm' | 'private_key_sealed'>;

/** Of several accounts that claim the name, those of the one that has it. */
const activeKeys = `
  SELECT k.id, k.selector, k.algorithm, k.private_key_sealed FROM dkim_keys k
  WHERE k.domain_id = (SELECT id FROM domains WHERE name = ? ORDER BY ${PRINCIPAL_FIRST} LIMIT 1) AND k.state = 'active' ORDER BY k.algorithm DESC, k.id`;

async function load(
  { db, keyring }: { db: Pick<Database, 'fast'>; keyring: Keyring },
  slots: SignSlots,
  domain: string,
  before: Loaded | undefined,
): Promise<Loaded> {
  const rows = await db.fast.all<KeyRow>(activeKeys, [domain]);
  if (rows.length === 0) return { kind: 'unavailable', why: `${domain} has no active DKIM key` };
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
