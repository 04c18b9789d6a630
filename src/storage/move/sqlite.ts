/** SQLite files as sides of a copy. */
import { existsSync } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Knex } from 'knex';
import { takeConnection, type Connection } from '../connection.ts';
import { openStill } from '../copy.ts';
import { connect, durable, readOnly } from '../database.ts';
import { makeSchema } from '../migrate.ts';
import { readMark, removeMark, writeMark } from './mark.ts';
import { migrationsIn } from './schema.ts';
import { CopyRefusal, type CopySide, type CopyTarget, type ExclusiveSource, type Numbers } from './sides.ts';
import { numberOf, type CopiedTable } from './tables.ts';

/** Opens a file without a writer, such as the copy in a backup. */
export async function openStillFile(file: string): Promise<CopySide> {
  const knex = openStill(file);
  return sideOf(file, knex, openStill(file));
}

/** Opens a file as the source of a move: no other program can write to it until it is closed. Throws `CopyRefusal`. */
export async function openSqliteSource(file: string): Promise<ExclusiveSource> {
  if (!existsSync(file)) throw new CopyRefusal('no_database', `there is no database at ${file}`);
  const side = await sideOf(file, connect(file, 1, durable), connect(file, 1, readOnly));
  try {
    await side.db.run('BEGIN IMMEDIATE');
    const mark = await readMark(side.db);
    return {
      ...side,
      mark,
      async markMoved(moved) {
        await writeMark(side.db, { role: 'moved', ...moved });
        await side.db.run('COMMIT');
      },
    };
  } catch (error) {
    await side.close();
    if (error instanceof Error && 'code' in error && error.code === 'SQLITE_BUSY')
      throw new CopyRefusal('in_use', `another program writes to ${file}: end it first`);
    throw error;
  }
}

async function sideOf(file: string, knex: Knex, reader: Knex): Promise<CopySide> {
  const db = await takeConnection(knex);
  const close = async (): Promise<void> => {
    await db.close();
    await Promise.all([knex.destroy(), reader.destroy()]);
  };
  try {
    return {
      db,
      reader,
      steps: await migrationsIn(db),
      bytes: (await stat(file)).size,
      lastNumber: (table) => lastNumber(db, table),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A table may have given numbers whose rows are gone. */
async function lastNumber(db: Connection, table: CopiedTable): Promise<number> {
  const column = numberOf(table);
  if (column === null) return 0;
  const [row] = await db.all<{ n: number | null }>(`SELECT MAX(${column}) AS n FROM ${table.name}`);
  const [given] = await db.all<{ seq: number }>('SELECT seq FROM sqlite_sequence WHERE name = ?', [table.name]);
  return Math.max(row?.n ?? 0, given?.seq ?? 0);
}

/** The name of a file that is being filled; it gets its own name at the end. */
const partialOf = (file: string): string => `${file}.moving`;

/** While it is filled nothing of it needs to survive a crash: then it is begun again. */
const loose = ['PRAGMA journal_mode = OFF', 'PRAGMA synchronous = OFF', 'PRAGMA cache_size = -65536'];
const careful = ['PRAGMA journal_mode = DELETE', 'PRAGMA synchronous = FULL'];

/**
 * Makes a new file, which has another name until it is finished, with the schema of these migrations. Throws `CopyRefusal` if the file
 * exists.
 */
export async function createSqliteTarget(file: string, steps: readonly string[]): Promise<CopyTarget> {
  for (const name of [file, `${file}-wal`])
    if (existsSync(name)) throw new CopyRefusal('not_empty', `${name} already exists: name a file that does not`);
  const partial = partialOf(file);
  await removeFile(partial);
  const made = connect(partial, 1, ['PRAGMA auto_vacuum = INCREMENTAL', ...loose]);
  await makeSchema(made, steps).finally(() => made.destroy());
  return openPartial(file, loose);
}

/** Opens a file that a move filled and did not rename; null if there is none, or it belongs to another move. */
export async function openFilledTarget(file: string, id: string): Promise<CopyTarget | null> {
  if (existsSync(file) || !existsSync(partialOf(file))) return null;
  const target = await openPartial(file, careful);
  if ((await readMark(target.db))?.id === id) return target;
  await target.close();
  return null;
}

async function openPartial(file: string, pragmas: readonly string[]): Promise<CopyTarget> {
  const partial = partialOf(file);
  const knex = connect(partial, 1, pragmas);
  const reader = openStill(partial);
  const db = await takeConnection(knex);
  let isClosed = false;
  const close = async (): Promise<void> => {
    if (isClosed) return;
    isClosed = true;
    await db.close();
    await Promise.all([knex.destroy(), reader.destroy()]);
  };
  return {
    db,
    reader,
    begin: (mark) => writeMark(db, { role: 'unfinished', ...mark }),
    async fill(_tables, copy) {
      await db.run('BEGIN');
      const indexes = await db.all<{ name: string; sql: string }>(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
      );
      for (const { name } of indexes) await db.run(`DROP INDEX ${name}`);
      const numbers = await copy();
      for (const { sql } of indexes) await db.run(sql);
      await goOnFrom(db, numbers);
      await db.run('COMMIT');
      for (const pragma of careful) await db.all(pragma);
      await synced(partial);
    },
    async finish() {
      await removeMark(db);
      await close();
      await synced(partial);
      await rename(partial, file);
      await synced(path.dirname(file));
    },
    close,
  };
}

/** Only tables with AUTOINCREMENT keep the last number; the others go on from the largest one. */
async function goOnFrom(db: Connection, numbers: Numbers): Promise<void> {
  for (const [table, last] of numbers) {
    const [row] = await db.all<{ sql: string }>("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", [
      table,
    ]);
    if (row?.sql.includes('AUTOINCREMENT') !== true) continue;
    await db.run('DELETE FROM sqlite_sequence WHERE name = ?', [table]);
    await db.run('INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)', [table, last]);
  }
}

async function synced(file: string): Promise<void> {
  const handle = await open(file, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function removeFile(file: string): Promise<void> {
  for (const name of [file, `${file}-journal`, `${file}-wal`, `${file}-shm`]) await rm(name, { force: true });
}
