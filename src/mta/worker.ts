/**
 * One worker of a lane: it finds a connection, claims the delivery, attempts it, records the outcome, and goes on to the next. A
 * delivery without a connection is not claimed, so a host that cannot be reached costs no write. While a mail is on the wire the
 * one that goes next in the lane is composed and signed, and waits there for whichever worker is free first; its claim and the outcome before
 * it share one commit. An outcome is written at once if the next mail is not ready or needs a new connection.
 */
import type { Lane } from '../scheduling/lanes.ts';
import type { DeliveryState, DeliveryChange, Outcome } from '../messages/delivery/delivery.ts';
import type { Hold } from '../messages/delivery/holds.ts';
import type { Occurrence } from '../messages/delivery/record.ts';
import { StorageClosed } from '../storage/commit.ts';
import type { NoPassage, Passage } from './attempt/attempt.ts';
import type { Failed, Failure, Held, Prepared, Preparing } from './prepare/prepare.ts';
import type { Job } from './due-queue.ts';
import type { Engine } from './engine.ts';

export type Attempted =
  | { kind: 'done'; outcome: Outcome; followUps: readonly DeliveryChange[] }
  /** Nothing was tried: it falls due again at `dueAt` and no attempt is spent. */
  | { kind: 'untried'; dueAt: number };

/** The source of this lane may not send the mail, but another may. */
export interface OtherSource {
  kind: 'other_source';
}

export type Begun = Preparing | Failed | Held | OtherSource;

interface Mail {
  readonly job: Job;
  /** Resolves when it is known whether the mail may be sent now. Its bytes are still being made then, unless it is large. */
  readonly made: Promise<Begun>;
  isMade: boolean;
  /** On the monotonic clock, in ms. */
  readonly begunAt: number;
}

/** A mail that may be tried over a passage, which is given back if it is not. */
interface Sendable {
  kind: 'sendable';
  passage: Passage;
  mail: Promise<Prepared>;
}

interface Finished {
  job: Job;
  occurrences: readonly Occurrence[];
}

/** How long to wait before a failed write is tried again, in ms. */
const RETRY_WRITE_MS = 1_000;
/** A mail that was begun longer ago, since its turn or its connection took long, is looked at again before its claim. */
const FRESH_MS = 1_000;

/** Returns the function that works through a lane as one of its workers. */
export const createWorker = (engine: Engine) => (lane: Lane<Job>) => new Worker(engine, lane).run();

class Worker {
  private readonly engine: Engine;
  private readonly lane: Lane<Job>;
  /** The last attempt, until its outcome is written. */
  private finished: Finished | null = null;

  constructor(engine: Engine, lane: Lane<Job>) {
    this.engine = engine;
    this.lane = lane;
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
    const { attempts, clock } = this.engine;
    const begun = await made;
    if (begun.kind !== 'preparing') return begun;
    const passage = attempts.findIdle(job, begun.wanted) ?? (await this.findPassage(job, begun));
    if (isNone(passage)) return passage;
    const kept = clock.monotonic() - begunAt < FRESH_MS ? null : await this.keptBack(job, begun);
    if (kept === null) return { kind: 'sendable', passage, mail: begun.mail };
    attempts.release(passage);
    return kept;
  }

  /** Claims a mail and attempts it, while the next one is made ready. Returns the next one. */
  private async claimAndAttempt(job: Job, found: Sendable | Failed): Promise<Mail | null> {
    const ahead = this.lane.ahead((other) => other.ahead !== undefined);
    if (ahead !== null) ahead.ahead = this.begin(ahead);
    const claim = await this.writeAndClaim(job);
    if (claim !== null) this.finished = await this.attempt(job, claim, found);
    else if (found.kind === 'sendable') this.engine.attempts.release(found.passage);
    const next = this.beginNext();
    if (next?.isMade !== true) await this.writeFinished();
    return next;
  }

  /** Returns what keeps the mail back by now. If that cannot be read the claim will hardly be written. */
  private async keptBack(job: Job, ready: Preparing): Promise<Held | OtherSource | null> {
    return this.engine.placing.keptBack(job, ready).catch((error: unknown) => {
      this.engine.failed(error);
      return null;
    });
  }

  /** Takes care of a mail that is not tried now. Returns false if it goes back to the lane and the worker ends. */
  private async keepBack(job: Job, why: Held | OtherSource | NoPassage): Promise<boolean> {
    const { placing } = this.engine;
    const { lane } = this;
    await this.writeFinished();
    switch (why.kind) {
      case 'held':
        await this.write({ job, occurrences: [holdNow(job, why.hold)] });
        return true;
      case 'other_source':
      case 'moved':
        placing.placeAgain(job);
        placing.moveOn(lane.name);
        return true;
      case 'wait':
      case 'exhausted': {
        const isAside = placing.putAside(lane.name, job, why);
        if (!isAside) lane.giveBack(job);
        return isAside;
      }
    }
  }

