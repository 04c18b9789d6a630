/** The two sides of a copy, as each engine opens them. */
import type { Knex } from 'knex';
import type { Connection } from '../connection.ts';
import type { Mark } from './mark.ts';
import type { CopiedTable } from './tables.ts';

/** Reasons why a database cannot be a side of a copy. The message is a sentence for the operator. */
export type CopyRefusalWhy =
  | 'no_database'
  /** A server or another command uses it. */
  | 'in_use'
  /** The target has rows. */
  | 'not_empty'
  /** Its schema is not that of this version. */
  | 'schema'
  | 'no_room'
  /** The copy is not the same as the original, or a value cannot be copied. */
  | 'data';

export class CopyRefusal extends Error {
  readonly why: CopyRefusalWhy;

  constructor(why: CopyRefusalWhy, message: string) {
    super(message);
    this.name = 'CopyRefusal';
    this.why = why;
  }
}

interface Side {
  /** The connection that rows are read from, or written to and read back from. */
  readonly db: Connection;
  /** Reads what is committed, for the books. */
  readonly reader: Knex;
  close(): Promise<void>;
}

export interface CopySide extends Side {
  /** The migrations that it has taken. */
  readonly steps: readonly string[];
  /** Approximate bytes of a SQLite file with its rows. */
  readonly bytes: number;
  /** Returns the last number that a table has given to a row; 0 before the first. */
  lastNumber(table: CopiedTable): Promise<number>;
}

export interface ExclusiveSource extends CopySide {
  readonly mark: Mark | null;
  /** Marks it as moved, for good, and ends the reading. */
  markMoved(mark: Omit<Mark, 'role'>): Promise<void>;
}

export interface CopyTarget extends Side {
  /** Prepares it for rows: they are not durable before `fill` has ended, and nothing can be begun on them before `finish`. */
  begin(mark: Omit<Mark, 'role'>): Promise<void>;
  /** Fills the tables; their indexes are made afterwards, and their numbers go on. */
  fill(tables: readonly CopiedTable[], copy: () => Promise<Numbers>): Promise<void>;
  /** Takes the mark away: from now on it is a database like any other. */
  finish(): Promise<void>;
}

/** The last numbers of the tables that number their rows. */
export type Numbers = ReadonlyMap<string, number>;
