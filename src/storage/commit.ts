/**
 * The grouped commit: every write of the program goes through here, on the one connection that writes.
 *
 * Callers hand in units and wait for its result. Units that arrive while a commit runs share the next one, so a busy
 * system pays one fsync for hundreds of them and an idle one answers at once; there is no timer.
 * Units of the same kind of work are merged by that work into a few statements. On any error the whole group is rolled
 * back and its units run again one by one, so that only the faulty one fails.
 */
import { yieldToEventLoop } from '../base/slices.ts';
import type { Connection } from './connection.ts';
import { allDone, insertRows, type Rows } from './rows.ts';

/**
 * A kind of work: how its units are written together. Its reads start before the BEGIN, which is safe since there is only one writer;
 * `run` is inside the group's transaction, concurrent with the other kinds. Each wait for a statement costs a turn of the event loop,
 * which under load takes longer than the statement.
 */
export interface Work<Input, Output, Read = unknown> {
  readonly name: string;
  read?(connection: Connection, inputs: readonly Input[]): Promise<Read>;
  run(tx: Connection, inputs: readonly Input[], read: Read): Promise<readonly Output[]>;
}

export interface CommitStats {
  groups: number;
  units: number;
  largestGroup: number;
  failedUnits: number;
}

/** Thrown when no unit is accepted: the program stops, or too many units wait in memory. */
export class StorageUnavailable extends Error {}
/** Thrown when the program stops: a retry will not help. */
export class StorageClosed extends StorageUnavailable {}

const SQLITE_TROUBLE = /^SQLITE_(?:FULL|IOERR|BUSY|READONLY|CANTOPEN|NOMEM)/;
/** Lost connections, servers that stop or have become a standby, full disks, too many connections, and waits that took too long. */
const POSTGRES_TROUBLE = /^(?:08...|25006|53...|55P03|57014|57P0[123]|58030|ECONN\w+|EPIPE|ETIMEDOUT|ENOTFOUND)$/;

/** Returns whether the error may pass: a full or failing disk, too many writes or reads. A broken constraint does not. */
export function isStorageTrouble(error: unknown): boolean {
  if (error instanceof StorageUnavailable) return true;
  // Knex throws this when no reader became free in time.
  if (error instanceof Error && error.name === 'KnexTimeoutError') return true;
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' && (SQLITE_TROUBLE.test(code) || POSTGRES_TROUBLE.test(code));
}

/** How the transaction of a group begins and ends on an engine, and what its errors mean. */
export interface GroupTransaction {
  readonly connection: Connection;
  /** Finds a connection, where the engine may lose it. */
  ready?(): Promise<void>;
  begin(): Promise<void>;
  /** Resolves when the transaction is durable. */
  commit(): Promise<void>;
  /** Never rejects. */
  rollback(): Promise<void>;
  /**
   * Says what to do after an error: the units fail, the whole group runs again, or it turned out that the last run was committed after all.
   * `tries` counts the runs of the group.
   */
  afterError?(error: unknown, tries: number): Promise<AfterError>;
}

/** `split`: the units run one by one, so that only the faulty one fails. */
export type AfterError = 'split' | 'fail' | 'again' | 'committed';

/** Any kind of work; each kind gets only its own inputs and the rows that it has read. */
type AnyWork = Work<never, unknown, never>;

interface WorkOfGroup {
  work: AnyWork;
  places: number[];
  inputs: never[];
}

/** A group while it runs: whether its transaction began, and the outputs of its last run. */
interface GroupRun {
  begun: boolean;
  outputs: readonly unknown[] | null;
}

interface Unit {
  work: AnyWork;
  input: unknown;
  bytes: number;
  resolve(output: unknown): void;
  reject(error: unknown): void;
}

const GROUP_UNITS = 500;
const GROUP_BYTES = 4 * 1024 * 1024;
const MOST_WAITING = 20_000;
const MOST_WAITING_BYTES = 256 * 1024 * 1024;

const insertWork: Work<Rows, undefined> = {
  name: 'insert',
  async run(tx, inputs) {
    await insertRows(tx, inputs);
    return inputs.map(() => undefined);
  },
};

const transactWork: Work<(tx: Connection) => Promise<unknown>, unknown> = {
  name: 'transact',
  async run(tx, inputs) {
    const outputs: unknown[] = [];
    for (const run of inputs) outputs.push(await run(tx));
    return outputs;
  },
};

/** The transactions of SQLite's one writer. */
export const sqliteTransaction = (connection: Connection): GroupTransaction => ({
  connection,
  begin: () => connection.run('BEGIN IMMEDIATE'),
  commit: () => connection.run('COMMIT'),
  rollback: () => connection.run('ROLLBACK').catch(() => undefined),
});

