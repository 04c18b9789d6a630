/** Describes the backup folder: the number of backups, and age and size of the newest. Only its manifest is read. */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { HOUR_MS } from '../base/time.ts';
import { isAbsent, readSmall } from './files.ts';
import { backupName, byAge, isBackupName, KEYS, MANIFEST, MOST_MANIFEST_BYTES, parseManifest } from './manifest.ts';

export type BackupState =
  | {
      kind: 'read';
      dir: string;
      /** Backups made on request; those before a migration are not counted. */
      count: number;
      newest: Backup | null;
    }
  /** The folder or its contents cannot be read. */
  | { kind: 'unreadable'; dir: string; text: string };

export interface Backup {
  name: string;
  /** Milliseconds since the epoch. */
  at: number;
  bytes: number;
  /** True if it has the keys, encrypted. */
  hasKeys: boolean;
  /** Version of the program that made it. */
  version: string;
}

/** Clocks of two machines that share a folder may differ by this. */
const SKEW_MS = HOUR_MS;

/** Returns the last name that a backup may have now; one with a later time was made while the clock was ahead (byAge). */
export const lastName = (now: number): string => backupName('posthorn', now + SKEW_MS);

/** Returns the state of a folder at this time. A missing folder has no backups; other files and damaged backups are skipped. Never rejects. */
export async function backupState(dir: string, now: number): Promise<BackupState> {
  try {
    const found = (await namesIn(dir)).filter((name) => isBackupName('posthorn', name));
    const names = byAge(found, lastName(now));
    return { kind: 'read', dir, count: names.length, newest: await newestOf(dir, names) };
  } catch (error) {
    return { kind: 'unreadable', dir, text: error instanceof Error ? error.message : String(error) };
  }
}

async function namesIn(dir: string): Promise<string[]> {
  return await readdir(dir).catch((error: unknown) => {
    if (isAbsent(error)) return [];
    throw error;
  });
}

async function newestOf(dir: string, names: readonly string[]): Promise<Backup | null> {
  for (const name of [...names].reverse()) {
    const manifest = parseManifest((await readSmall(path.join(dir, name, MANIFEST), MOST_MANIFEST_BYTES)) ?? '');
    if (manifest === null) continue;
    const { created_at: at, files, version } = manifest;
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    return { name, at: Date.parse(at), bytes, hasKeys: files.some((file) => file.name === KEYS), version };
  }
  return null;
}
