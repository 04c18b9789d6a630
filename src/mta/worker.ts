/**
 * One worker of a lane: it finds a connection, claims the delivery, attempts it, records the outcome, and goes on to the next. A
 * delivery without a connection is not claimed, so a host that cannot be reached costs no write. While a mail is on the wire the
 * next one is composed and signed (prepared-mails.ts); its claim and the outcome before it share one commit. An outcome is written
 * at once where the next mail is not ready or needs a new connection.
 */
import type { Clock } from '../base/clock.ts';
import type { Lane } from '../scheduling/lanes.ts';
import type { DeliveryState, DeliveryChange, Outcome } from '../messages/delivery/delivery.ts';
import type { Hold } from '../messages/delivery/holds.ts';
import type { Occurrence, Recorder } from '../messages/delivery/record.ts';
import { StorageClosed } from '../storage/commit.ts';
import type { Attempts } from './attempt/attempt.ts';
import type { NoPassage, Passage, Passages } from './attempt/passages.ts';
import type { Held, Prepared, Preparing } from './prepare/prepare.ts';
import { PreparedMails, type PreparedMail } from './prepared-mails.ts';
import type { Job, DueQueue } from './due-queue.ts';

export interface WorkerDeps {
  clock: Clock;
  recorder: Recorder;
  dueQueue: Pick<DueQueue, 'done'>;
  /** The number of this run of the program. */
  epoch: number;
  /** How long a claim lasts, in ms: longer than any attempt. */
  leaseMs: number;
  /** Tells whether the job may be tried in this lane now; where it may not, it has been taken care of. */
  mayGo(lane: string, job: Job): boolean;
  prepare(job: Job): Promise<Preparing | Held | OtherSource>;
  /** Returns what keeps back a mail that was made ready a while ago, such as a hold that was set since; null where it may be tried. */
  keptBack(job: Job, ready: Preparing): Promise<Held | OtherSource | null>;
  passages: Pick<Passages, 'findIdle' | 'find' | 'release'>;
  attempts: Pick<Attempts, 'attempt'>;
  /** Finds the job another lane. */
  requeue(job: Job): void;
  /**
   * Is called where the job has no connection. Returns true where the job is put aside, since other jobs of the lane may have one;
   * false where it goes back to the lane and the worker ends, until the lane is woken.
   */
  putAside(lane: string, job: Job, found: NoPassage): boolean;
  /** Reports that writing failed; it is tried again. */
  failed(error: unknown): void;
  /** Takes outcomes that cannot be written, since the database is closed for this run. */
  unwritten(occurrences: readonly Occurrence[]): void;
}

export type Attempted =
  | { kind: 'done'; outcome: Outcome; followUps: readonly DeliveryChange[] }
  /** Nothing was tried: it falls due again at `dueAt` and no attempt is spent. */
  | { kind: 'untried'; dueAt: number };

/** The source of this lane may not send the mail, but another may. */
export interface OtherSource {
  kind: 'other_source';
}

type MadeReady = Preparing | Held | OtherSource;
type Mail = PreparedMail<Job, MadeReady>;

/** An attempt whose outcome is not written yet. */
interface Finished {
  job: Job;
  occurrences: readonly Occurrence[];
}

/** How long to wait before a failed write is tried again, in ms. */
const RETRY_WRITE_MS = 1_000;
/** A mail that was begun longer ago, since its turn or its connection took long, is looked at again before its claim. */
const FRESH_MS = 1_000;

/** Returns the function that works through a lane as one of its workers. */
export function createWorker(deps: WorkerDeps): (lane: Lane<Job>) => Promise<void> {
  const mails = new PreparedMails<Job, MadeReady>(deps.clock, (job) => prepareOrUnsigned(deps, job));
  return (lane) => new Worker(deps, lane, mails).run();
}

