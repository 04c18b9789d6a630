/**
 * Restores a backup into an empty data folder, or its rows into an empty PostgreSQL database. The server that starts there continues with the
 * queue: mail delivered in the copy is finished, waiting mail is tried, and mail on the wire during the copy is tried by the schedule, as after
 * a crash. The database gets its name, or loses the mark that it is not complete, last, so that an interrupted restore can be repeated.
 */
import { copyFile, rm } from 'node:fs/promises';
import { constants, existsSync } from 'node:fs';
import path from 'node:path';
import { keyIdsOf, openKeyring } from '../base/keyring.ts';
import { makeFolder } from '../base/make-folder.ts';
import { databaseFile, type StoreAddress } from '../storage/database.ts';
import { lockFolder } from '../storage/folder-lock.ts';
import { whyUnsupported } from '../storage/migrate.ts';
import type { CopyProgress } from '../storage/move/copy-rows.ts';
import { CopyRefusal } from '../storage/move/sides.ts';
import { readSmall, renameSynced, sumOf, sync, writeNew } from './files.ts';
import { DATABASE, type Manifest } from './manifest.ts';
import { verifyBackup, type Verified, type VerifyProgress } from './verify.ts';

export interface RestoreOptions {
  folder: string;
  /** A file that does not exist, or a PostgreSQL database without rows. */
  storage: StoreAddress;
  dataDir: string;
  passphrase: string | null;
  progress?: VerifyProgress;
  /** Progress of the copy of rows, which only PostgreSQL needs. */
  copying?: CopyProgress;
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

const KEY_FILE = 'secret.key';
const MOST_KEY_FILE_BYTES = 64 * 1024;

/** Restores a backup. Throws if files cannot be read or written. */
export async function restoreBackup(options: RestoreOptions): Promise<Restored> {
  const { folder, storage, dataDir, passphrase, progress } = options;
  const database = databaseFile(storage.url);
  for (const file of database === null ? [] : [database, `${database}-wal`])
    if (existsSync(file))
      return refused(
        'not_empty',
        `${file} already exists: stop the server, move the database with its -wal and -shm files elsewhere, and leave secret.key where it is`,
      );
  const verified = await verifyBackup(folder, { passphrase, ...(progress === undefined ? {} : { progress }) });
  if (verified.kind !== 'good') return verified;
  const why = whyUnsupported(verified.manifest.migrations);
  if (why !== null) return refused('newer', `the backup of version ${verified.manifest.version} ${why}`);
  makeFolder(dataDir, 0o750);
  const lock = await lockFolder(dataDir);
  if (lock === null) return refused('in_use', `a server is running on ${dataDir}`);
  try {
    return await place(options, database, verified);
  } catch (error) {
    if (!(error instanceof CopyRefusal)) throw error;
    return error.why === 'not_empty'
      ? refused('not_empty', error.message)
      : { kind: 'damaged', faults: [error.message] };
  } finally {
    await lock.release();
  }
}

const refused = (why: Extract<Restored, { kind: 'refused' }>['why'], text: string): Restored => ({
  kind: 'refused',
  why,
  text,
});

async function place(
  options: RestoreOptions,
  database: string | null,
  { manifest, keys, unbalanced }: Extract<Verified, { kind: 'good' }>,
): Promise<Restored> {
  const { folder, storage, dataDir, copying } = options;
  const existing = await readSmall(path.join(dataDir, KEY_FILE), MOST_KEY_FILE_BYTES);
  const from = keysFrom(dataDir, { existing, manifest, keys });
  if ('refusal' in from) return from.refusal;
  const placeKeys = async (): Promise<void> => {
    if (from.text !== null) await writeNew(path.join(dataDir, KEY_FILE), from.text);
    // Reads the file as the server will, with its permissions and format.
    openKeyring(dataDir);
  };
  const copy = path.join(folder, DATABASE);
  if (database === null)
    await (await import('./restore-rows.ts')).restoreRows({ copy, storage, dataDir, copying }, placeKeys);
  else {
    const wanted = manifest.files.find(({ name }) => name === DATABASE)?.sha256;
    const fault = await placeFile({ copy, database, wanted }, placeKeys);
    if (fault !== null) return { kind: 'damaged', faults: [fault] };
  }
  return { kind: 'restored', manifest, keys: from.text === null ? 'found' : 'restored', unbalanced };
}

/** Returns the fault if the copy differs from the backup, else null. */
async function placeFile(
  { copy, database, wanted }: { copy: string; database: string; wanted: string | undefined },
  placeKeys: () => Promise<void>,
): Promise<string | null> {
  makeFolder(path.dirname(database), 0o750);
  const partial = `${database}.restoring`;
  await rm(partial, { force: true });
  await copyFile(copy, partial, constants.COPYFILE_FICLONE);
  await sync(partial);
  if ((await sumOf(partial)) !== wanted) {
    await rm(partial, { force: true });
    return `${partial} differs from the backup after the copy: check the disk`;
  }
  await placeKeys();
  await renameSynced(partial, database);
  return null;
}

/** Returns the text of the key file to write, null if it is already there. */
function keysFrom(
  dataDir: string,
  {
    existing,
    manifest,
    keys,
  }: { existing: string | null; manifest: Manifest; keys: Extract<Verified, { kind: 'good' }>['keys'] },
): { text: string | null } | { refusal: Restored } {
  const file = path.join(dataDir, KEY_FILE);
  if (existing !== null) {
    const ids = keyIdsOf(existing, file);
    if (manifest.key_ids.every((id) => ids.includes(id))) return { text: null };
    return {
      refusal: refused(
        'other_keys',
        `${file} does not have the keys of this backup: restore into a folder without it, or with the right keys`,
      ),
    };
  }
  if (keys.kind === 'opened') return { text: keys.text };
  if (keys.kind === 'closed')
    return { refusal: refused('no_passphrase', 'the keys of the backup are encrypted: give its passphrase') };
  return {
    refusal: refused(
      'no_keys',
      `the backup was made without keys: put the ${KEY_FILE} of the old machine into ${dataDir} first`,
    ),
  };
}
