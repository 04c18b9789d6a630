/** The data folder (`dataDir`), made where it is missing. */
import { mkdirSync } from 'node:fs';
import { ConfigError } from './load.ts';

/** What a wrong path is to the system; anything else (no right to it, no room) is not the setting's fault. */
const wrongPath: Readonly<Record<string, string>> = {
  EEXIST: 'it is no folder',
  ENOTDIR: 'a part of its path is no folder',
  ENAMETOOLONG: 'the name is too long',
  ELOOP: 'its links lead in a circle',
  ENOENT: 'its link leads nowhere',
  EROFS: 'nothing can be written there: the file system is read-only',
};

/** Throws ConfigError where the path cannot be a folder, and the system's error where we may not make it. */
export function makeDataFolder(dataDir: string): void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o750 });
  } catch (error) {
    const why = error instanceof Error && 'code' in error ? wrongPath[String(error.code)] : undefined;
    if (why === undefined) throw error;
    throw new ConfigError([`dataDir: ${dataDir} cannot be the data folder: ${why}`]);
  }
}