/** `order` lists the kinds of work in the order they begin inside a group: inserts first, and when all are done `transact`. */
export function createCommitter(transaction: GroupTransaction, order: readonly string[] = []) {
  const { connection } = transaction;
  const places = new Map([insertWork.name, ...order, transactWork.name].map((name, place) => [name, place]));
  const stats: CommitStats = { groups: 0, units: 0, largestGroup: 0, failedUnits: 0 };
  let queue: Unit[] = [];
  let queuedBytes = 0;
  let running: Promise<void> | null = null;
  let closed = false;

  function submit<Input, Output, Read>(work: Work<Input, Output, Read>, input: Input, bytes = 512): Promise<Output> {
    if (closed) return Promise.reject(new StorageClosed('the database is closed'));
    if (queue.length >= MOST_WAITING || queuedBytes > MOST_WAITING_BYTES) {
      return Promise.reject(new StorageUnavailable('more writes wait than can be held'));
    }
    return new Promise<Output>((resolve, reject) => {
      queue.push({
        work: work as AnyWork,
        input,
        bytes,
        resolve: (output) => {
          resolve(output as Output);
        },
        reject,
      });
      queuedBytes += bytes;
      running ??= loop();
    });
  }

  async function loop(): Promise<void> {
    // One turn of the loop lets everything that arrived in the same burst of input into the same group.
    await yieldToEventLoop();
    while (queue.length > 0) {
      const group = takeGroup();
      stats.groups++;
      stats.units += group.length;
      stats.largestGroup = Math.max(stats.largestGroup, group.length);
      await runGroup(group);
    }
    running = null;
  }

  function takeGroup(): Unit[] {
    let bytes = 0;
    let count = 0;
    for (const unit of queue) {
      if (count > 0 && (count >= GROUP_UNITS || bytes + unit.bytes > GROUP_BYTES)) break;
      bytes += unit.bytes;
      count++;
    }
    const group = queue.slice(0, count);
    queue = queue.slice(count);
    queuedBytes -= bytes;
    return group;
  }

  async function runGroup(group: readonly Unit[]): Promise<void> {
    const works = worksOf(group);
    const run: GroupRun = { begun: false, outputs: null };
    for (let tries = 1; ; tries++) {
      const error = await tryGroup(group, works, run);
      if (error === null) break;
      // No unit caused a failing BEGIN: one by one, each would wait for the same lock or disk.
      const what = (await transaction.afterError?.(error.cause, tries)) ?? (run.begun ? 'split' : 'fail');
      if (what === 'again') continue;
      if (what === 'committed' && run.outputs !== null) break;
      if (what === 'split' && group.length > 1) for (const unit of group) await runGroup([unit]);
      else for (const unit of group) fail(unit, error.cause);
      return;
    }
    group.forEach((unit, i) => {
      unit.resolve(run.outputs?.[i]);
    });
  }

  /** Runs the group once; returns the error, or null after its commit. `run.outputs` stays known when the answer of a COMMIT is lost. */
  async function tryGroup(
    group: readonly Unit[],
    works: readonly WorkOfGroup[],
    run: GroupRun,
  ): Promise<{ cause: unknown } | null> {
    try {
      run.begun = false;
      if (transaction.ready !== undefined) await transaction.ready();
      // Started before the BEGIN, so that a failing read is known before anything is written.
      const reads = works.map(({ work, inputs }) => work.read?.(connection, inputs));
      const [begin, ...read] = await Promise.allSettled([transaction.begin(), ...reads]);
      if (begin.status === 'rejected') throw begin.reason;
      run.begun = true;
      run.outputs = await inTransaction(group, works, read);
      await transaction.commit();
      return null;
    } catch (cause) {
      // After some failures (disk full, I/O) SQLite has rolled back by itself; the cause is the first error.
      if (run.begun) await transaction.rollback();
      return { cause };
    }
  }

  function fail(unit: Unit, error: unknown): void {
    stats.failedUnits++;
    unit.reject(error);
  }

  /** Runs the units in the transaction that was begun. */
  async function inTransaction(
    group: readonly Unit[],
    works: readonly WorkOfGroup[],
    read: readonly PromiseSettledResult<unknown>[],
  ): Promise<unknown[]> {
    const outputs = new Array<unknown>(group.length);
    const run = async ({ work, places, inputs }: WorkOfGroup, at: number): Promise<void> => {
      const before = read[at];
      if (before?.status === 'rejected') throw before.reason;
      const results = await work.run(connection, inputs, before?.value as never);
      places.forEach((place, i) => {
        outputs[place] = results[i];
      });
    };
    const isLast = ({ work }: WorkOfGroup): boolean => work.name === transactWork.name;
    await allDone(works.flatMap((one, at) => (isLast(one) ? [] : [run(one, at)])));
    for (const [at, one] of works.entries()) if (isLast(one)) await run(one, at);
    return outputs;
  }

  /** The kinds of work of a group, in their order, with the places of their units. */
  function worksOf(group: readonly Unit[]): WorkOfGroup[] {
    const found = new Map<AnyWork, WorkOfGroup>();
    group.forEach(({ work, input }, place) => {
      const one = found.get(work) ?? { work, places: [], inputs: [] };
      one.places.push(place);
      one.inputs.push(input as never);
      found.set(work, one);
    });
    const order = ({ work }: WorkOfGroup): number => places.get(work.name) ?? places.size;
    return [...found.values()].sort((a, b) => order(a) - order(b));
  }

  return {
    /** Runs the unit in the next group; resolves after its commit is durable. `bytes` is a rough size, for the group's cap. */
    submit,
    /** Adds rows, all or none. */
    insert: (rows: Rows, bytes?: number): Promise<void> => submit(insertWork, rows, bytes),
    /** Runs rare work that is more than an insert, after the other units of its group. It may run a second time after a rollback. */
    transact: <Output>(run: (tx: Connection) => Promise<Output>): Promise<Output> =>
      submit(transactWork, run as (tx: Connection) => Promise<unknown>) as Promise<Output>,
    /** The number of waiting units, by which the intake slows down. */
    get waiting() {
      return queue.length;
    },
    stats,
    /** Runs the waiting units and then refuses new ones. */
    async close(): Promise<void> {
      closed = true;
      while (running !== null) await running;
    },
  };
}

export type Committer = ReturnType<typeof createCommitter>;