class Worker {
  private readonly deps: WorkerDeps;
  private readonly lane: Lane<Job>;
  private readonly mails: PreparedMails<Job, MadeReady>;
  /** The last attempt, until its outcome is written. */
  private finished: Finished | null = null;

  constructor(deps: WorkerDeps, lane: Lane<Job>, mails: PreparedMails<Job, MadeReady>) {
    this.deps = deps;
    this.lane = lane;
    this.mails = mails;
  }

  async run(): Promise<void> {
    const { deps, lane } = this;
    let next = this.beginNext();
    while (next !== null) {
      const { job } = next;
      const ready = await next.made;
      if (ready.kind !== 'preparing') {
        await this.keepBack(job, ready);
        next = this.beginNext();
        continue;
      }
      const found = deps.passages.findIdle(job, ready.wanted) ?? (await this.findPassage(job, ready));
      if (isNone(found)) {
        await this.writeFinished();
        if (found.kind === 'moved') deps.requeue(job);
        else if (!deps.putAside(lane.name, job, found)) {
          lane.giveBack(job);
          return;
        }
        next = this.beginNext();
        continue;
      }
      const kept = deps.clock.monotonic() - next.begunAt < FRESH_MS ? null : await this.keptBack(job, ready);
      if (kept !== null) {
        deps.passages.release(found);
        await this.keepBack(job, kept);
        next = this.beginNext();
        continue;
      }
      const ahead = this.beginAhead();
      const claim = await this.writeAndClaim(job);
      if (claim === null) deps.passages.release(found);
      else this.finished = await this.attempt(job, await ready.mail, claim, found, ahead);
      next = (ahead === null ? null : this.ownOrNone(ahead)) ?? this.beginNext();
      if (next?.isMade !== true) await this.writeFinished();
    }
  }

  /** Returns what keeps the mail back by now. If that cannot be read the claim will hardly be written. */
  private async keptBack(job: Job, ready: Preparing): Promise<Held | OtherSource | null> {
    return this.deps.keptBack(job, ready).catch((error: unknown) => {
      this.deps.failed(error);
      return null;
    });
  }

  /** Marks the mail with its hold, or finds it another source. */
  private async keepBack(job: Job, why: Held | OtherSource): Promise<void> {
    await this.writeFinished();
    if (why.kind === 'other_source') this.deps.requeue(job);
    else await this.write({ job, occurrences: [holdNow(job, why.hold)] });
  }

  /** Begins the lane's next job that may go. */
  private beginNext(): Mail | null {
    const { deps, lane } = this;
    for (let job = lane.take(); job !== null; job = lane.take()) {
      if (deps.mayGo(lane.name, job)) return this.mails.begin(job);
      this.mails.drop(job);
    }
    return null;
  }

  /** Begins the job after the one in hand; a worker that is free before takes it over. */
  private beginAhead(): Mail | null {
    const job = this.lane.prefetch();
    return job === null ? null : this.mails.offer(job);
  }

  /** Returns the mail that was begun ahead if it is still this worker's and may go. */
  private ownOrNone(mail: Mail): Mail | null {
    if (!this.lane.own(mail.job)) return null;
    this.mails.own(mail);
    return this.deps.mayGo(this.lane.name, mail.job) ? mail : null;
  }

  /** Finds a connection while the last outcome is written. A bug in it leaves the mail for its next time. */
  private async findPassage(job: Job, { wanted }: Preparing): Promise<Passage | NoPassage> {
    const finding = this.deps.passages.find(job, wanted).catch((error: unknown): NoPassage => {
      this.deps.failed(error);
      return { kind: 'exhausted' };
    });
    await this.writeFinished();
    return finding;
  }

