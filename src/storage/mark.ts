/** The mark of a database that a server must not use, since its rows were moved to another one: a table that only such a database has. */
import type { Knex } from 'knex';

export const MARK_TABLE = 'storage_move';

/** Where the rows are now, and since when, in milliseconds. */
interface Mark {
  url: string;
  at: number;
}

/** Throws `DatabaseRefusal` if the rows were moved to another database. */
export async function refuseMarked(knex: Knex): Promise<void> {
  if (!(await knex.schema.hasTable(MARK_TABLE))) return;
  const mark = await knex<Mark>(MARK_TABLE).first('url', 'at');
  if (mark === undefined) return;
  const day = new Date(mark.at).toISOString().slice(0, 10);
  throw new DatabaseRefusal('moved', `the database was moved to ${mark.url} on ${day}: set storage.url to that`);
}

export async function markMoved(knex: Knex, mark: Mark): Promise<void> {
  await knex.raw(`CREATE TABLE ${MARK_TABLE} (url TEXT NOT NULL, at BIGINT NOT NULL)`);
  await knex<Mark>(MARK_TABLE).insert(mark);
}

export type RefusalWhy =
  /** Its version, encoding or settings do not keep what is promised. */
  | 'unsuitable'
  /** Another server or command uses it. */
  | 'in_use'
  | 'unreachable'
  | 'wrong_clock'
  /** Its rows were moved to another database. */
  | 'moved';

export class DatabaseRefusal extends Error {
  readonly why: RefusalWhy;

  constructor(why: RefusalWhy, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'DatabaseRefusal';
    this.why = why;
  }
}
