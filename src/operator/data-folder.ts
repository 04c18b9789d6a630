/** The data folder (`dataDir`), made where it is missing, and looked at before anything is opened in it. */
import { accessSync, constants, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { ConfigError } from '../config/load.ts';
import { Unavailable } from './unavailable.ts';

/** What a wrong path is to the system. */
const wrongPath: Readonly<Record<string, string>> = {
  EEXIST: 'it is no folder',
  ENOTDIR: 'a part of its path is no folder',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'its links lead in a circle',
  ENOENT: 'no folder can be made there',
  EROFS: 'the file system there is read-only',
};
const FORBIDDEN = ['EACCES', 'EPERM'];

/** Throws ConfigError where the path cannot be a folder that is written to, and `Unavailable` where this user may not. */
export function makeDataFolder(dataDir: string): void {
  try {
    makeFolder(dataDir);
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const code = codeOf(error);
    const why = wrongPath[code];
    if (why !== undefined) throw new ConfigError([`dataDir: ${dataDir} cannot be the data folder: ${why}`]);
    if (!FORBIDDEN.includes(code)) throw error;
    throw new Unavailable(
      'no_access',
      `${dataDir} may not be written by this user (${String(process.getuid?.())}): run this as the one that it belongs to, or give it to this one`,
    );
  }
}

/** Not `recursive`, which never returns where the system says ENOENT of a folder whose parent is there, as /proc does. */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o750 });
  } catch (error) {
    if (codeOf(error) === 'EEXIST' && statSync(folder).isDirectory()) return;
    const parent = path.dirname(folder);
    if (codeOf(error) !== 'ENOENT' || isFolder(parent)) throw error;
    makeFolder(parent);
    mkdirSync(folder, { mode: 0o750 });
  }
}

const isFolder = (name: string): boolean => statSync(name, { throwIfNoEntry: false })?.isDirectory() === true;

const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '');
