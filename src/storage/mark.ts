/**
 * The mark of a database that a server must not use: its rows were moved to another one, or a move into it is not complete. It is a table
 * that only such a database has.
 */
import type { Knex } from 'knex';

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
  const mark = await readMark(knex);
  if (mark !== null) throw refusalOf(mark);
}

export function refusalOf({ role, url, at }: Mark): DatabaseRefusal {
  const day = new Date(at).toISOString().slice(0, 10);
  return role === 'moved'
    ? new DatabaseRefusal('moved', `the database was moved to ${url} on ${day}: set storage.url to that`)
    : new DatabaseRefusal(
        'unfinished',
        `a move of ${url} into this database was begun on ${day} and is not complete: repeat the command that makes it`,
      );
}

export async function readMark(knex: Knex): Promise<Mark | null> {
  if (!(await knex.schema.hasTable(MARK_TABLE))) return null;
  return (await knex<Mark>(MARK_TABLE).first('role', 'url', 'id', 'at')) ?? null;
}

/** Marks a database that has no mark. */
export async function writeMark(knex: Knex, { role, url, id, at }: Mark): Promise<void> {
  await knex.raw(
    `CREATE TABLE ${MARK_TABLE} (role TEXT NOT NULL, url TEXT NOT NULL, id TEXT NOT NULL, at BIGINT NOT NULL)`,
  );
  await knex<Mark>(MARK_TABLE).insert({ role, url, id, at });
}

export type RefusalWhy =
  /** Its version, encoding or settings do not keep what is promised. */
  | 'unsuitable'
  /** Another server or command uses it. */
  | 'in_use'
  | 'unreachable'
  | 'wrong_clock'
  /** Its rows were moved to another database. */
  | 'moved'
  /** A copy into it was broken off. */
  | 'unfinished';

export class DatabaseRefusal extends Error {
  readonly why: RefusalWhy;

  constructor(why: RefusalWhy, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'DatabaseRefusal';
    this.why = why;
  }
}