  /** Begins the lane's next job that may go, unless that was done ahead. */
  private beginNext(): Mail | null {
    const { engine, lane } = this;
    for (let job = lane.take(); job !== null; job = lane.take()) {
      const { ahead } = job;
      delete job.ahead;
      const may = engine.placing.mayGo(lane.name, job);
      if (may === true) return (ahead as Mail | undefined) ?? this.begin(job);
      if (may !== false) return this.begin(job, Promise.resolve(may));
    }
    return null;
  }

  private begin(job: Job, made = begin(this.engine, job)): Mail {
    const { engine } = this;
    const mail: Mail = { job, made, isMade: false, begunAt: engine.clock.monotonic() };
    void mail.made.then(() => {
      mail.isMade = true;
    });
    return mail;
  }

  /** Finds a connection while the last outcome is written. A bug in it leaves the mail for its next time. */
  private async findPassage(job: Job, { wanted }: Preparing): Promise<Passage | NoPassage> {
    const finding = this.engine.attempts.find(job, wanted).catch((error: unknown): NoPassage => {
      this.engine.failed(error);
      return { kind: 'exhausted' };
    });
    await this.writeFinished();
    return finding;
  }

  private async attempt(job: Job, claim: DeliveryState, found: Sendable | Failed): Promise<Finished> {
    const { attempts, placing } = this.engine;
    const { attemptCount: number } = claim;
    try {
      const attempted =
        found.kind === 'failed'
          ? attempts.fail(job, found.failure, number)
          : await attempts.attempt(job, await found.mail, number, found.passage);
      return { job, occurrences: occurrencesOf(this.engine.options, job, number, attempted) };
    } catch (error) {
      // A bug, and how far the attempt came is not known: the claim stays, and the mail falls due when its lease ends.
      placing.done(job, claim.dueAt);
      throw error;
    }
  }

  /** Writes the last outcome, if any, and the claim of `job` together; returns the claim, or null if there is nothing to try. */
  private async writeAndClaim(job: Job): Promise<DeliveryState | null> {
    const { engine, finished } = this;
    const claim: DeliveryChange = {
      kind: 'claimed',
      epoch: engine.options.epoch,
      leaseUntil: engine.clock.now() + engine.leaseMs,
      extraTime: engine.extraTime(),
    };
    const before = finished?.occurrences ?? [];
    this.finished = null;
    try {
      const recorded = await engine.recorder.record([...before, { deliveryId: job.id, change: claim }]);
      if (finished !== null) engine.placing.done(finished.job, recorded[before.length - 1]?.state?.dueAt ?? null);
      const result = recorded[before.length];
      if (result?.applied === true && result.state?.claimEpoch === engine.options.epoch) return result.state;
      engine.placing.done(job, result?.state?.dueAt ?? null);
      return null;
    } catch (error) {
      engine.failed(error);
      if (finished !== null) await this.write(finished);
      engine.placing.done(job, engine.clock.now() + RETRY_WRITE_MS);
      return null;
    }
  }

  private async writeFinished(): Promise<void> {
    if (this.finished !== null) await this.write(this.finished);
    this.finished = null;
  }

  /**
   * Writes an outcome. What a host has answered must not be forgotten, so this tries until it is written, or until the database is closed: then the
   * claim is taken back, and the mail tried once more unless the outcome is written before.
   */
  private async write({ job, occurrences }: Finished): Promise<void> {
    const { engine } = this;
    for (;;) {
      try {
        const recorded = await engine.recorder.record(occurrences);
        engine.placing.done(job, recorded.at(-1)?.state?.dueAt ?? null);
        return;
      } catch (error) {
        engine.failed(error);
        if (error instanceof StorageClosed) {
          engine.unwritten(occurrences);
          return;
        }
        await engine.clock.sleep(RETRY_WRITE_MS);
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
async function begin(engine: Engine, job: Job): Promise<Begun> {
  const notLoaded = (error: unknown): Failure => {
    engine.failed(error);
    return { kind: 'unready', why: 'it could not be loaded' };
  };
  try {
    const begun = await engine.placing.begin(job);
    return begun.kind === 'preparing' ? { ...begun, mail: begun.mail.catch(notLoaded) } : begun;
  } catch (error) {
    return { kind: 'failed', failure: notLoaded(error) };
  }
}

function occurrencesOf({ epoch }: { epoch: number }, job: Job, attempt: number, attempted: Attempted): Occurrence[] {
  const deliveryId = job.id;
  if (attempted.kind === 'untried')
    return [{ deliveryId, change: { kind: 'released', epoch, attempt, dueAt: attempted.dueAt } }];
  const change: DeliveryChange = { kind: 'outcome', epoch, attempt, outcome: attempted.outcome };
  return [{ deliveryId, change }, ...attempted.followUps.map((followUp) => ({ deliveryId, change: followUp }))];
}
