/** Which backups of a folder go: the oldest of a kind beyond the number that is kept, and what a backup that was cut short left. */
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { isBackupName, type BackupKind } from './manifest.ts';

const PARTIAL = '.partial-';

/** The name under which a backup is written until it is whole. */
export const partialName = (name: string): string => `${PARTIAL}${name}`;

/** Removes what was cut short. Only for who holds the folder's lock: nobody else is writing one then. */
export async function removePartial(dir: string): Promise<void> {
  for (const name of await readdir(dir))
    if (name.startsWith(PARTIAL)) await rm(path.join(dir, name), { recursive: true, force: true });
}

/** Removes all but the newest `keep` of this kind; gives the names of those that went. */
export async function removeOld(dir: string, kind: BackupKind, keep: number): Promise<string[]> {
  const names = (await readdir(dir)).filter((name) => isBackupName(kind, name)).sort();
  const old = names.slice(0, Math.max(0, names.length - keep));
  for (const name of old) await rm(path.join(dir, name), { recursive: true, force: true });
  return old;
}
