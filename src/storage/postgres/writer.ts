/**
 * The transactions of a writer on PostgreSQL. Each group writes a marker, `commits (epoch, n)`, whose two constraints decide what could otherwise
 * only be guessed. After a lost connection the COMMIT may have been performed: the group runs again with the same number. If the first run is still
 * committing, the insert waits for it; if it was committed, the insert fails on the key. A server that takes the database over removes the row of the
 * one before it, whose groups all fail then, however long it was paused or cut off. Events are numbered last, by the transaction that holds the row
 * of `event_turn` until its COMMIT, so no reader sees a number before a smaller one.
 */
import type { Clock } from '../../base/clock.ts';
import { StorageClosed, StorageUnavailable } from '../commit.ts';
import type { AfterError, GroupTransaction } from '../commit.ts';
import type { Connection, SharedWriting } from '../connection.ts';
import { allDone } from '../rows.ts';
import { isConnectionLoss, type PostgresConnection } from './connection.ts';
import type { Node } from './node.ts';
import { partOf } from './own-tables.ts';

/** Deadlocks, failed serialization and locks that could not be had: the group is right and runs again. */
const CONTENTION = new Set(['40P01', '40001', '55P03']);
/** A COMMIT whose wait for a standby was cancelled succeeds with this warning, though nothing is replicated. */
const NOT_REPLICATED = '01000';

/** Time that a group waits for a lost connection to come back before its units fail. */
const PATIENCE_MS = 15_000;
const PAUSE_MS = 250;
const MOST_TRIES = 3;
const MOST_TRIES_SERIALIZABLE = 20;

/** Thrown if a group was committed, but it could not be learned that a standby has it too: its units must not be answered as accepted. */
class NotReplicated extends StorageUnavailable {
  constructor(cause: unknown) {
    super('the transaction is committed, but the database did not confirm that it is replicated', { cause });
  }
}

const TAKEN_OVER = 'another server has taken the database over';

export interface WriterDeps {
  connection: PostgresConnection;
  clock: Clock;
  random: () => number;
  node: Node;
}

export interface WriterKind {
  /** Its number among the writers of this server. */
  place: number;
  /** Its transactions are right as if they ran alone: those that were not are run again. */
  isSerializable: boolean;
}

const TAKE_TURN = 'SELECT one FROM event_turn WHERE one = 1 FOR UPDATE';

export function createWriter(
  { connection, clock, random, node }: WriterDeps,
  { place, isSerializable }: WriterKind,
): GroupTransaction {
  const beginning = isSerializable ? 'BEGIN ISOLATION LEVEL SERIALIZABLE' : 'BEGIN';
  const marker = new GroupMarker(node);
  /** The work that the group does in the turn of events, last of all. */
  let inTurn: (() => Promise<void>)[] = [];
  /** When the connection was lost, until a group is committed again. */
  let lostAt: number | null = null;

  const shared: SharedWriting = {
    part: partOf(node.epoch, place),
    inTurn: (work) => void inTurn.push(work),
  };
  const writing: Connection = { ...connection, shared };

  async function begin(): Promise<void> {
    if (node.isOver) throw new StorageClosed(TAKEN_OVER);
    inTurn = [];
    const sent = [connection.run(beginning), ...marker.write(connection)];
    const failed = (await Promise.allSettled(sent)).find((one) => one.status === 'rejected');
    if (failed === undefined) return;
    await rollback();
    throw isNodeGone(failed.reason) ? ended(failed.reason) : failed.reason;
  }

  function ended(cause: unknown): StorageClosed {
    node.end();
    return new StorageClosed(TAKEN_OVER, { cause });
  }

  async function commit(): Promise<void> {
    const { tag, notices } = await end();
    // An aborted transaction is ended by COMMIT as well, and then nothing was written.
    if (tag !== 'COMMIT') throw new StorageUnavailable(`the transaction ended with ${tag}`);
    if (notices.includes(NOT_REPLICATED)) await awaitReplication();
    lostAt = null;
  }

  /**
   * Resolves when a standby has all that was committed: commits empty groups until one is acknowledged; throws `NotReplicated` if that takes long.
   */
  async function awaitReplication(): Promise<void> {
    const until = clock.monotonic() + PATIENCE_MS;
    for (;;) {
      try {
        await connection.ready();
        await begin();
        const { tag, notices } = await end();
        if (tag === 'COMMIT' && !notices.includes(NOT_REPLICATED)) return;
      } catch (error) {
        if (isMarkerThere(error)) marker.settle();
        else if (node.isOver || clock.monotonic() >= until) {
          marker.settle();
          throw new NotReplicated(error);
        } else await clock.sleep(PAUSE_MS);
      }
    }
  }

  /** Sends what is done in turn and the COMMIT together: no other writer waits for this process while it holds the turn. */
  async function end(): Promise<{ tag: string; notices: readonly string[] }> {
    const turn = inTurn.length === 0 ? [] : [connection.run(TAKE_TURN), ...inTurn.map((work) => work())];
    const committing = connection.tagOf('COMMIT');
    await allDone([...turn, committing]);
    const ended = await committing;
    if (ended.tag === 'COMMIT') marker.settle();
    return ended;
  }

  const rollback = (): Promise<void> => connection.run('ROLLBACK').catch(() => undefined);

  async function afterError(error: unknown, tries: number): Promise<AfterError> {
    if (error instanceof NotReplicated) return 'fail';
    const { code = '' } = refusalOf(error);
    if (isMarkerThere(error)) {
      marker.settle();
      lostAt = null;
      // The connection may have been lost while the COMMIT waited for the standby.
      return await awaitReplication().then(
        () => 'committed',
        () => 'fail',
      );
    }
    if (node.isOver) return 'fail';
    if (isConnectionLoss(error)) {
      const now = clock.monotonic();
      lostAt ??= now;
      if (now - lostAt < PATIENCE_MS) {
        await clock.sleep(PAUSE_MS);
        return 'again';
      }
      // The lost run may still be committed, so its number is not used again.
      marker.settle();
      return 'fail';
    }
    if (CONTENTION.has(code) && tries < (isSerializable ? MOST_TRIES_SERIALIZABLE : MOST_TRIES)) {
      await clock.sleep(random() * PAUSE_MS * (isSerializable ? 0.2 : 1));
      return 'again';
    }
    return 'split';
  }

  return {
    connection: writing,
    readsInside: true,
    ready: () => connection.ready(),
    begin,
    commit,
    rollback,
    afterError,
  };
}

