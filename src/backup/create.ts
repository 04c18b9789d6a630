/**
 * Makes a backup of the database and, under a passphrase, of the keys, with or without a running server. The folder gets its
 * final name when everything is on disk and was read back.
 */
import { chmod, mkdir, readdir, rm, stat, statfs } from 'node:fs/promises';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Clock, Timer } from '../base/clock.ts';
import { codeOf } from '../base/error-code.ts';
import { keyIdsOf } from '../base/keyring.ts';
import { openCopySource, type CopySource } from '../storage/copy.ts';
import { databaseFile, mailFolder, type StoreAddress } from '../storage/database.ts';
import { STRANGERS_LEAVE } from '../storage/disk-guard.ts';
import { BACKUPS_LOCK, lockFolder } from '../storage/folder-lock.ts';
import { CopyRefusal } from '../storage/move/sides.ts';
import { readFacts, type Facts } from './facts.ts';
import { readSmall, renameSynced, sizeOf, sumOf, sync, writeNew } from './files.ts';
import { sealKeys } from './key-part.ts';
import {
  backupName,
  byAge,
  DATABASE,
  isBackupName,
  KEYS,
  MANIFEST,
  SUMS,
  sumsText,
  type BackupKind,
  type Manifest,
} from './manifest.ts';
import { verifyBackup } from './verify.ts';
import { whyNotMade, whyNotWritable } from './writable.ts';

export interface BackupDeps {
  clock: Clock;
  /** Version of this program. */
  version: string;
}

export interface BackupOptions {
  /** The database to copy. */
  storage: StoreAddress;
  /** The folder with `secret.key`. */
  dataDir: string;
  /** The folder of the backups; it is created if needed. */
  dir: string;
  /** `storage.minFreeBytes`: with less free room on the disk of the data a server refuses mail. */
  minFreeBytes: number;
  kind: BackupKind;
  /** How many backups of this kind are kept. */
  keep: number;
  /** Null for a backup without the keys. */
  passphrase: string | null;
  progress?: BackupProgress;
}

export type BackupProgress = (step: 'copying' | 'checking', done: number, total: number | null) => void;

export type Made =
  | {
      kind: 'made';
      folder: string;
      bytes: number;
      manifest: Manifest;
      /** Differences in the books. */
      unbalanced: string[];
      /** Older backups that were removed. */
      removed: string[];
    }
  | { kind: 'refused'; why: 'no_database' | 'busy' | 'no_room' | 'no_access' | 'damaged'; text: string };

/** Space that stays free: files of the system need some, and the database grows while it is copied. */
const MARGIN_BYTES = 64 * 1024 * 1024;
/** Codes of errors that say that a disk is full. */
const FULL: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'SQLITE_FULL']);
const PROGRESS_EVERY_MS = 500;
const MOST_KEY_FILE_BYTES = 64 * 1024;
/** Begins the name of a backup that is not complete. */
const PARTIAL = '.partial-';

/** Makes a backup. Throws if files cannot be read or written: the disk, or permissions. */
export async function createBackup(deps: BackupDeps, options: BackupOptions): Promise<Made> {
  try {
    return await createInFolder(deps, options);
  } catch (error) {
    // Where nothing is free not even the lock can be made, which comes before the room is measured.
    if (!FULL.has(codeOf(error)) || !(error instanceof Error)) throw error;
    return refused('no_room', `there is no room for a backup in ${options.dir} (${error.message}): make room there`);
  }
}

async function createInFolder(deps: BackupDeps, options: BackupOptions): Promise<Made> {
  const file = databaseFile(options.storage.url);
  if (file !== null && !existsSync(file)) return refused('no_database', `there is no database at ${file}`);
  const closed = (await whyNotWritable(options.dir)) ?? whyNotMade(options.dir);
  if (closed !== null) return refused('no_access', closed);
  const lock = await lockFolder(options.dir, BACKUPS_LOCK);
  if (lock === null) return refused('busy', `another backup is being made in ${options.dir}`);
  try {
    await removePartial(options.dir);
    const source = await openSource(options.storage, file);
    try {
      return await createIfRoom(deps, options, source);
    } finally {
      await source.close();
    }
  } catch (error) {
    if (error instanceof CopyRefusal) return refused(error.why === 'schema' ? 'no_database' : 'damaged', error.message);
    throw error;
  } finally {
    await lock.release();
  }
}

async function openSource(storage: StoreAddress, file: string | null): Promise<CopySource> {
  if (file !== null) return openCopySource(file);
  return (await import('../storage/move/snapshot-copy.ts')).openSnapshotCopy(storage);
}

const refused = (why: Extract<Made, { kind: 'refused' }>['why'], text: string): Made => ({
  kind: 'refused',
  why,
  text,
});

async function createIfRoom(deps: BackupDeps, options: BackupOptions, source: CopySource): Promise<Made> {
  const why = await whyNoRoom(options, source.bytes);
  if (why !== null) return refused('no_room', why);
  const name = freeName(options, deps.clock.now());
  const partial = path.join(options.dir, `${PARTIAL}${name}`);
  await mkdir(partial, { mode: 0o700 });
  try {
    return await fillBackup(deps, options, { source, partial, name });
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    throw error;
  }
}

/**
 * Returns why there is no room for a copy of this size, with the cure. On the disk of the data, twice `storage.minFreeBytes` must stay free:
 * the server refuses mail where less than that is left.
 */
