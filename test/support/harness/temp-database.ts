/** A real database in a folder of its own, for one test or one suite. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { recordWork } from '../../../src/messages/delivery/record.ts';
import { dropDatabase, emptyTemplate, isOnPostgres, makeDatabase, startedCluster, urlOf } from './postgres.ts';
import { openDatabase, type Database } from '../../../src/storage/database.ts';

export interface TempDatabase {
  db: Database;
  folder: string;
  url: string;
  /** Closes the database and removes the folder. */
  close(): Promise<void>;
}

/** The order in which rows were written, where nothing has changed them since. */
export const ROW_ORDER = isOnPostgres ? 'ctid' : 'rowid';

/** Opens a database of the engine that the tests run on; `sqlite` for what only SQLite has. */
export async function openTempDatabase(only?: 'sqlite'): Promise<TempDatabase> {
  const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-test-'));
  const name = isOnPostgres && only === undefined ? await copyOfEmpty() : null;
  const url =
    name === null ? `sqlite:${path.join(folder, 'posthorn.db')}` : urlOf((await startedCluster()).folder, name);
  const db = await openDatabase({ url, usualWork: [recordWork] });
  return {
    db,
    folder,
    url,
    async close() {
      await db.close();
      if (name !== null) await dropDatabase(name);
      rmSync(folder, { recursive: true });
    },
  };
}

/** Returns the size of the database in bytes. */
export async function databaseBytes(db: Pick<Database, 'prepared'>): Promise<number> {
  const [row] = await db.prepared.all<{ bytes: number }>(
    isOnPostgres
      ? 'SELECT pg_database_size(current_database()) AS bytes'
      : 'SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size',
  );
  return row?.bytes ?? 0;
}

/** Makes a database of PostgreSQL with the tables and without rows, and returns its name. */
async function copyOfEmpty(): Promise<string> {
  return makeDatabase(await emptyTemplate(async (url) => (await openDatabase({ url })).close()));
}
