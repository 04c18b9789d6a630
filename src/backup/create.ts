/** Backs up a SQLite database and, under a passphrase, the keys, with or without a running server. The folder is named when all was read back. */
import { existsSync, statSync } from 'node:fs';
import { chmod, mkdir, readdir, rm, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import type { Knex } from 'knex';
import type { Clock, Timer } from '../base/clock.ts';
import { codeOf } from '../base/error-code.ts';
import { keyIdsOf } from '../base/keyring.ts';
import { connect, sqliteFile, type StoreAddress } from '../storage/database.ts';
import { STRANGERS_LEAVE } from '../storage/disk-guard.ts';
import { BACKUPS_LOCK, lockFolder } from '../storage/folder-lock.ts';
import { refuseMarked } from '../storage/mark.ts';
import { readFacts, type Facts, verifyBackup } from './verify.ts';
import { readIfThere, renameSynced, sumOf, sync, writeNew } from './files.ts';
import { sealKeys } from './key-part.ts';
import {
  backupName,
  byAge,
  DATABASE,
  KEYS,
  MANIFEST,
  SUMS,
  sumsText,
  timeIn,
  type BackupKind,
  type Manifest,
} from './manifest.ts';
import { whyNotMade, whyNotWritable } from './folder.ts';

export interface BackupDeps {
  clock: Clock;
  version: string;
}

export interface BackupOptions {
  /** The database to copy, a SQLite file. */
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
  progress?: (step: 'copying' | 'checking', done: number, total: number | null) => void;
}

export type Made =
  | {
      kind: 'made';
      folder: string;
      bytes: number;
      hasKeys: boolean;
      manifest: Manifest;
      unbalanced: string[];
      removed: string[];
    }
  | { kind: 'refused'; why: 'no_database' | 'busy' | 'no_room' | 'no_access' | 'damaged'; text: string };

/** Space that stays free: files of the system need some, and the database grows while it is copied. */
const MARGIN_BYTES = 64 * 1024 * 1024;
/** Codes of errors that say that a disk is full. */
const FULL: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'SQLITE_FULL']);
const PROGRESS_EVERY_MS = 500;
/** Begins the name of a backup that is not complete. */
const PARTIAL = '.partial-';

/** Makes a backup. Throws if files cannot be read or written: the disk, or permissions. */
export async function createBackup(deps: BackupDeps, options: BackupOptions): Promise<Made> {
  try {
    return await createInFolder(deps, options);
  } catch (error) {
    // If nothing is free not even the lock can be made, which comes before the room is measured.
    if (!FULL.has(codeOf(error)) || !(error instanceof Error)) throw error;
    return refused('no_room', `there is no room for a backup in ${options.dir} (${error.message}): make room there`);
  }
}

const refused = (why: Extract<Made, { kind: 'refused' }>['why'], text: string): Made => ({
  kind: 'refused',
  why,
  text,
});

async function createInFolder(deps: BackupDeps, options: BackupOptions): Promise<Made> {
  const { dir } = options;
  const file = sqliteFile(options.storage.url);
  if (!existsSync(file)) return refused('no_database', `there is no database at ${file}`);
  const closed = (await whyNotWritable(dir)) ?? whyNotMade(dir);
  if (closed !== null) return refused('no_access', closed);
  const lock = await lockFolder(dir, BACKUPS_LOCK);
  if (lock === null) return refused('busy', `another backup is being made in ${dir}`);
  const source = connect(file, 1, ['PRAGMA busy_timeout = 5000', 'PRAGMA temp_store = MEMORY']);
  try {
    // No other process is writing one: they are of runs that were broken off.
    for (const name of await readdir(dir))
      if (name.startsWith(PARTIAL)) await rm(path.join(dir, name), { recursive: true, force: true });
    // A backup of rows that are no longer changed would only look like a new one.
    await refuseMarked(source);
    return await createIfRoom(deps, options, source);
  } finally {
    await source.destroy();
    await lock.release();
  }
}

