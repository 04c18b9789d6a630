/**
 * Restores a backup into an empty data folder. A server there continues with the queue: mail delivered in the copy is finished, waiting mail is
 * tried, and mail on the wire by the schedule, as after a crash. The database gets its name last: interrupted restores can be repeated.
 */
import { constants, existsSync } from 'node:fs';
import { copyFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { keyIdsOf, openKeyring } from '../base/keyring.ts';
import { makeFolder } from '../base/make-folder.ts';
import { sqliteFile, type StoreAddress } from '../storage/database.ts';
import { lockFolder } from '../storage/folder-lock.ts';
import { whyUnsupported } from '../storage/migrate.ts';
import { readIfThere, renameSynced, sumOf, sync, writeNew } from './files.ts';
import { DATABASE, type Manifest } from './manifest.ts';
import { verifyBackup, type Verified, type VerifyProgress } from './verify.ts';

export interface RestoreOptions {
  folder: string;
  /** A SQLite file that does not exist. */
  storage: StoreAddress;
  dataDir: string;
  passphrase: string | null;
  progress?: VerifyProgress;
}

export type Restored =
  | {
      kind: 'restored';
      manifest: Manifest;
      /** `restored`: the keys came from the backup. `found`: they were already there. */
      keys: 'restored' | 'found';
      unbalanced: string[];
    }
  | Exclude<Verified, { kind: 'good' }>
  | {
      kind: 'refused';
      why: 'in_use' | 'not_empty' | 'newer' | 'no_passphrase' | 'no_keys' | 'other_keys';
      text: string;
    };

const refused = (why: Extract<Restored, { kind: 'refused' }>['why'], text: string): Restored => ({
  kind: 'refused',
  why,
  text,
});

/** Restores a backup. Throws if files cannot be read or written. */
export async function restoreBackup({ storage, ...options }: RestoreOptions): Promise<Restored> {
  const { folder, dataDir, ...how } = options;
  const database = sqliteFile(storage.url);
  for (const file of [database, `${database}-wal`])
    if (existsSync(file))
      return refused(
        'not_empty',
        `${file} already exists: stop the server, move the database with its -wal and -shm files elsewhere, and leave secret.key where it is`,
      );
  const verified = await verifyBackup(folder, how);
  if (verified.kind !== 'good') return verified;
  const why = whyUnsupported(verified.manifest.migrations);
  if (why !== null) return refused('newer', `the backup of version ${verified.manifest.version} ${why}`);
  makeFolder(dataDir, 0o750);
  const lock = await lockFolder(dataDir);
  if (lock === null) return refused('in_use', `a server is running on ${dataDir}`);
  try {
    const { manifest, keys, unbalanced } = verified;
    const keyFile = path.join(dataDir, 'secret.key');
    const from = await keysFrom(keyFile, { manifest, keys });
    if ('kind' in from) return from;
    const partial = await copyNew(path.join(folder, DATABASE), database);
    if (partial === null) return { kind: 'damaged', faults: [`${DATABASE} differs after the copy: check the disk`] };
    if (from.text !== null) await writeNew(keyFile, from.text);
    // Reads the file as the server will, with its permissions and format.
    openKeyring(dataDir);
    await renameSynced(partial, database);
    return { kind: 'restored', manifest, keys: from.text === null ? 'found' : 'restored', unbalanced };
  } finally {
    await lock.release();
  }
}

/** Copies the database beside its place; returns the name of the copy, or null if it is not the same. */
async function copyNew(from: string, database: string): Promise<string | null> {
  makeFolder(path.dirname(database), 0o750);
  const partial = `${database}.restoring`;
  await rm(partial, { force: true });
  await copyFile(from, partial, constants.COPYFILE_FICLONE);
  await sync(partial);
  if ((await sumOf(partial)) === (await sumOf(from))) return partial;
  await rm(partial, { force: true });
  return null;
}

/** Returns the text of the key file to write, null if it is already there. */
async function keysFrom(
  file: string,
  { manifest, keys }: Pick<Extract<Verified, { kind: 'good' }>, 'manifest' | 'keys'>,
): Promise<{ text: string | null } | Restored> {
  const existing = await readIfThere(file);
  if (existing !== null) {
    const ids = keyIdsOf(existing, file);
    return manifest.key_ids.every((id) => ids.includes(id))
      ? { text: null }
      : refused(
          'other_keys',
          `${file} does not have the keys of this backup: restore into a folder without it, or with the right keys`,
        );
  }
  if (keys.kind === 'opened') return { text: keys.text };
  return keys.kind === 'closed'
    ? refused('no_passphrase', 'the keys of the backup are encrypted: give its passphrase')
    : refused(
        'no_keys',
        `the backup was made without keys: put the secret.key of the old machine there first: ${file}`,
      );
}
