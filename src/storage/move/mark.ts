/**
 * The mark of a database that a server must not use: its rows were moved to another one, or a copy into it is not complete. It is a table
 * that only such a database has.
 */
import type { Knex } from 'knex';
import type { Connection } from '../connection.ts';
import { DatabaseRefusal } from '../database-refusal.ts';
import { hasTable } from './schema.ts';

export const MARK_TABLE = 'storage_move';

export interface Mark {
  /** `moved`: the rows are in the database at `url` now. `unfinished`: they come from there, and are not all here. */
  role: 'moved' | 'unfinished';
  url: string;
  /** The same on both sides of one move. */
  id: string;
  /** Milliseconds since the epoch. */
  at: number;
}

/** Throws `DatabaseRefusal` if the database is marked. */
export async function refuseMarked(knex: Knex): Promise<void> {
  if (!(await knex.schema.hasTable(MARK_TABLE))) return;
  const [mark] = await knex<Mark>(MARK_TABLE).select('role', 'url', 'id', 'at');
  if (mark !== undefined) throw refusalOf(mark);
}

export function refusalOf({ role, url, at }: Mark): DatabaseRefusal {
  const day = new Date(at).toISOString().slice(0, 10);
  return role === 'moved'
    ? new DatabaseRefusal('moved', `the database was moved to ${url} on ${day}: set storage.url to that`)
    : new DatabaseRefusal(
        'unfinished',
        `a copy of ${url} into this database was begun on ${day} and is not complete: repeat the command that makes it`,
      );
}

/** Returns the mark of a database, or null. */
export async function readMark(db: Connection): Promise<Mark | null> {
  if (!(await hasTable(db, MARK_TABLE))) return null;
  const [mark] = await db.all<Mark>(`SELECT role, url, id, at FROM ${MARK_TABLE}`);
  return mark ?? null;
}

/** Marks a database that has no mark. */
export async function writeMark(db: Connection, { role, url, id, at }: Mark): Promise<void> {
  await db.run(
    `CREATE TABLE ${MARK_TABLE} (role TEXT NOT NULL, url TEXT NOT NULL, id TEXT NOT NULL, at BIGINT NOT NULL)`,
  );
  await db.run(`INSERT INTO ${MARK_TABLE} (role, url, id, at) VALUES (?, ?, ?, ?)`, [role, url, id, at]);
}

export const removeMark = (db: Connection): Promise<void> => db.run(`DROP TABLE IF EXISTS ${MARK_TABLE}`);
