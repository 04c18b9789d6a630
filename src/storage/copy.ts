/**
 * Makes a consistent copy of the database, a SQLite file, while others write to it. From a file, `VACUUM INTO` reads one snapshot and writes it
 * without gaps; a writer need not wait, but the WAL is not reset while the copy runs, so it grows by all that is written. From PostgreSQL, the
 * rows of one snapshot are copied (storage/move/).
 */
import { pathToFileURL } from 'node:url';
import knexPackage, { type Knex } from 'knex';
import sqlite from 'sqlite3';
import { MARK_TABLE, refusalOf, type Mark } from './move/mark.ts';

/** The copier opens the database itself, since the server may run in another process. */
export interface CopySource {
  /** The approximate size of a copy in bytes. */
  readonly bytes: number;
  /** Writes the copy to a file that does not exist yet. It is not synced. `told` gets the part that is done, from 0 to 1, where it is known. */
  copyTo(file: string, told?: (part: number) => void): Promise<void>;
  close(): Promise<void>;
}

const WAIT_FOR_LOCK_MS = 5000;

/** Throws if the file is not a database or may not be opened, and `DatabaseRefusal` if its rows were moved to another database. */
export async function openCopySource(file: string): Promise<CopySource> {
  const db = await open(file, sqlite.OPEN_READWRITE);
  try {
    await refuseMoved(db);
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

/** A backup of rows that are no longer changed would only look like a new one. */
async function refuseMoved(db: sqlite.Database): Promise<void> {
  const there = await one(db, `SELECT name FROM sqlite_master WHERE name = '${MARK_TABLE}'`);
  const mark = there === undefined ? undefined : await one<Mark>(db, `SELECT role, url, id, at FROM ${MARK_TABLE}`);
  if (mark !== undefined) throw refusalOf(mark);
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

const pragma = async (db: sqlite.Database, name: string): Promise<number> =>
  (await one<Record<string, number>>(db, `PRAGMA ${name}`))?.[name] ?? 0;

function one<Row>(db: sqlite.Database, sql: string): Promise<Row | undefined> {
  return new Promise((resolve, reject) => {
    db.get(sql, (error, row: Row | undefined) => {
      if (error === null) resolve(row);
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
