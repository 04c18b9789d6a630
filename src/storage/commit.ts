/**
 * The grouped commit: every write goes through here. SQLite has one connection that writes; PostgreSQL has three, each with a committer of its own
 * (postgres/open.ts). Callers hand in units and wait for their results. Units that arrive while a commit runs share the next one, so a busy system
 * pays one fsync for hundreds and an idle one answers at once; there is no timer. Units of one kind of work are merged into a few statements. On any
 * error the group is rolled back and its units run one by one, so that only the faulty one fails.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { yieldToEventLoop } from '../base/slices.ts';
import type { Connection } from './connection.ts';
import { isKeyTaken } from './idempotency-store.ts';
import { allDone, insertRows, type RowsToWrite } from './rows.ts';

/**
 * A kind of work: how its units are written together. Its reads start before the BEGIN, which is safe with only one writer (on PostgreSQL they are in
 * the transaction, and lock what they read); `run` is inside the transaction, concurrent with the other kinds. Each wait for a statement costs a turn
 * of the event loop, which under load takes longer than the statement.
 */
export interface Work<Input, Output, Read = unknown> {
  readonly name: string;
  /** A request waits for it. */
  readonly isIntake?: boolean;
  read?(connection: Connection, inputs: readonly Input[]): Promise<Read>;
  run(tx: Connection, inputs: readonly Input[], read: Read): Promise<readonly Output[]>;
}

/** Effects of an error. `split`: the units run one by one, so that only the faulty one fails. `committed`: the last run was committed after all. */
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

export interface CommitStats {
  groups: number;
  units: number;
  largestGroup: number;
  /** Units that could not be written. Those that were refused (`isRefusal`) are not counted. */
  failedUnits: number;
}

/** Thrown when no unit is accepted: the program stops, too many units wait in memory, or a commit is not confirmed in time. */
export class StorageUnavailable extends Error {}
/** Thrown when the program stops: a retry will not help. */
export class StorageClosed extends StorageUnavailable {}

const SQLITE_TROUBLE = /^SQLITE_(?:FULL|IOERR|BUSY|READONLY|CANTOPEN|NOMEM)/;
/** Lost connections, servers that stop or have become a standby, full disks, too many connections, and waits that took too long. */
const POSTGRES_TROUBLE =
  /^(?:08...|25006|25P03|53...|55P03|57014|57P0[1-5]|58030|ECONN\w+|EPIPE|ENOENT|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|E(?:HOST|NET)(?:UNREACH|DOWN))$/;

/** Errors without a code: the connection is lost, could not be made in time, or the pool that it was asked of closes. */
export const LOST_CONNECTION =
  /Connection terminated|connection error and is not queryable|Client was closed|timeout expired|^aborted$/;

/** Returns whether the error may pass: a full or failing disk, too many writes or reads. A broken constraint does not. */
export function isStorageTrouble(error: unknown): boolean {
  if (error instanceof StorageUnavailable) return true;
  // Knex throws this when no reader became free in time.
  if (error instanceof Error && error.name === 'KnexTimeoutError') return true;
  if (error instanceof Error && LOST_CONNECTION.test(error.message)) return true;
  const code = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' && (SQLITE_TROUBLE.test(code) || POSTGRES_TROUBLE.test(code));
}

/** Returns whether a unit was refused in order although the database would take it: by its own rule, or as the work of its key is done. */
const isRefusal = (error: unknown): boolean => error instanceof Problem || isKeyTaken(error);

/** Any kind of work; each kind gets only its own inputs and the rows that it has read. */
type AnyWork = Work<never, unknown, never>;

interface WorkOfGroup {
  work: AnyWork;
  places: number[];
  inputs: never[];
}

/** A group while it runs: true if its transaction began, and the outputs of its last run. */
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
  settled(): void;
}

const noop = (): void => undefined;

const GROUP_UNITS = 500;
const GROUP_BYTES = 4 * 1024 * 1024;
const MOST_WAITING = 20_000;
const MOST_WAITING_BYTES = 256 * 1024 * 1024;

