/** One connection that keeps its prepared statements, for the hot path: preparing costs more than running, and knex prepares each time. */
import type { Knex } from 'knex';
import { LRUCache } from 'lru-cache';
import type { Database as Sqlite, Statement as Prepared } from 'sqlite3';
import { textFor, type Engine, type Statement } from './sql.ts';

export type Value = string | number | null | Buffer;

export interface Connection {
  readonly engine: Engine;
  all<Row>(sql: string | Statement, values?: readonly Value[]): Promise<Row[]>;
  run(sql: string | Statement, values?: readonly Value[]): Promise<void>;
  /** Gives the prepared statements back; the connection itself belongs to its pool. */
  close(): Promise<void>;
  /** The rules of writing at the same time as others; absent if there is only one writer. */
  readonly shared?: SharedWriting;
}

/** The rules of a transaction while others write at the same time. */
export interface SharedWriting {
  /** The part of sums that this transaction adds to. */
  readonly part: number;
  /** Has the work done at the end of the transaction, when it is its turn to number rows. */
  inTurn(work: () => Promise<void>): void;
}

/** Statements with a variable number of placeholders would otherwise pile up. */
const MOST_STATEMENTS = 200;

/** Values longer than this together are given up after their statement has run: it would keep a copy of them in memory until its next run. */
const LARGE = 256 * 1024;
const lengthOf = (value: Value): number => (value === null || typeof value === 'number' ? 0 : value.length);

/** Takes the only connection of a pool. The caller does not share that pool. */
export async function takeConnection(knex: Knex): Promise<Connection> {
  const sqlite = (await (knex.client as { acquireConnection(): Promise<unknown> }).acquireConnection()) as Sqlite;
  /** Promises, so that two callers of a new statement share it: a lost statement would keep the database from closing. */
  const prepared = new LRUCache<string, Promise<Prepared>>({
    max: MOST_STATEMENTS,
    dispose(made, _sql, reason) {
      if (reason === 'evict') finalize(made);
    },
  });

  function preparedOf(sql: string): Promise<Prepared> {
    let known = prepared.get(sql);
    if (known === undefined) {
      known = prepare(sql);
      prepared.set(sql, known);
      known.catch(() => prepared.delete(sql));
    }
    return known;
  }

  function prepare(sql: string): Promise<Prepared> {
    return new Promise((resolve, reject) => {
      const fresh = sqlite.prepare(sql, (error: Error | null) => {
        if (error === null) resolve(fresh);
        else reject(error);
      });
    });
  }

  /** An earlier borrower of the statement runs first: sqlite3 queues the calls of one statement. */
  function finalize(made: Promise<Prepared>): void {
    made.then(
      (one) => one.finalize(),
      () => undefined,
    );
  }

  async function perform<Result>(
    how: 'all' | 'run',
    sql: string | Statement,
    values: readonly Value[] = [],
  ): Promise<Result> {
    const text = textFor('sqlite', sql);
    const ready = await preparedOf(text);
    return new Promise((resolve, reject) => {
      ready[how](values, (error: Error | null, rows: unknown) => {
        if (error === null) resolve(rows as Result);
        // One that waited for a lock in vain counts as running, and as long as one does SQLite commits no other.
        else ready.reset(() => reject(error));
      });
      if (values.reduce<number>((sum, value) => sum + lengthOf(value), 0) > LARGE) ready.bind(null);
    });
  }

  return {
    engine: 'sqlite',
    all: <Row>(sql: string | Statement, values?: readonly Value[]) => perform<Row[]>('all', sql, values),
    run: (sql, values) => perform('run', sql, values),
    async close() {
      const all = [...prepared.values()];
      prepared.clear();
      for (const made of all) {
        const one = await made.catch(() => null);
        if (one !== null) await new Promise<void>((resolve) => one.finalize(() => resolve()));
      }
      await (knex.client as { releaseConnection(connection: unknown): Promise<void> }).releaseConnection(sqlite);
    },
  };
}
