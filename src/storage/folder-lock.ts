/** Allows one server for each data folder by an exclusive lock, which the system releases when its holder dies: SQLite's, which works everywhere. */
import path from 'node:path';
import sqlite from 'sqlite3';

export interface FolderLock {
  /** Safe to call twice. */
  release(): Promise<void>;
}

/** The lock of a folder as that of backups. Its own, since backups may be in the data folder of a server that runs. */
export const BACKUPS_LOCK = 'backups.lock';

/** Takes the lock of the folder; null if another process, or another server in this one, has it. */
export async function lockFolder(folder: string, name = 'posthorn.lock'): Promise<FolderLock | null> {
  const file = await open(path.join(folder, name));
  const refused = await new Promise<Error | null>((resolve) => {
    // Without a timeout, servers that start in the same instant would block each other and none would get the lock.
    file.exec('PRAGMA busy_timeout = 500; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE', resolve);
  });
  let released: Promise<void> | null = null;
  const release = (): Promise<void> =>
    (released ??= new Promise((resolve, reject) => {
      file.close((error) => {
        if (error === null) resolve();
        else reject(error);
      });
    }));
  if (refused === null) return { release };
  await release();
  if ('code' in refused && refused.code === 'SQLITE_BUSY') return null;
  throw refused;
}

function open(name: string): Promise<sqlite.Database> {
  return new Promise((resolve, reject) => {
    const file: sqlite.Database = new sqlite.Database(name, (error) => {
      if (error === null) resolve(file);
      else reject(error);
    });
  });
}
