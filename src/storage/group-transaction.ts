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

/** After these errors SQLite has ended the transaction by itself. */
const ENDED = /^SQLITE_(?:FULL|IOERR|NOMEM|INTERRUPT)/;

/**
 * The transactions of SQLite's one writer. Where SQLite has ended one by itself, a statement that came after would be committed alone, and once
 * more when the units of the group run one by one. So the statements after such an error fail with it.
 */
export function sqliteTransaction(connection: Connection): GroupTransaction {
  let failure: Error | null = null;
  async function guarded<Result>(perform: () => Promise<Result>): Promise<Result> {
    if (failure !== null) throw failure;
    try {
      return await perform();
    } catch (error) {
      if (error instanceof Error && 'code' in error && ENDED.test(String(error.code))) failure = error;
      throw error;
    }
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
    commit: () => connection.run('COMMIT'),
    rollback: () => connection.run('ROLLBACK').catch(() => undefined),
  };
}
