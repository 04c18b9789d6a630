/**
 * One server a data folder, even where two start in the same instant: an exclusive lock that the system takes back when its
 * holder dies, however it dies. SQLite's own locking of a file is used, as it works wherever the database does.
 */
import path from 'node:path';
import sqlite from 'sqlite3';

export interface FolderLock {
  /** Safe to call twice. */
  release(): Promise<void>;
}

/** Takes the lock of the folder, or gives null where another process, or another server of this one, holds it. */
export async function lockFolder(dataDir: string): Promise<FolderLock | null> {
  const file = await open(path.join(dataDir, 'posthorn.lock'));
  const refused = await new Promise<Error | null>((resolve) => {
    // Those that ask in the same instant stand in each other's way for a moment: without patience none would get it.
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
