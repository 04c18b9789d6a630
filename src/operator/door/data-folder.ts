/** Makes the data folder (`dataDir`) if it is missing, and checks its rights before a file in it is opened. */
import { accessSync, chmodSync, constants, existsSync, statSync } from 'node:fs';
import { codeOf } from '../../base/error-code.ts';
import { makeFolder } from '../../base/make-folder.ts';
import { ConfigError } from '../../config/load.ts';
import { Unavailable } from '../../base/unavailable.ts';

/** Messages for the system's error codes of a wrong path. */
const wrongPath: Readonly<Record<string, string>> = {
  EEXIST: 'it is not a folder',
  ENOTDIR: 'a part of its path is not a folder',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'its links lead in a circle',
  ENOENT: 'no folder can be made there',
  EROFS: 'the file system there is read-only',
};
const FORBIDDEN = ['EACCES', 'EPERM'];

/** Throws ConfigError if the path cannot be a writable folder, and `Unavailable` if this user may not write to it. */
export function makeDataFolder(dataDir: string): void {
  try {
    makeFolder(dataDir, 0o750);
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const code = codeOf(error);
    const why = wrongPath[code];
    if (why !== undefined) throw new ConfigError([`dataDir: ${dataDir} cannot be the data folder: ${why}`]);
    if (!FORBIDDEN.includes(code)) throw error;
    throw new Unavailable(
      'no_access',
      `${dataDir} may not be written by this user (${String(process.getuid?.())}): run this as the one that it belongs to, or give it to this one with all rights; a service sees no home folders`,
    );
  }
}

/** The rights of users who are neither the owner nor in the group. */
const OTHERS = 0o007;

/** Takes the rights of all other users to the database away, since it contains all mail. Returns the files that were changed. */
export function closeToOthers(database: string): string[] {
  return [database, `${database}-wal`, `${database}-shm`].filter((file) => {
    const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0;
    if ((mode & OTHERS) === 0) return false;
    chmodSync(file, mode & ~OTHERS);
    return true;
  });
}

/** Throws `Unavailable`. Files that root makes beside those of a service user would keep the service from starting. */
export function checkFiles(file: string, mayMake: boolean): void {
  if (!existsSync(file)) {
    if (mayMake) return;
    throw new Unavailable(
      'no_database',
      `there is no database at ${file} yet: start the server with \`posthorn serve\``,
    );
  }
  refuseRoot(file);
}

/** Throws `Unavailable` for root if this file or folder belongs to another user. */
export function refuseRoot(place: string): void {
  const owner = statSync(place, { throwIfNoEntry: false })?.uid ?? 0;
  if (process.getuid?.() === 0 && owner !== 0)
    throw new Unavailable('no_access', `${place} belongs to user ${String(owner)}: run this as that user`);
}
