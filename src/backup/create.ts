/**
 * Makes a backup of the database and, under a passphrase, of the keys, beside the running server or without one. The folder
 * gets its name only when all is on disk and was read back.
 */
import { chmod, mkdir, rm, statfs } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Clock, Timer } from '../base/clock.ts';
import { keyIdsOf } from '../base/keyring.ts';
import { openCopySource, type CopySource } from '../storage/copy.ts';
import { lockFolder } from '../storage/folder-lock.ts';
import { readFacts, type Facts } from './facts.ts';
import { readSmall, renameSynced, sizeOf, sumOf, sync, writeNew } from './files.ts';
import { partialName, removeOld, removePartial } from './keep.ts';
import { sealKeys } from './key-part.ts';
import { backupName, DATABASE, KEYS, MANIFEST, SUMS, sumsText, type BackupKind, type Manifest } from './manifest.ts';
import { verifyBackup } from './verify.ts';

export interface BackupDeps {
  clock: Clock;
  /** Of this program. */
  version: string;
}

export interface BackupWish {
  /** The database's file. */
  database: string;
  /** Where `secret.key` is. */
  dataDir: string;
  /** The folder that backups are in; made where it is missing. */
  dir: string;
  kind: BackupKind;
  /** How many of this kind stay. */
  keep: number;
  /** Null: without the keys. */
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
      /** What does not fit in the books. */
      unbalanced: string[];
      /** Older ones that went. */
      removed: string[];
    }
  | { kind: 'refused'; why: 'no_database' | 'busy' | 'no_room' | 'damaged'; text: string };

/** Left free on the medium: a copy that fills it would stop the server beside it. */
const MARGIN_BYTES = 64 * 1024 * 1024;
const LOOK_EVERY_MS = 500;
const MOST_KEY_FILE_BYTES = 64 * 1024;

/** Throws where files cannot be read or written: the disk, or rights. */
export async function createBackup(deps: BackupDeps, wish: BackupWish): Promise<Made> {
  if (!existsSync(wish.database)) return refused('no_database', `there is no database at ${wish.database}`);
  await mkdir(wish.dir, { recursive: true, mode: 0o700 });
  const lock = await lockFolder(wish.dir);
  if (lock === null) return refused('busy', `another backup is being made in ${wish.dir}`);
  try {
    await removePartial(wish.dir);
    const source = await openCopySource(wish.database);
    try {
      return await inRoom(deps, wish, source);
    } finally {
      await source.close();
    }
  } finally {
    await lock.release();
  }
}

const refused = (why: Extract<Made, { kind: 'refused' }>['why'], text: string): Made => ({
  kind: 'refused',
  why,
  text,
});

async function inRoom(deps: BackupDeps, wish: BackupWish, source: CopySource): Promise<Made> {
  const { bavail, bsize } = await statfs(wish.dir);
  const free = bavail * bsize;
  if (free < source.bytes + MARGIN_BYTES)
    return refused(
      'no_room',
      `${wish.dir} has ${String(free)} bytes free; a copy needs ${String(source.bytes + MARGIN_BYTES)}`,
    );
  const name = freeName(wish, deps.clock.now());
  const partial = path.join(wish.dir, partialName(name));
  await mkdir(partial, { mode: 0o700 });
  try {
    return await fill(deps, wish, { source, partial, name });
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    throw error;
  }
}

/** Two of the same second get seconds of their own. */
function freeName({ kind, dir }: Pick<BackupWish, 'kind' | 'dir'>, now: number): string {
  const name = backupName(kind, now);
  return existsSync(path.join(dir, name)) ? freeName({ kind, dir }, now + 1000) : name;
}

async function fill(
  deps: BackupDeps,
  wish: BackupWish,
  { source, partial, name }: { source: CopySource; partial: string; name: string },
): Promise<Made> {
  const copy = path.join(partial, DATABASE);
  await watched(deps, wish, { source, copy });
  await chmod(copy, 0o600);
  await sync(copy);
  wish.progress?.('checking', 0, null);
  const reading = await readFacts(copy);
  if (reading.kind === 'damaged') {
    await rm(partial, { recursive: true, force: true });
    return refused('damaged', `the copy of ${wish.database} is damaged: ${reading.faults.join('; ')}`);
  }
  const manifest = await writeAround(deps, wish, { partial, facts: reading.facts });
  const checked = await verifyBackup(partial, { passphrase: wish.passphrase, known: reading.facts });
  if (checked.kind !== 'good') throw new Error('the backup could not be read back: the medium changes what is written');
  const folder = path.join(wish.dir, name);
  await renameSynced(partial, folder);
  return {
    kind: 'made',
    folder,
    bytes: manifest.files.reduce((sum, { bytes }) => sum + bytes, 0),
    manifest,
    unbalanced: reading.facts.books.faults,
    removed: await removeOld(wish.dir, wish.kind, wish.keep),
  };
}

/** Copies, and tells how far it is by the size of what stands there. */
async function watched(
  { clock }: BackupDeps,
  { progress }: BackupWish,
  { source, copy }: { source: CopySource; copy: string },
): Promise<void> {
  let ended = false;
  let timer = null as Timer | null;
  const look = async (): Promise<void> => {
    const bytes = await sizeOf(copy);
    if (!ended) progress?.('copying', Math.min(bytes, source.bytes), source.bytes);
    if (!ended) timer = clock.after(LOOK_EVERY_MS, () => void look());
  };
  const first = look();
  try {
    await source.copyTo(copy);
  } finally {
    ended = true;
    timer?.cancel();
    await first;
  }
}

/** The keys, the manifest and the sums. */
async function writeAround(
  { clock, version }: BackupDeps,
  { dataDir, passphrase }: BackupWish,
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
