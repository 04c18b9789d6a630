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
  /** Finds a connection, where the engine may lose it. */
  ready?(): Promise<void>;
  begin(): Promise<void>;
  /** Resolves when the transaction is durable. */
  commit(): Promise<void>;
  /** Never rejects. */
  rollback(): Promise<void>;
  /** Says what to do after an error; `tries` counts the runs of the group. Without it a group that had begun is split. */
  afterError?(error: unknown, tries: number): Promise<AfterError>;
}

/** The transactions of SQLite's one writer. */
export const sqliteTransaction = (connection: Connection): GroupTransaction => ({
  connection,
  begin: () => connection.run('BEGIN IMMEDIATE'),
  commit: () => connection.run('COMMIT'),
  rollback: () => connection.run('ROLLBACK').catch(() => undefined),
});
