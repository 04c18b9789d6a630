/**
 * Puts a backup into an empty data folder. The server that starts there goes on with the queue: what the copy knows as
 * delivered is finished, what waited is tried, and what was on the wire when the copy was made is tried by the schedule, as
 * after a crash. The database gets its name last, so that a restore that was cut short can be repeated.
 */
import { copyFile, mkdir, rm } from 'node:fs/promises';
import { constants, existsSync } from 'node:fs';
import path from 'node:path';
import { keyIdsOf, openKeyring } from '../base/keyring.ts';
import { lockFolder } from '../storage/folder-lock.ts';
import { migrationNames } from '../storage/migrate.ts';
import { readSmall, renameSynced, sumOf, sync, writeNew } from './files.ts';
import { DATABASE, type Manifest } from './manifest.ts';
import { verifyBackup, type Verified, type VerifyProgress } from './verify.ts';

export interface RestoreWish {
  folder: string;
  /** The database's file; nothing may be there. */
  database: string;
  dataDir: string;
  passphrase: string | null;
  progress?: VerifyProgress;
}

export type Restored =
  | {
      kind: 'restored';
      manifest: Manifest;
      /** Whether the keys came from the backup or were there already. */
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

/** Throws where files cannot be read or written. */
export async function restoreBackup(wish: RestoreWish): Promise<Restored> {
  const { folder, database, dataDir, passphrase, progress } = wish;
  for (const file of [database, `${database}-wal`])
    if (existsSync(file)) return refused('not_empty', `${file} is there already: restore into an empty data folder`);
  const verified = await verifyBackup(folder, { passphrase, ...(progress === undefined ? {} : { progress }) });
  if (verified.kind !== 'good') return verified;
  const unknown = verified.manifest.migrations.filter((name) => !migrationNames.includes(name));
  if (unknown.length > 0)
    return refused(
      'newer',
      `the backup was made by version ${verified.manifest.version}, which knows ${unknown.join(', ')}: restore with that version or a later one`,
    );
  await mkdir(dataDir, { recursive: true, mode: 0o750 });
  const lock = await lockFolder(dataDir);
  if (lock === null) return refused('in_use', `a server is running on ${dataDir}`);
  try {
    return await place(wish, verified);
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
  { folder, database, dataDir }: RestoreWish,
  { manifest, keys, unbalanced }: Extract<Verified, { kind: 'good' }>,
): Promise<Restored> {
  const there = await readSmall(path.join(dataDir, KEY_FILE), MOST_KEY_FILE_BYTES);
  const from = keysFrom(dataDir, { there, manifest, keys });
  if ('refusal' in from) return from.refusal;
  await mkdir(path.dirname(database), { recursive: true, mode: 0o750 });
  const partial = `${database}.restoring`;
  await rm(partial, { force: true });
  await copyFile(path.join(folder, DATABASE), partial, constants.COPYFILE_FICLONE);
  await sync(partial);
  const wanted = manifest.files.find(({ name }) => name === DATABASE)?.sha256;
  if ((await sumOf(partial)) !== wanted) {
    await rm(partial, { force: true });
    return { kind: 'damaged', faults: [`${partial} did not become what was copied: the disk changes what is written`] };
  }
  if (from.text !== null) await writeNew(path.join(dataDir, KEY_FILE), from.text);
  // Reads the file as the server will: rights, form.
  openKeyring(dataDir);
  await renameSynced(partial, database);
  return { kind: 'restored', manifest, keys: from.text === null ? 'found' : 'restored', unbalanced };
}

/** The text of the key file that has to be written, null where it is there already. */
function keysFrom(
  dataDir: string,
  {
    there,
    manifest,
    keys,
  }: { there: string | null; manifest: Manifest; keys: Extract<Verified, { kind: 'good' }>['keys'] },
): { text: string | null } | { refusal: Restored } {
  const file = path.join(dataDir, KEY_FILE);
  if (there !== null) {
    const ids = keyIdsOf(there, file);
    if (manifest.key_ids.every((id) => ids.includes(id))) return { text: null };
    return { refusal: refused('other_keys', `${file} holds other keys than those that the backup was sealed under`) };
  }
  if (keys.kind === 'opened') return { text: keys.text };
  if (keys.kind === 'closed')
    return { refusal: refused('no_passphrase', 'the keys of the backup are encrypted: say its passphrase') };
  return {
    refusal: refused(
      'no_keys',
      `the backup was made without keys: put the ${KEY_FILE} of the old machine into ${dataDir} first`,
    ),
  };
}
