/** Describes the backup folder: the number of backups, and age and size of the newest. */
import { readdir, stat, access, constants } from 'node:fs/promises';
import { HOUR_MS } from '../base/time.ts';
import { nullIfAbsent } from './files.ts';
import { backupName, byAge, DATABASE, KEYS, timeIn } from './manifest.ts';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { codeOf } from '../base/error-code.ts';
import { makeFolder } from '../base/make-folder.ts';

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

/** Returns null if the folder can be written, or made; else a sentence with cause and cure. Never rejects. */
export async function whyNotWritable(dir: string): Promise<string | null> {
  let there = dir;
  while (!existsSync(there) && path.dirname(there) !== there) there = path.dirname(there);
  try {
    if (!(await stat(there)).isDirectory()) return `${there} is not a folder: choose another one with backup.dir`;
    await access(there, constants.R_OK | constants.W_OK | constants.X_OK);
    return null;
  } catch (error) {
    return there === dir ? sentence(there, error) : `${dir} is not there and cannot be made: ${sentence(there, error)}`;
  }
}

/** Makes the folder. Returns null, or a sentence with cause and cure: some file systems, such as /proc, have no folders to make. */
export function whyNotMade(dir: string): string | null {
  try {
    makeFolder(dir, 0o700);
    return null;
  } catch (error) {
    return sentence(dir, error);
  }
}

function sentence(dir: string, error: unknown): string {
  switch (codeOf(error)) {
    case 'EROFS':
      return `${dir} cannot be written, since its file system is read-only here (EROFS): under systemd the unit has to allow the folder, run \`sudo /opt/posthorn/systemd/paths.sh\`, which reads the settings; elsewhere look at \`mount\``;
    case 'EACCES':
    case 'EPERM':
      return `this user (${String(process.getuid?.())}) may not write into ${dir} (${codeOf(error)}): as root, \`chown posthorn: ${dir}\`; if it is another disk, its mount point has to be passable too`;
    default:
      return `${dir} cannot be used (${codeOf(error)}): choose another folder with backup.dir`;
  }
}
