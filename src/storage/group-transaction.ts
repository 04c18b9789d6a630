/** How the transaction of a group of writes begins and ends on an engine, and what its errors mean. */
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
  /** Called before each run of a group: connects, where the engine may lose its connection. */
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
 * The transactions of SQLite's one writer. Its statements run in threads, in any order, and SQLite ends a transaction by itself when the disk is
 * full: a statement that ran after that, or after the ROLLBACK, would be committed alone, and once more when the units of the group run
 * one by one. So the statements that come after an error fail with it, as they do on PostgreSQL, and ROLLBACK waits for those under way.
 */
export function sqliteTransaction(connection: Connection): GroupTransaction {
  let failure: { cause: unknown } | null = null;
  let underWay = 0;
  let isQuiet: (() => void) | null = null;

  async function guarded<Result>(perform: () => Promise<Result>): Promise<Result> {
    if (failure !== null) throw failure.cause;
    underWay++;
    try {
      return await perform();
    } catch (cause) {
      failure ??= { cause };
      throw cause;
    } finally {
      underWay--;
      if (underWay === 0) isQuiet?.();
    }
  }

  async function rollback(): Promise<void> {
    failure ??= { cause: new Error('the transaction was rolled back') };
    if (underWay > 0) await new Promise<void>((resolve) => (isQuiet = resolve));
    isQuiet = null;
    // After some failures SQLite has rolled back by itself.
    await connection.run('ROLLBACK').catch(() => undefined);
  }

  return {
    connection: {
      ...connection,
      all: (sql, values) => guarded(() => connection.all(sql, values)),
      run: (sql, values) => guarded(() => connection.run(sql, values)),
    },
    ready() {
      failure = null;
      return Promise.resolve();
    },
    begin: () => connection.run('BEGIN IMMEDIATE'),
    async commit() {
      if (failure !== null) throw failure.cause;
      await connection.run('COMMIT');
    },
    rollback,
  };
}