  private async attempt(
    job: Job,
    mail: Prepared,
    claim: DeliveryState,
    passage: Passage,
    ahead: Mail | null,
  ): Promise<Finished> {
    try {
      const attempted = await this.deps.attempts.attempt(job, mail, claim.attemptCount, passage);
      return { job, occurrences: occurrencesOf(this.deps, job, claim.attemptCount, attempted) };
    } catch (error) {
      // A bug, and how far the attempt came is not known: the claim stays, and the mail falls due when its lease ends.
      this.deps.dueQueue.done(job, claim.dueAt);
      if (ahead !== null) this.mails.own(ahead);
      throw error;
    }
  }

  /** Writes the last outcome, if any, and the claim of `job` together; returns the claim, or null where there is nothing to try. */
  private async writeAndClaim(job: Job): Promise<DeliveryState | null> {
    const { deps, finished } = this;
    const claim: DeliveryChange = { kind: 'claimed', epoch: deps.epoch, leaseUntil: deps.clock.now() + deps.leaseMs };
    const before = finished?.occurrences ?? [];
    this.finished = null;
    try {
      const recorded = await deps.recorder.record([...before, { deliveryId: job.id, change: claim }]);
      if (finished !== null) deps.dueQueue.done(finished.job, recorded[before.length - 1]?.state?.dueAt ?? null);
      const result = recorded[before.length];
      if (result?.applied === true && result.state?.claimEpoch === deps.epoch) return result.state;
      deps.dueQueue.done(job, result?.state?.dueAt ?? null);
      return null;
    } catch (error) {
      deps.failed(error);
      if (finished !== null) await this.write(finished);
      deps.dueQueue.done(job, deps.clock.now() + RETRY_WRITE_MS);
      return null;
    }
  }

  private async writeFinished(): Promise<void> {
    if (this.finished !== null) await this.write(this.finished);
    this.finished = null;
  }

  /**
   * Writes an outcome. What a host has answered must not be forgotten, so this tries until it is written, or until the database is
   * closed: then the claim is taken back, and the mail tried once more unless the outcome is written before.
   */
  private async write({ job, occurrences }: Finished): Promise<void> {
    const { deps } = this;
    for (;;) {
      try {
        const recorded = await deps.recorder.record(occurrences);
        deps.dueQueue.done(job, recorded.at(-1)?.state?.dueAt ?? null);
        return;
      } catch (error) {
        deps.failed(error);
        if (error instanceof StorageClosed) {
          deps.unwritten(occurrences);
          return;
        }
        await deps.clock.sleep(RETRY_WRITE_MS);
      }
    }
  }
}

const isNone = (found: Passage | NoPassage): found is NoPassage =>
  found.kind === 'wait' || found.kind === 'moved' || found.kind === 'exhausted';

const holdNow = ({ id }: Job, { by, since, until }: Hold): Occurrence => ({
  deliveryId: id,
  change: { kind: 'held', by, since, until },
});

/** Prepares the mail. Loading may fail when the database does; the mail then waits like one that cannot be signed. */
async function prepareOrUnsigned(deps: WorkerDeps, job: Job): Promise<MadeReady> {
  const notLoaded = (error: unknown): Prepared => {
    deps.failed(error);
    return { kind: 'unsigned', why: 'the mail could not be loaded' };
  };
  try {
    const ready = await deps.prepare(job);
    return ready.kind === 'preparing' ? { ...ready, mail: ready.mail.catch(notLoaded) } : ready;
  } catch (error) {
    return { kind: 'preparing', wanted: null, mail: Promise.resolve(notLoaded(error)) };
  }
}

function occurrencesOf({ epoch }: WorkerDeps, job: Job, attempt: number, attempted: Attempted): Occurrence[] {
  const deliveryId = job.id;
  if (attempted.kind === 'untried')
    return [{ deliveryId, change: { kind: 'released', epoch, attempt, dueAt: attempted.dueAt } }];
  const change: DeliveryChange = { kind: 'outcome', epoch, attempt, outcome: attempted.outcome };
  return [{ deliveryId, change }, ...attempted.followUps.map((followUp) => ({ deliveryId, change: followUp }))];
}
