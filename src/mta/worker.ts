/**
 * One worker of a lane: it finds a connection, claims the delivery, attempts it, records the outcome, and goes on to the next. A
 * delivery without a connection is not claimed, so a host that cannot be reached costs no write. While a mail is on the wire the
 * next one is composed and signed (prepared-mails.ts); its claim and the outcome before it share one commit. An outcome is written
 * at once if the next mail is not ready or needs a new connection.
 */
import type { Clock } from '../base/clock.ts';
import type { Lane } from '../scheduling/lanes.ts';
import type { DeliveryState, DeliveryChange, Outcome } from '../messages/delivery/delivery.ts';
import type { Hold } from '../messages/delivery/holds.ts';
import type { Occurrence, Recorder } from '../messages/delivery/record.ts';
import type { ExtraTime } from '../messages/delivery/retry.ts';
import { StorageClosed } from '../storage/commit.ts';
import type { Attempts } from './attempt/attempt.ts';
import type { NoPassage, Passage, Passages } from './attempt/passages.ts';
import type { Failed, Failure, Held, Prepared, Preparing } from './prepare/prepare.ts';
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
  /** Returns the time for mail whose time ran out while the program did not run. */
  extraTime(): ExtraTime;
  /** Returns whether the job may be tried in this lane now; if it may not, it has been taken care of. */
  mayGo(lane: string, job: Job): boolean;
  prepare(job: Job): Promise<Begun>;
  /** Returns what keeps back a mail that was made ready a while ago, such as a hold that was set since; null if it may be tried. */
  keptBack(job: Job, ready: Preparing): Promise<Held | OtherSource | null>;
  passages: Pick<Passages, 'findIdle' | 'find' | 'release'>;
  attempts: Pick<Attempts, 'attempt' | 'fail'>;
  /** Finds the job another lane. */
  requeue(job: Job): void;
  /**
   * Is called if the job has no connection. Returns whether the job is put aside, since other jobs of the lane may have one;
   * false if it goes back to the lane and the worker ends, until the lane is woken.
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

/** A mail before a connection is looked for. */
type Begun = Preparing | Failed | Held | OtherSource;
type Mail = PreparedMail<Job, Begun>;

/** A mail that may be tried over a passage, which is given back if it is not. */
interface Sendable {
  kind: 'sendable';
  passage: Passage;
  mail: Promise<Prepared>;
}

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
  const mails = new PreparedMails<Job, Begun>(deps.clock, (job) => begin(deps, job));
  return (lane) => new Worker(deps, lane, mails).run();
}

class Worker {
  private readonly deps: WorkerDeps;
  private readonly lane: Lane<Job>;
  private readonly mails: PreparedMails<Job, Begun>;
  /** The last attempt, until its outcome is written. */
  private finished: Finished | null = null;

  constructor(deps: WorkerDeps, lane: Lane<Job>, mails: PreparedMails<Job, Begun>) {
    this.deps = deps;
    this.lane = lane;
    this.mails = mails;
  }

  async run(): Promise<void> {
    let next = this.beginNext();
    while (next !== null) {
      const { job } = next;
      const found = await this.findWay(next);
      if (found.kind === 'sendable' || found.kind === 'failed') next = await this.claimAndAttempt(job, found);
      else if (await this.keepBack(job, found)) next = this.beginNext();
      else return;
    }
  }

  /** Finds a passage for a mail, or why it is not sent over one now. */
  private async findWay({ job, made, begunAt }: Mail): Promise<Sendable | Exclude<Begun, Preparing> | NoPassage> {
    const { passages, clock } = this.deps;
    const begun = await made;
    if (begun.kind !== 'preparing') return begun;
    const passage = passages.findIdle(job, begun.wanted) ?? (await this.findPassage(job, begun));
    if (isNone(passage)) return passage;
    const kept = clock.monotonic() - begunAt < FRESH_MS ? null : await this.keptBack(job, begun);
    if (kept === null) return { kind: 'sendable', passage, mail: begun.mail };
    passages.release(passage);
    return kept;
  }