const insertWork: Work<RowsToWrite, undefined> = {
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

/** More than the database has room for in pages that it has already, and not compressible. */
const TRIAL_BYTES = 64 * 1024;

/** Writes something that needs room, and removes it again before anything can see it. */
const trialWork: Work<null, null> = {
  name: 'trial',
  async run(tx, inputs) {
    const name = `trial ${randomUUID()}`;
    await tx.run('INSERT INTO settings (name, value) VALUES (?, ?)', [
      name,
      randomBytes(TRIAL_BYTES).toString('base64'),
    ]);
    await tx.run('DELETE FROM settings WHERE name = ?', [name]);
    return inputs;
  },
};

interface Patience {
  clock: Pick<Clock, 'after'>;
  ms: number;
}

export interface WriterOptions {
  /** The kinds of work in the order they begin inside a group: inserts first, and when all are done `transact`. */
  order?: readonly string[] | undefined;
  most?: number;
  /**
   * Tells callers after `ms` that their unit failed, if a commit hangs, as PostgreSQL's without its synchronous standby. What has not begun by then
   * is not written; what is being committed may still be.
   */
  patience?: Patience;
}

interface Writers {
  intake: Writer;
  engine: Writer;
  /** Single pieces of work. */
  desk: Writer;
}

export type Committer = ReturnType<typeof committerOf>;

export function createCommitter(transaction: GroupTransaction, options: WriterOptions = {}): Committer {
  const writer = new Writer(transaction, options);
  return committerOf({ intake: writer, engine: writer, desk: writer });
}

export function committerOf({ intake, engine, desk }: Writers) {
  const all = [...new Set([intake, engine, desk])];
  const sum = (of: (one: Writer) => number): number => all.reduce((total, one) => total + of(one), 0);
  return {
    /** Runs the unit in the next group; resolves after its commit is durable. `bytes` is a rough size, for the group's cap. */
    submit: <Input, Output, Read>(work: Work<Input, Output, Read>, input: Input, bytes?: number): Promise<Output> =>
      (work.isIntake === true ? intake : engine).submit(work, input, bytes),
    /** Adds rows, all or none. */
    insert: (rows: RowsToWrite, bytes?: number): Promise<void> => intake.submit(insertWork, rows, bytes),
    /** Runs rare work that is more than an insert, after the other units of its group. It may run a second time after a rollback. */
    transact: <Output>(run: (tx: Connection) => Promise<Output>): Promise<Output> =>
      desk.submit(transactWork, run) as Promise<Output>,
    get waiting() {
      return sum(({ waiting }) => waiting);
    },
    /** Why the storage did not take the last write: it is full, gone or too slow; null after one that succeeded. Writers differ on a full disk. */
    get trouble(): string | null {
      return all.find(({ trouble }) => trouble !== null)?.trouble ?? null;
    },
    /** Tries a write of its own if the storage did not take the last one, so that `trouble` ends without a caller's write. Never rejects. */
    async retry(): Promise<void> {
      await Promise.all(all.map((one) => one.retry()));
    },
    get stats(): CommitStats {
      return {
        groups: sum(({ stats }) => stats.groups),
        units: sum(({ stats }) => stats.units),
        largestGroup: Math.max(...all.map(({ stats }) => stats.largestGroup)),
        failedUnits: sum(({ stats }) => stats.failedUnits),
      };
    },
    /** Runs the waiting units and then refuses new ones. */
    async close(): Promise<void> {
      await Promise.all(all.map((one) => one.close()));
    },
  };
}

/** One connection that writes: the units that wait for its next group, bounded by number and by bytes, and the transactions of the groups. */
export class Writer {
  readonly stats: CommitStats = { groups: 0, units: 0, largestGroup: 0, failedUnits: 0 };
  /** Why the storage did not take the last write, or null. */
  trouble: string | null = null;
  private readonly transaction: GroupTransaction;
  private readonly most: number;
  private readonly patience: Patience | undefined;
  /** The place of each kind of work in a group, by its name. */
  private readonly places: ReadonlyMap<string, number>;
  private units: Unit[] = [];
  private bytes = 0;
  private running: Promise<void> | null = null;
  private trial: Promise<void> | null = null;
  private closed = false;

  constructor(transaction: GroupTransaction, { order = [], most = GROUP_UNITS, patience }: WriterOptions) {
    this.transaction = transaction;
    this.most = most;
    this.patience = patience;
    this.places = new Map([insertWork.name, ...order, transactWork.name].map((name, place) => [name, place]));
  }

  get waiting(): number {
    return this.units.length;
  }

  submit<Input, Output, Read>(work: Work<Input, Output, Read>, input: Input, bytes = 512): Promise<Output> {
    if (this.closed) return Promise.reject(new StorageClosed('the database is closed'));
    if (this.units.length >= MOST_WAITING || this.bytes > MOST_WAITING_BYTES)
      return Promise.reject(new StorageUnavailable('more writes wait than can be held'));
    return new Promise<Output>((resolve, reject) => {
      const unit: Unit = {
        work: work as AnyWork,
        input,
        bytes,
        resolve: (output) => {
          resolve(output as Output);
        },
        reject,
        settled: noop,
      };
      if (this.patience !== undefined) unit.settled = this.giveUpLater(unit, this.patience);
      this.units.push(unit);
      this.bytes += bytes;
      this.running ??= this.runAll();
    });
  }

  /** Gives a unit up that has no result in time; the function that it returns ends that. */
  private giveUpLater(unit: Unit, { clock, ms }: Patience): () => void {
    const giveUp = (): void => {
      const place = this.units.indexOf(unit);
      if (place >= 0) this.bytes -= this.units.splice(place, 1)[0]?.bytes ?? 0;
      const late = new StorageUnavailable('the database did not confirm the write in time');
      this.trouble = late.message;
      unit.reject(late);
    };
    const timer = clock.after(ms, giveUp, { background: true });
    return () => {
      timer.cancel();
    };
  }

  async retry(): Promise<void> {
    if (this.trouble === null) return;
    this.trial ??= this.submit(trialWork, null)
      .then(noop, noop)
      .finally(() => {
        this.trial = null;
      });
    await this.trial;
  }

  async close(): Promise<void> {
    this.closed = true;
    while (this.running !== null) await this.running;
  }

  private async runAll(): Promise<void> {
    // One turn of the loop lets everything that arrived in the same burst of input into the same group.
    await yieldToEventLoop();
    while (this.units.length > 0) {
      const group = this.takeGroup();
      this.stats.groups++;
      this.stats.units += group.length;
      this.stats.largestGroup = Math.max(this.stats.largestGroup, group.length);
      await this.run(group);
    }
    this.running = null;
  }

  private takeGroup(): Unit[] {
    let bytes = 0;
    let count = 0;
    for (const unit of this.units) {
      if (count > 0 && (count >= this.most || bytes + unit.bytes > GROUP_BYTES)) break;
      bytes += unit.bytes;
      count++;
    }
    const group = this.units.slice(0, count);
    this.units = this.units.slice(count);
    this.bytes -= bytes;
    return group;
  }

  private async run(group: readonly Unit[]): Promise<void> {
    const works = this.worksOf(group);
    const run: GroupRun = { begun: false, outputs: null };
    for (let tries = 1; ; tries++) {
      const error = await this.tryOnce(group, works, run);
      if (error === null) break;
      // No unit caused a failing BEGIN: one by one, each would wait for the same lock or disk.
      const what = (await this.transaction.afterError?.(error.cause, tries)) ?? (run.begun ? 'split' : 'fail');
      if (what === 'again') continue;
      if (what === 'committed' && run.outputs !== null) break;
      if (what === 'split' && group.length > 1) for (const unit of group) await this.run([unit]);
      else for (const unit of group) this.fail(unit, error.cause);
      return;
    }
    this.trouble = null;
    group.forEach((unit, i) => {
      unit.settled();
      unit.resolve(run.outputs?.[i]);
    });
  }

  /** Runs the group; returns the error, or null after its commit. `run.outputs` stays known if the answer of a COMMIT is lost. */
  private async tryOnce(
    group: readonly Unit[],
    works: readonly WorkOfGroup[],
    run: GroupRun,
  ): Promise<{ cause: unknown } | null> {
    const { transaction } = this;
    try {
      run.begun = false;
      if (transaction.ready !== undefined) await transaction.ready();
      const begun = transaction.readsInside === true ? transaction.begin() : null;
      // With a single writer the reads start before the BEGIN, so that a failing read is known before anything is written.
      const reads = works.map(({ work, inputs }) => work.read?.(transaction.connection, inputs));
      const [begin, ...read] = await Promise.allSettled([begun ?? transaction.begin(), ...reads]);
      if (begin.status === 'rejected') throw begin.reason;
      run.begun = true;
      run.outputs = await this.inTransaction(group, works, read);
      await transaction.commit();
      return null;
    } catch (cause) {
      // The cause is the first error: that of a ROLLBACK is never thrown.
      if (run.begun) await transaction.rollback();
      return { cause };
    }
  }

  private fail(unit: Unit, error: unknown): void {
    if (error instanceof Error && isStorageTrouble(error)) this.trouble = error.message;
    if (!isRefusal(error)) this.stats.failedUnits++;
    unit.settled();
    unit.reject(error);
  }

  private async inTransaction(
    group: readonly Unit[],
    works: readonly WorkOfGroup[],
    read: readonly PromiseSettledResult<unknown>[],
  ): Promise<unknown[]> {
    const { connection } = this.transaction;
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

  /** Returns the kinds of work of a group, in their order, with the places of their units. */
  private worksOf(group: readonly Unit[]): WorkOfGroup[] {
    const found = new Map<AnyWork, WorkOfGroup>();
    group.forEach(({ work, input }, place) => {
      const one = found.get(work) ?? { work, places: [], inputs: [] };
      one.places.push(place);
      one.inputs.push(input as never);
      found.set(work, one);
    });
    const order = ({ work }: WorkOfGroup): number => this.places.get(work.name) ?? this.places.size;
    return [...found.values()].sort((a, b) => order(a) - order(b));
  }
}
