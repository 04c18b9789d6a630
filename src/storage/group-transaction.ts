/** Begins and ends the transaction of a group of writes, as the engine needs it, and says what its errors mean. */
import type { Connection } from './connection.ts';

/**
 * What to do after an error. `split`: the units run one by one, so that only the faulty one fails. `committed`: it turned out that the last
 * run was committed after all.
 */
export type AfterError = 'split' | 'fail' | 'again' | 'committed';

export interface GroupTransaction {
  readonly connection: Connection;
  /** The reads of a group belong to its transaction, as others write at the same time; with one writer they start before it. */
  readonly readsInside?: boolean;
  /** Called before each run of a group: connects, if the engine may lose its connection. */
  ready?(): Promise<void>;
  begin(): Promise<void>;
  /** Resolves when the transaction is durable. */
  commit(): Promise<void>;
  /** Never rejects. */
  rollback(): Promise<void>;
  /** Says what to do after an error; `tries` counts the runs of the group. Without it a group that had begun is split. */
  afterError?(error: unknown, tries: number): Promise<AfterError>;
}

/**
 * The transactions of SQLite's one writer. SQLite ends a transaction by itself after some errors, such as a full disk: a statement that ran
 * after that, or after the ROLLBACK, would be committed alone, and once more when the units of the group run one by one. The driver runs
 * statements in threads, so they are handed to it one at a time, and those that come after an error fail with it, as they do on PostgreSQL.
 */
export function sqliteTransaction(connection: Connection): GroupTransaction {
  let failure: { cause: unknown } | null = null;
  /** Resolves when no statement is under way. */
  let last: Promise<unknown> = Promise.resolve();

  function inTurn<Result>(perform: () => Promise<Result>): Promise<Result> {
    const result = last.then(() => {
      if (failure !== null) throw failure.cause;
      return perform();
    });
    last = result.catch((cause: unknown) => {
      failure ??= { cause };
    });
    return result;
  }

  async function rollback(): Promise<void> {
    failure ??= { cause: new Error('the transaction was rolled back') };
    await last;
    // After some failures SQLite has rolled back by itself.
    await connection.run('ROLLBACK').catch(() => undefined);
  }

  return {
    connection: {
      ...connection,
      all: (sql, values) => inTurn(() => connection.all(sql, values)),
      run: (sql, values) => inTurn(() => connection.run(sql, values)),
    },
    ready() {
      failure = null;
      return Promise.resolve();
    },
    begin: () => connection.run('BEGIN IMMEDIATE'),
    async commit() {
      await last;
      if (failure !== null) throw failure.cause;
      await connection.run('COMMIT');
    },
    rollback,
  };
}
