/** Removes old backups of a kind beyond the number to keep, and unfinished ones. */
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { isBackupName, type BackupKind } from './manifest.ts';

const PARTIAL = '.partial-';

/** Returns the name of a backup until it is complete. */
export const partialName = (name: string): string => `${PARTIAL}${name}`;

/** Removes unfinished backups. The caller holds the folder's lock, so no other process is writing one. */
export async function removePartial(dir: string): Promise<void> {
  for (const name of await readdir(dir))
    if (name.startsWith(PARTIAL)) await rm(path.join(dir, name), { recursive: true, force: true });
}

/** Removes all but the newest `keep` backups of this kind; returns the names of the removed ones. */
export async function removeOld(dir: string, kind: BackupKind, keep: number): Promise<string[]> {
  const names = (await readdir(dir)).filter((name) => isBackupName(kind, name)).sort();
  const old = names.slice(0, Math.max(0, names.length - keep));
  for (const name of old) await rm(path.join(dir, name), { recursive: true, force: true });
  return old;
}
