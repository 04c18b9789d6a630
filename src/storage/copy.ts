/**
 * Makes a consistent copy of the database, a SQLite file, while others write to it. From a file, `VACUUM INTO` reads one snapshot and writes it
 * without gaps; a writer need not wait, but the WAL is not reset while the copy runs, so it grows by all that is written. From PostgreSQL, the
 * rows of one snapshot are copied (storage/move/).
 */
import { pathToFileURL } from 'node:url';
import knexPackage, { type Knex } from 'knex';
import sqlite from 'sqlite3';

/** The copier opens the database itself, since the server may run in another process. */
export interface CopySource {
  /** The approximate size of a copy in bytes. */
  readonly bytes: number;
  /** Writes the copy to a file that does not exist yet. It is not synced. `told` gets the part that is done, from 0 to 1, where it is known. */
  copyTo(file: string, told?: (part: number) => void): Promise<void>;
  close(): Promise<void>;
}

const WAIT_FOR_LOCK_MS = 5000;

/** Throws if the file is not a database or may not be opened. */
export async function openCopySource(file: string): Promise<CopySource> {
  const db = await open(file, sqlite.OPEN_READWRITE);
  try {
    await exec(db, `PRAGMA busy_timeout = ${String(WAIT_FOR_LOCK_MS)}; PRAGMA temp_store = MEMORY`);
    const pages = await pragma(db, 'page_count');
    const bytes = (pages - (await pragma(db, 'freelist_count'))) * (await pragma(db, 'page_size'));
    return {
      bytes,
      copyTo: (to) => run(db, 'VACUUM INTO ?', [to]),
      close: () => close(db),
    };
  } catch (error) {
    await close(db);
    throw error;
  }
}

/**
 * Opens a reader of a file that has no writer. It takes no locks and creates no files, so a copy can be read on a read-only medium.
 */
export function openStill(file: string): Knex {
  return knexPackage({
    client: 'sqlite3',
    connection: { filename: `${pathToFileURL(file).href}?mode=ro&immutable=1`, flags: ['OPEN_URI'] },
    useNullAsDefault: true,
    pool: { min: 1, max: 1 },
    log: { warn: nothing, error: nothing, debug: nothing, deprecate: nothing },
  });
}

function nothing(): void {
  // Errors reject as well.
}

function open(file: string, mode: number): Promise<sqlite.Database> {
  return new Promise((resolve, reject) => {
    const db: sqlite.Database = new sqlite.Database(file, mode, (error) => {
      if (error === null) resolve(db);
      else reject(error);
    });
  });
}

function exec(db: sqlite.Database, sql: string): Promise<void> {
  return new Promise((resolve, reject) => {
    db.exec(sql, (error) => {
      if (error === null) resolve();
      else reject(error);
    });
  });
}

function run(db: sqlite.Database, sql: string, values: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    db.run(sql, values, (error: Error | null) => {
      if (error === null) resolve();
      else reject(error);
    });
  });
}

function pragma(db: sqlite.Database, name: string): Promise<number> {
  return new Promise((resolve, reject) => {
    db.get(`PRAGMA ${name}`, (error, row: Record<string, number> | undefined) => {
      if (error === null) resolve(row?.[name] ?? 0);
      else reject(error);
    });
  });
}

function close(db: sqlite.Database): Promise<void> {
  return new Promise((resolve, reject) => {
    db.close((error) => {
      if (error === null) resolve();
      else reject(error);
    });
  });
}
