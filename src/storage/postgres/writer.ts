/**
 * The transactions of the one writer on PostgreSQL. Each group writes a marker, `commits (node, n)`, whose two constraints decide what
 * could otherwise only be guessed:
 *
 * - After a lost connection it is not known whether the COMMIT was performed. The group runs again with the same number: if the first run is
 *   still committing, the insert waits for it, and if it was committed, the insert fails on the key, which is the answer.
 * - A server that takes the database over removes the row of the one before it. From then on every group of that one fails, however long
 *   it was paused or cut off.
 */
import type { Clock } from '../../base/clock.ts';
import { StorageClosed, StorageUnavailable } from '../commit.ts';
import type { AfterError, GroupTransaction } from '../group-transaction.ts';
import { isConnectionLoss, type PostgresConnection } from './connection.ts';

/** Tables that only PostgreSQL has. */
export const NODE_TABLES = [
  'CREATE TABLE IF NOT EXISTS nodes (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, begun_at TIMESTAMPTZ NOT NULL DEFAULT now())',
  `CREATE TABLE IF NOT EXISTS commits (
    node BIGINT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    PRIMARY KEY (node, n)
  )`,
];

const UNIQUE_VIOLATION = '23505';
const FOREIGN_KEY_VIOLATION = '23503';
/** Deadlocks, failed serialization and locks that could not be had: the group is right and runs again. */
const CONTENTION = new Set(['40P01', '40001', '55P03']);
/** A COMMIT whose wait for a standby was cancelled succeeds with this warning, though nothing is replicated. */
const NOT_REPLICATED = '01000';

/** Time that a group waits for a lost connection to come back before its units fail. */
const PATIENCE_MS = 15_000;
const PAUSE_MS = 250;
const MOST_TRIES = 3;
/** Markers that are kept; older ones are removed now and then. */
const KEPT_MARKERS = 1000;

export interface WriterDeps {
  connection: PostgresConnection;
  clock: Clock;
  random: () => number;
  /** Is called once, when another server has taken the database over. */
  takenOver: () => void;
}

/** Removes the rows of earlier servers and adds one for this; returns its number. Waits for open groups of those servers. */
export async function registerNode(connection: PostgresConnection): Promise<number> {
  await connection.run('BEGIN');
  await connection.run('DELETE FROM nodes');
  const [row] = await connection.all<{ id: number }>('INSERT INTO nodes DEFAULT VALUES RETURNING id');
  await connection.run('COMMIT');
  if (row === undefined) throw new Error('the node was not written');
  return row.id;
}

export function createWriter({ connection, clock, random, takenOver }: WriterDeps, node: number): GroupTransaction {
  let n = 1;
  let isOver = false;
  /** When the connection was lost, until a group is committed again. */
  let lostAt: number | null = null;

  async function begin(): Promise<void> {
    if (isOver) throw new StorageClosed('another server has taken the database over');
    const old = n % KEPT_MARKERS === 0 ? n - KEPT_MARKERS : null;
    const sent = [
      connection.run('BEGIN'),
      connection.run('INSERT INTO commits (node, n) VALUES (?, ?)', [node, n]),
      ...(old === null ? [] : [connection.run('DELETE FROM commits WHERE node = ? AND n < ?', [node, old])]),
    ];
    const failed = (await Promise.allSettled(sent)).find((one) => one.status === 'rejected');
    if (failed === undefined) return;
    await rollback();
    throw failed.reason;
  }

  async function commit(): Promise<void> {
    let { tag, notices } = await connection.tagOf('COMMIT');
    // An aborted transaction is ended by COMMIT as well, and then nothing was written.
    if (tag !== 'COMMIT') throw new StorageUnavailable(`the transaction ended with ${tag}`);
    n++;
    // A later commit that is replicated covers everything before it.
    while (notices.includes(NOT_REPLICATED)) {
      await begin();
      ({ tag, notices } = await connection.tagOf('COMMIT'));
      n++;
    }
    lostAt = null;
  }

  const rollback = (): Promise<void> => connection.run('ROLLBACK').catch(() => undefined);

  async function afterError(error: unknown, tries: number): Promise<AfterError> {
    const { code = '', constraint = '' } =
      error instanceof Error ? (error as { code?: string; constraint?: string }) : {};
    if (code === UNIQUE_VIOLATION && constraint === 'commits_pkey') {
      n++;
      lostAt = null;
      return 'committed';
    }
    if (code === FOREIGN_KEY_VIOLATION && constraint.startsWith('commits_')) {
      if (!isOver) takenOver();
      isOver = true;
      return 'fail';
    }
    if (isOver) return 'fail';
    if (isConnectionLoss(error)) {
      const now = clock.monotonic();
      lostAt ??= now;
      if (now - lostAt < PATIENCE_MS) {
        await pause(PAUSE_MS);
        return 'again';
      }
      // The lost run may still be committed, so its number is not used again.
      n++;
      return 'fail';
    }
    if (CONTENTION.has(code) && tries < MOST_TRIES) {
      await pause(random() * PAUSE_MS);
      return 'again';
    }
    return 'split';
  }

  const pause = (ms: number): Promise<void> => new Promise((resolve) => void clock.after(ms, resolve));

  return { connection, ready: () => connection.ready(), begin, commit, rollback, afterError };
}