async function whyNoRoom(
  { storage, dataDir, dir, minFreeBytes }: BackupOptions,
  bytes: number,
): Promise<string | null> {
  const { bavail, bsize } = await statfs(dir);
  const free = bavail * bsize;
  const data = mailFolder({ storage, dataDir });
  const isBesideData = (await stat(dir)).dev === statSync(data, { throwIfNoEntry: false })?.dev;
  const kept = MARGIN_BYTES + (isBesideData ? STRANGERS_LEAVE * minFreeBytes : 0);
  if (free >= bytes + kept) return null;
  const found = `${dir} has ${String(free)} bytes free; a copy needs ${String(bytes)}, and ${String(kept)} must stay free`;
  return isBesideData
    ? `${found}, as it is on the disk of the data, where a server with too little room refuses mail (storage.minFreeBytes): make room, or have backups made on another disk (backup.dir)`
    : `${found}: make room there`;
}

/** Returns a name that is free: one that is taken moves on by a second. */
function freeName({ kind, dir }: Pick<BackupOptions, 'kind' | 'dir'>, now: number): string {
  const name = backupName(kind, now);
  return existsSync(path.join(dir, name)) ? freeName({ kind, dir }, now + 1000) : name;
}

async function fillBackup(
  deps: BackupDeps,
  options: BackupOptions,
  { source, partial, name }: { source: CopySource; partial: string; name: string },
): Promise<Made> {
  const copy = path.join(partial, DATABASE);
  await copyWithProgress(deps, options, { source, copy });
  await chmod(copy, 0o600);
  await sync(copy);
  options.progress?.('checking', 0, null);
  const reading = await readFacts(copy);
  if (reading.kind === 'damaged') {
    await rm(partial, { recursive: true, force: true });
    return refused('damaged', `the copy of ${options.storage.url} is damaged: ${reading.faults.join('; ')}`);
  }
  const manifest = await writeMetadata(deps, options, { partial, facts: reading.facts });
  const checked = await verifyBackup(partial, { passphrase: options.passphrase, knownFacts: reading.facts });
  if (checked.kind !== 'good') throw new Error('the backup could not be read back correctly: check the disk');
  const folder = path.join(options.dir, name);
  await renameSynced(partial, folder);
  return {
    kind: 'made',
    folder,
    bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0),
    manifest,
    unbalanced: reading.facts.books.faults,
    removed: await removeOld(options, name),
  };
}

/** Copies the database and reports progress, by the size of the copy unless the source tells it. */
async function copyWithProgress(
  { clock }: BackupDeps,
  { progress }: BackupOptions,
  { source, copy }: { source: CopySource; copy: string },
): Promise<void> {
  let ended = false;
  let part = null as number | null;
  let timer = null as Timer | null;
  const look = async (): Promise<void> => {
    const bytes = part === null ? await sizeOf(copy) : Math.round(part * source.bytes);
    if (!ended) progress?.('copying', Math.min(bytes, source.bytes), source.bytes);
    if (!ended) timer = clock.after(PROGRESS_EVERY_MS, () => void look());
  };
  const first = look();
  try {
    await source.copyTo(copy, (done) => (part = done));
  } finally {
    ended = true;
    timer?.cancel();
    await first;
  }
}

/** Writes the keys, the manifest and the checksums. */
async function writeMetadata(
  { clock, version }: BackupDeps,
  { dataDir, passphrase }: BackupOptions,
  { partial, facts }: { partial: string; facts: Facts },
): Promise<Manifest> {
  const keyFile = path.join(dataDir, 'secret.key');
  const keys = await readSmall(keyFile, MOST_KEY_FILE_BYTES);
  if (keys !== null && passphrase !== null) await writeNew(path.join(partial, KEYS), await sealKeys(keys, passphrase));
  const names = keys !== null && passphrase !== null ? ([DATABASE, KEYS] as const) : ([DATABASE] as const);
  const files: Manifest['files'] = [];
  for (const name of names) {
    const file = path.join(partial, name);
    files.push({ name, bytes: await sizeOf(file), sha256: (await sumOf(file)) ?? '' });
  }
  const { migrations, epoch, counts, books } = facts;
  const manifest: Manifest = {
    format: 1,
    version,
    created_at: new Date(clock.now()).toISOString(),
    migrations,
    epoch,
    key_ids: keys === null ? [] : keyIdsOf(keys, keyFile),
    counts,
    books: { balanced: books.balanced, accepted: books.accepted },
    files,
  };
  await writeNew(path.join(partial, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
  const sums = new Map<string, string>(files.map(({ name, sha256 }) => [name, sha256]));
  sums.set(MANIFEST, (await sumOf(path.join(partial, MANIFEST))) ?? '');
  await writeNew(path.join(partial, SUMS), sumsText(sums));
  await sync(partial);
  return manifest;
}

/** Removes unfinished backups. The caller holds the folder's lock, so no other process is writing one. */
async function removePartial(dir: string): Promise<void> {
  for (const name of await readdir(dir))
    if (name.startsWith(PARTIAL)) await rm(path.join(dir, name), { recursive: true, force: true });
}

/** Removes all but the newest `keep` backups of this kind, the last of which was just made; returns the names of the removed ones. */
async function removeOld({ dir, kind, keep }: BackupOptions, made: string): Promise<string[]> {
  const names = byAge(
    (await readdir(dir)).filter((name) => isBackupName(kind, name)),
    made,
  );
  const old = names.slice(0, Math.max(0, names.length - keep));
  for (const name of old) await rm(path.join(dir, name), { recursive: true, force: true });
  return old;
}