/** The marker of each group, `commits (epoch, n)`: its number, which stays while the group is run again, and what its two constraints say. */

const UNIQUE_VIOLATION = '23505';
const FOREIGN_KEY_VIOLATION = '23503';
/** Transactions after which markers are removed that are never asked for again. */
const KEPT_MARKERS = 1000;
/**
 * How far back such markers are looked for: ten times, as a transaction that removes them may be rolled back; without an end it would walk over all
 * that were removed since the oldest snapshot.
 */
const SOUGHT_MARKERS = 10 * KEPT_MARKERS;

const REMOVE_MARKERS = 'DELETE FROM commits WHERE epoch = ? AND n >= ? AND n < ?';

class GroupMarker {
  private readonly node: Pick<Node, 'epoch' | 'numbers'>;
  /** The number of the group, until it is committed or given up. */
  private n: number | null = null;

  constructor(node: Pick<Node, 'epoch' | 'numbers'>) {
    this.node = node;
  }

  /** Sends the statements that write the marker, with the number of the run before if that is not settled. */
  write(connection: Pick<Connection, 'run'>): Promise<void>[] {
    const { epoch, numbers } = this.node;
    const n = (this.n ??= numbers.take());
    return [
      connection.run('INSERT INTO commits (epoch, n) VALUES (?, ?)', [epoch, n]),
      ...(n % KEPT_MARKERS === 0 ? [connection.run(REMOVE_MARKERS, [epoch, n - SOUGHT_MARKERS, numbers.floor])] : []),
    ];
  }

  /** Ends the number: the group is committed, or given up for good. */
  settle(): void {
    if (this.n !== null) this.node.numbers.settle(this.n);
    this.n = null;
  }
}

const refusalOf = (error: unknown): { code?: string; constraint?: string } =>
  error instanceof Error ? (error as { code?: string; constraint?: string }) : {};

/** True if the marker of a group is there already: an earlier run of it was committed. */
function isMarkerThere(error: unknown): boolean {
  const { code, constraint } = refusalOf(error);
  return code === UNIQUE_VIOLATION && constraint === 'commits_pkey';
}

/** True if the row of the node is gone, to which markers refer. */
function isNodeGone(error: unknown): boolean {
  const { code, constraint = '' } = refusalOf(error);
  return code === FOREIGN_KEY_VIOLATION && constraint.startsWith('commits_');
}
