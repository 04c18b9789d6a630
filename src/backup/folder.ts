/** Describes the backup folder: the number of backups, and age and size of the newest. */
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { HOUR_MS } from '../base/time.ts';
import { nullIfAbsent } from './files.ts';
import { backupName, byAge, DATABASE, KEYS, timeIn } from './manifest.ts';

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
  hasKeys: boolean;
}

/** Clocks of two machines that share a folder may differ by this. */
const SKEW_MS = HOUR_MS;

/** Returns the state of a folder at this time. A missing folder has no backups; other files are skipped. Never rejects. */
export async function backupState(dir: string, now: number): Promise<BackupState> {
  try {
    const found = (await readdir(dir).catch(nullIfAbsent)) ?? [];
    const names = byAge(
      found.filter((name) => timeIn('posthorn', name) !== null),
      backupName('posthorn', now + SKEW_MS),
    );
    return { kind: 'read', dir, count: names.length, newest: await newestOf(dir, names) };
  } catch (error) {
    return { kind: 'unreadable', dir, text: error instanceof Error ? error.message : String(error) };
  }
}

async function newestOf(dir: string, names: readonly string[]): Promise<Backup | null> {
  const sizeOf = async (name: string, file: string): Promise<number | null> =>
    (await stat(path.join(dir, name, file)).catch(nullIfAbsent))?.size ?? null;
  for (const name of [...names].reverse()) {
    const [database, keys] = [await sizeOf(name, DATABASE), await sizeOf(name, KEYS)];
    if (database === null) continue;
    return { name, at: timeIn('posthorn', name) ?? 0, bytes: database + (keys ?? 0), hasKeys: keys !== null };
  }
  return null;
}