  /** Claims a mail and attempts it, while the next one is made ready. Returns the next one. */
  private async claimAndAttempt(job: Job, found: Sendable | Failed): Promise<Mail | null> {
    const ahead = this.beginAhead();
    const claim = await this.writeAndClaim(job);
    if (claim !== null) this.finished = await this.attempt(job, claim, found, ahead);
    else if (found.kind === 'sendable') this.deps.passages.release(found.passage);
    const next = (ahead === null ? null : this.ownOrNone(ahead)) ?? this.beginNext();
    if (next?.isMade !== true) await this.writeFinished();
    return next;
  }

  /** Returns what keeps the mail back by now. If that cannot be read the claim will hardly be written. */
  private async keptBack(job: Job, ready: Preparing): Promise<Held | OtherSource | null> {
    return this.deps.keptBack(job, ready).catch((error: unknown) => {
      this.deps.failed(error);
      return null;
    });
  }

  /** Takes care of a mail that is not tried now. Returns false if it goes back to the lane and the worker ends. */
  private async keepBack(job: Job, why: Held | OtherSource | NoPassage): Promise<boolean> {
    const { deps, lane } = this;
    await this.writeFinished();
    switch (why.kind) {
      case 'held':
        await this.write({ job, occurrences: [holdNow(job, why.hold)] });
        return true;
      case 'other_source':
      case 'moved':
        deps.requeue(job);
        return true;
      case 'wait':
      case 'exhausted': {
        const isAside = deps.putAside(lane.name, job, why);
        if (!isAside) lane.giveBack(job);
        return isAside;
      }
    }
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
    claim: DeliveryState,
    found: Sendable | Failed,
    ahead: Mail | null,
  ): Promise<Finished> {
    const { attempts, dueQueue } = this.deps;
    const { attemptCount: number } = claim;
    try {
      const attempted =
        found.kind === 'failed'
          ? attempts.fail(job, found.failure, number)
          : await attempts.attempt(job, await found.mail, number, found.passage);
      return { job, occurrences: occurrencesOf(this.deps, job, number, attempted) };
    } catch (error) {
      // A bug, and how far the attempt came is not known: the claim stays, and the mail falls due when its lease ends.
      dueQueue.done(job, claim.dueAt);
      if (ahead !== null) this.mails.own(ahead);
      throw error;
    }
  }

  /** Writes the last outcome, if any, and the claim of `job` together; returns the claim, or null if there is nothing to try. */
  private async writeAndClaim(job: Job): Promise<DeliveryState | null> {
    const { deps, finished } = this;
    const claim: DeliveryChange = {
      kind: 'claimed',
      epoch: deps.epoch,
      leaseUntil: deps.clock.now() + deps.leaseMs,
      extraTime: deps.extraTime(),
    };
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

/** Begins to prepare a mail. If storage fails, now or before the mail is made, it cannot be sent: it waits. Never rejects. */
async function begin(deps: WorkerDeps, job: Job): Promise<Begun> {
  const notLoaded = (error: unknown): Failure => {
    deps.failed(error);
    return { kind: 'unready', why: 'it could not be loaded' };
  };
  try {
    const begun = await deps.prepare(job);
    return begun.kind === 'preparing' ? { ...begun, mail: begun.mail.catch(notLoaded) } : begun;
  } catch (error) {
    return { kind: 'failed', failure: notLoaded(error) };
  }
}

function occurrencesOf({ epoch }: WorkerDeps, job: Job, attempt: number, attempted: Attempted): Occurrence[] {
  const deliveryId = job.id;
  if (attempted.kind === 'untried')
    return [{ deliveryId, change: { kind: 'released', epoch, attempt, dueAt: attempted.dueAt } }];
  const change: DeliveryChange = { kind: 'outcome', epoch, attempt, outcome: attempted.outcome };
  return [{ deliveryId, change }, ...attempted.followUps.map((followUp) => ({ deliveryId, change: followUp }))];
}