async function createIfRoom(deps: BackupDeps, options: BackupOptions, source: Knex): Promise<Made> {
  const [size] = await source.raw<{ bytes: number }[]>(
    `SELECT (page_count - freelist_count) * page_size AS bytes
     FROM pragma_page_count, pragma_freelist_count, pragma_page_size`,
  );
  const bytes = size?.bytes ?? 0;
  const why = await whyNoRoom(options, bytes);
  if (why !== null) return refused('no_room', why);
  const name = freeName(options, deps.clock.now());
  const partial = path.join(options.dir, `${PARTIAL}${name}`);
  await mkdir(partial, { mode: 0o700 });
  try {
    await copyDatabase(deps, options, { source, bytes, copy: path.join(partial, DATABASE) });
    return await completeBackup(deps, options, { partial, name });
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

/**
 * Returns why there is no room for a copy of this size, with the cure. On the disk of the data twice `storage.minFreeBytes` must stay free: with less
 * than once that the server refuses mail.
 */
async function whyNoRoom({ storage, dir, minFreeBytes }: BackupOptions, bytes: number): Promise<string | null> {
  const { bavail, bsize } = await statfs(dir);
  const free = bavail * bsize;
  const isBesideData = (await stat(dir)).dev === (await stat(sqliteFile(storage.url))).dev;
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

/** Copies one moment of the database. `VACUUM INTO` reads one snapshot; writers need not wait, but the WAL grows by all that they write meanwhile. */
async function copyDatabase(
  { clock }: BackupDeps,
  { progress }: BackupOptions,
  { source, bytes, copy }: { source: Knex; bytes: number; copy: string },
): Promise<void> {
  let timer: Timer | null = null;
  const look = (): void => {
    timer = clock.after(PROGRESS_EVERY_MS, look);
    progress?.('copying', Math.min(statSync(copy, { throwIfNoEntry: false })?.size ?? 0, bytes), bytes);
  };
  look();
  try {
    await source.raw('VACUUM INTO ?', [copy]);
  } finally {
    (timer as Timer | null)?.cancel();
  }
  await chmod(copy, 0o600);
  await sync(copy);
}

/** Reads the copy, adds keys, manifest and checksums, and gives the folder its name when all was read back. */
async function completeBackup(
  deps: BackupDeps,
  options: BackupOptions,
  { partial, name }: { partial: string; name: string },
): Promise<Made> {
  const { passphrase, dir } = options;
  options.progress?.('checking', 0, null);
  const copy = path.join(partial, DATABASE);
  const reading = await readFacts(copy);
  if (reading.kind === 'damaged')
    return refused('damaged', `the copy of ${options.storage.url} is damaged: ${reading.faults.join('; ')}`);
  const keyFile = path.join(options.dataDir, 'secret.key');
  const keys = await readIfThere(keyFile);
  const sealed = keys === null || passphrase === null ? null : await sealKeys(keys, passphrase);
  const manifest = manifestOf(deps, reading.facts, keys === null ? [] : keyIdsOf(keys, keyFile));
  if (sealed !== null) await writeNew(path.join(partial, KEYS), sealed);
  await writeNew(path.join(partial, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
  const sums = new Map<string, string>();
  for (const file of [DATABASE, ...(sealed === null ? [] : [KEYS]), MANIFEST])
    sums.set(file, (await sumOf(path.join(partial, file))) ?? '');
  await writeNew(path.join(partial, SUMS), sumsText(sums));
  await sync(partial);
  const checked = await verifyBackup(partial, { passphrase, knownFacts: reading.facts });
  if (checked.kind !== 'good') throw new Error('the backup could not be read back correctly: check the disk');
  const bytes = (await stat(copy)).size + Buffer.byteLength(sealed ?? '');
  await renameSynced(partial, path.join(dir, name));
  return {
    kind: 'made',
    folder: path.join(dir, name),
    bytes,
    hasKeys: sealed !== null,
    manifest,
    unbalanced: reading.facts.books.faults,
    removed: await removeOld(options, name),
  };
}

const manifestOf = ({ clock, version }: BackupDeps, { books, ...facts }: Facts, keyIds: string[]): Manifest => ({
  format: 1,
  version,
  created_at: new Date(clock.now()).toISOString(),
  key_ids: keyIds,
  ...facts,
  books: { balanced: books.balanced, accepted: books.accepted },
});

/** Removes all but the newest `keep` backups of this kind, the last of which was just made; returns the names of the removed ones. */
async function removeOld({ dir, kind, keep }: BackupOptions, made: string): Promise<string[]> {
  const names = (await readdir(dir)).filter((name) => timeIn(kind, name) !== null);
  const old = byAge(names, made).slice(0, Math.max(0, names.length - keep));
  for (const name of old) await rm(path.join(dir, name), { recursive: true, force: true });
  return old;
}
