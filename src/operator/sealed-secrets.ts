/** Checks at the start that the key file opens the secrets in the database: else no mail is signed, no webhook called, no second factor works. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Knex } from 'knex';
import { KeyFileError, type Keyring } from '../base/keyring.ts';
import type { Log } from '../base/log.ts';
import { groupBy } from '../base/sets.ts';
import { sealPurpose } from '../domains/dkim-key.ts';
import type { Committer } from '../storage/commit.ts';

interface Deps {
  read: Knex;
  keyring: Keyring;
}

/** Secrets that are sealed under one key, which may be missing in the file. */
export interface SealedUnder {
  keyId: string;
  /** `2 DKIM keys, 1 webhook endpoints`. */
  what: string;
}

/** Counts the secrets in use, by key. Retiring DKIM keys do not count: they sign no mail. */
export async function sealedSecrets(read: Knex): Promise<SealedUnder[]> {
  const rows = await read.raw<{ kind: string; sealed: string }[]>(`
    SELECT 'DKIM keys' AS kind, substr(private_key_sealed, 1, 36) AS sealed FROM dkim_keys WHERE state <> 'retiring'
    UNION ALL SELECT 'webhook endpoints', substr(secrets_sealed, 1, 36) FROM webhooks
    UNION ALL SELECT 'sets of webhook headers', substr(headers_sealed, 1, 36) FROM webhooks WHERE headers_sealed IS NOT NULL
    UNION ALL SELECT 'second factors', substr(totp_sealed, 1, 36) FROM members WHERE totp_sealed IS NOT NULL`);
  return [...groupBy(rows, ({ sealed }) => keyIdOf(sealed))].map(([keyId, under]) => {
    const counts = [...groupBy(under, ({ kind }) => kind)].map(([kind, { length }]) => `${String(length)} ${kind}`);
    return { keyId, what: counts.join(', ') };
  });
}

/** Says what is in use under keys that `secret.key` says are lost; null if nothing is, without a look at the database if none is lost. */
export async function lostSecrets({ read, keyring }: Deps): Promise<string | null> {
  if (keyring.lostIds.length === 0) return null;
  const lost = (await sealedSecrets(read)).filter(({ keyId }) => keyring.lostIds.includes(keyId));
  if (lost.length === 0) return null;
  return `${lost.map((under) => `${under.what} are sealed under the lost key ${under.keyId}`).join('; ')}: mail of these domains waits, these endpoints are not called`;
}

/** `v1.<key id>.<bytes>`. */
const keyIdOf = (sealed: string): string => sealed.split('.')[1] ?? '';

/** Throws KeyFileError if a secret in use needs a key that the file lacks or has with other bytes; only warns for `lost <key id>` in the file. */
export async function requireKeys(deps: Deps & { log: Pick<Log, 'warn'> }, file: string): Promise<void> {
  const { keyring, log } = deps;
  for (const { keyId, what } of await sealedSecrets(deps.read)) {
    if (keyring.lostIds.includes(keyId)) {
      log.warn(
        { event: 'secrets_lost', key_id: keyId, secrets: what },
        'what is sealed under a lost key is still in use: mail of its domains waits, its endpoints are not called',
      );
      continue;
    }
    if (!keyring.keyIds.includes(keyId))
      throw new KeyFileError(
        `${file} does not have the key ${keyId}, under which ${what} in the database are sealed: ${cure(keyId)}`,
      );
    if (!(await opens(deps, keyId)))
      throw new KeyFileError(
        `the key ${keyId} in ${file} is not the one under which ${what} in the database are sealed: ${cure(keyId)}`,
      );
  }
}

/** The row of `settings` with the id of the key that the nodes use, and a proof of its bytes. */
const KEY_PROOF = 'secret_key_proof';

/**
 * Throws KeyFileError if the nodes of this database use a key that the file does not have: tokens and secrets that one node makes would
 * be unreadable to the others. The first node writes the proof; one whose file has a newer key beside the old one replaces it.
 */
export async function requireSharedKey(
  { commit, keyring }: { commit: Pick<Committer, 'transact'>; keyring: Keyring },
  file: string,
): Promise<void> {
  const own = [keyring.currentId, proofOf(keyring, keyring.currentId)];
  const stored = await commit.transact(async (tx) => {
    const [row] = await tx.all<{ value: string }>('SELECT value FROM settings WHERE name = ?', [KEY_PROOF]);
    const found = row === undefined ? own : row.value.split(' ');
    if (row?.value !== own.join(' ') && (row === undefined || isProven(keyring, found)))
      await tx.run(
        'INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
        [KEY_PROOF, own.join(' ')],
      );
    return found;
  });
  if (isProven(keyring, stored)) return;
  const [keyId = ''] = stored;
  throw new KeyFileError(
    `${file} is not the file of the other nodes: they use the key ${keyId}. All nodes of a database need the same keys: copy secret.key from the data folder of another node (if it is lost for good, say so in the file with the line "lost ${keyId}"; docs/operating.md tells how to go on)`,
  );
}

const proofOf = (keyring: Keyring, keyId: string): string =>
  createHmac('sha256', keyring.derive('key proof', keyId)).update(keyId).digest('base64url');

/** Returns whether the file has the key of this proof, or names it as lost. */
function isProven(keyring: Keyring, [keyId = '', proof = '']: readonly string[]): boolean {
  if (keyring.lostIds.includes(keyId)) return true;
  if (!keyring.keyIds.includes(keyId)) return false;
  const [expected, given] = [Buffer.from(proofOf(keyring, keyId)), Buffer.from(proof)];
  return expected.length === given.length && timingSafeEqual(expected, given);
}

const cure = (keyId: string): string =>
  `put the old file back from where it is kept (if it is lost for good, say so in the file with the line "lost ${keyId}"; docs/operating.md tells how to go on)`;

/** Tries one DKIM key: either all secrets of a key can be opened, or none. */
async function opens({ read, keyring }: Deps, keyId: string): Promise<boolean> {
  const row = (await read('dkim_keys')
    .select('id', 'private_key_sealed')
    .where('private_key_sealed', 'like', `v1.${keyId}.%`)
    .whereNot({ state: 'retiring' })
    .orderBy('id', 'desc')
    .first()) as { id: string; private_key_sealed: string } | undefined;
  if (row === undefined) return true;
  try {
    keyring.open(sealPurpose(row.id), row.private_key_sealed);
    return true;
  } catch {
    return false;
  }
}
