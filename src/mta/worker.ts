/**
 * One worker of a lane: find a connection, claim, attempt, record, and on to the next. What has no connection is not claimed, so a
 * host that lets nobody in costs no write. While a mail is on the wire the next one is composed; its claim and the outcome of the
 * last go into one commit, beside which it is signed. An outcome never waits for a mail that is not composed, or for a dial.
 */
import type { Clock } from '../base/clock.ts';
import type { Lane } from '../scheduling/lanes.ts';
import type { DeliveryState, DeliveryChange, Outcome } from '../messages/delivery/delivery.ts';
import type { Hold } from '../messages/delivery/holds.ts';
import type { Occurrence, Recorder } from '../messages/delivery/record.ts';
import { StorageClosed } from '../storage/commit.ts';
import type { Attempts, NoPassage, Passage } from './attempt/attempt.ts';
import type { Held, Making, Prepared } from './prepare/prepare.ts';
import type { Job, DueQueue } from './due-queue.ts';

export interface WorkerDeps extends Attempts {
  clock: Clock;
  recorder: Recorder;
  windows: Pick<DueQueue, 'done'>;
  /** Which run of the program this is. */
  epoch: number;
  /** How long a claim lasts: longer than any attempt. */
  leaseMs: number;
  /** Whether the job may be tried in this lane now; where it may not, it is taken care of. */
  mayGo(lane: string, job: Job): boolean;
  prepare(job: Job): Promise<Making | Held | Elsewhere>;
  /** Finds the job another lane. */
  elsewhere(job: Job): void;
  /**
   * No connection can be had for the job. True where it is put aside, since others of the lane may have one; false where it goes
   * back to the lane and the worker ends, until the lane is woken.
   */
  putAside(lane: string, job: Job, found: NoPassage): boolean;
  /** Writing failed; it is tried again. */
  failed(error: unknown): void;
}

export type Attempted =
  | { kind: 'done'; outcome: Outcome; followUps: readonly DeliveryChange[] }
  /** Nothing was tried: it falls due again at `dueAt` and no attempt is spent. */
  | { kind: 'untried'; dueAt: number };

/** The source of this lane may not send it, but another may. */
export interface Elsewhere {
  kind: 'elsewhere';
}

/** A job whose mail is being made ready. */
interface Begun {
  job: Job;
  known: Promise<Making | Held | Elsewhere>;
  /** `known` has resolved. */
  isKnown: boolean;
}

/**
 * Jobs that busy workers have taken ahead: one that is taken from its worker goes on with what that one has made ready, since
 * composing and signing cost more than all else.
 */
const begunAhead = new WeakMap<Job, Begun>();

/** An attempt whose outcome is not written yet. */
interface Finished {
  job: Job;
  occurrences: readonly Occurrence[];
}

/** Storage that fails is given this long before the next try. */
const PATIENCE_MS = 1_000;

export async function workLane(deps: WorkerDeps, lane: Lane<Job>): Promise<void> {
  let next = beginNext(deps, lane);
  let finished: Finished | null = null;
  while (next !== null) {
    const { job } = next;
    const known = await next.known;
    if (known.kind !== 'making') {
      if (finished !== null) await settle(deps, finished);
      finished = null;
      if (known.kind === 'elsewhere') deps.elsewhere(job);
      else await settle(deps, { job, occurrences: [heldNow(job, known.hold)] });
      next = beginNext(deps, lane);
      continue;
    }
    let found: Passage | NoPassage | null = deps.passageNow(job, known.wanted);
    if (found === null) {
      const finding = passageOrNot(deps, job, known);
      if (finished !== null) await settle(deps, finished);
      finished = null;
      found = await finding;
    }
    if (isNone(found)) {
      if (finished !== null) await settle(deps, finished);
      finished = null;
      if (found.kind === 'elsewhere') deps.elsewhere(job);
      else if (!deps.putAside(lane.name, job, found)) {
        lane.giveBack(job);
        return;
      }
      next = beginNext(deps, lane);
      continue;
    }
    const ahead = beginAhead(deps, lane.takeAhead());
    const claim = await settleAndClaim(deps, finished, job);
    finished = null;
    if (claim === null) {
      deps.leave(found);
      next = following(deps, lane, ahead);
      continue;
    }
    const attempted = await attemptClaimed(deps, job, await known.mail, claim, found).catch((error: unknown) => {
      if (ahead !== null) begunAhead.delete(ahead.job);
      throw error;
    });
    finished = { job, occurrences: occurrencesOf(deps, job, claim.attemptCount, attempted) };
    next = following(deps, lane, ahead);
    if (next?.isKnown !== true) {
      await settle(deps, finished);
      finished = null;
    }
  }
}

const isNone = (found: Passage | NoPassage): found is NoPassage =>
  found.kind === 'wait' || found.kind === 'elsewhere' || found.kind === 'exhausted';

/** A bug in finding a connection leaves the mail for its next time. */
async function passageOrNot(deps: WorkerDeps, job: Job, { wanted }: Making): Promise<Passage | NoPassage> {
  try {
    return await deps.passage(job, wanted);
  } catch (error) {
    deps.failed(error);
    return { kind: 'exhausted' };
  }
}

const heldNow = ({ id }: Job, { by, since, until }: Hold): Occurrence => ({
  deliveryId: id,
  change: { kind: 'held', by, since, until },
});

/** The lane's next job that may go. */
function beginNext(deps: WorkerDeps, lane: Lane<Job>): Begun | null {
  for (let job = lane.take(); job !== null; job = lane.take()) if (deps.mayGo(lane.name, job)) return begin(deps, job);
  return null;
}

function beginAhead(deps: WorkerDeps, job: Job | null): Begun | null {
  if (job === null) return null;
  const begun = begin(deps, job);
  begunAhead.set(job, begun);
  return begun;
}

/** What was begun ahead, or else what the lane gives. */
const following = (deps: WorkerDeps, lane: Lane<Job>, begun: Begun | null): Begun | null =>
  (begun === null ? null : kept(deps, lane, begun)) ?? beginNext(deps, lane);

/** What was begun ahead, if it is still this worker's and may go. */
function kept(deps: WorkerDeps, lane: Lane<Job>, begun: Begun): Begun | null {
  if (!lane.mine(begun.job)) return null;
  if (begunAhead.get(begun.job) === begun) begunAhead.delete(begun.job);
  return deps.mayGo(lane.name, begun.job) ? begun : null;
}

function begin(deps: WorkerDeps, job: Job): Begun {
  const before = begunAhead.get(job);
  if (before !== undefined) {
    begunAhead.delete(job);
    return before;
  }
  const begun: Begun = { job, known: knownOrNot(deps, job), isKnown: false };
  void begun.known.then(() => {
    begun.isKnown = true;
  });
  return begun;
}

async function attemptClaimed(
  deps: WorkerDeps,
  job: Job,
  mail: Prepared,
  claim: DeliveryState,
  passage: Passage,
): Promise<Attempted> {
  try {
    return await deps.attempt(job, mail, claim.attemptCount, passage);
  } catch (error) {
    // A bug, and nobody knows how far the attempt came: the claim stays, and the mail falls due when its lease ends.
    deps.windows.done(job, claim.dueAt);
    throw error;
  }
}

/** Loading may fail when the database does; the mail then waits like one that cannot be signed. */
async function knownOrNot(deps: WorkerDeps, job: Job): Promise<Making | Held | Elsewhere> {
  const notLoaded = (error: unknown): Prepared => {
    deps.failed(error);
    return { kind: 'unsigned', why: 'the mail could not be loaded' };
  };
  try {
    const known = await deps.prepare(job);
    return known.kind === 'making' ? { ...known, mail: known.mail.catch(notLoaded) } : known;
  } catch (error) {
    return { kind: 'making', wanted: null, mail: Promise.resolve(notLoaded(error)) };
  }
}

function occurrencesOf({ epoch }: WorkerDeps, job: Job, attempt: number, attempted: Attempted): Occurrence[] {
  const deliveryId = job.id;
  if (attempted.kind === 'untried') {
    return [{ deliveryId, change: { kind: 'released', epoch, attempt, dueAt: attempted.dueAt } }];
  }
  const change: DeliveryChange = { kind: 'outcome', epoch, attempt, outcome: attempted.outcome };
  return [{ deliveryId, change }, ...attempted.followUps.map((followUp) => ({ deliveryId, change: followUp }))];
}

/** Writes the last outcome, if any, and the claim of `job` together; answers the claim, or null where there is nothing to try. */
async function settleAndClaim(deps: WorkerDeps, finished: Finished | null, job: Job): Promise<DeliveryState | null> {
  const claim: DeliveryChange = { kind: 'claimed', epoch: deps.epoch, leaseUntil: deps.clock.now() + deps.leaseMs };
  const before = finished?.occurrences ?? [];
  try {
    const recorded = await deps.recorder.record([...before, { deliveryId: job.id, change: claim }]);
    if (finished !== null) deps.windows.done(finished.job, recorded[before.length - 1]?.state?.dueAt ?? null);
    const result = recorded[before.length];
    if (result?.applied === true && result.state?.claimEpoch === deps.epoch) return result.state;
    deps.windows.done(job, result?.state?.dueAt ?? null);
    return null;
  } catch (error) {
    deps.failed(error);
    if (finished !== null) await settle(deps, finished);
    deps.windows.done(job, deps.clock.now() + PATIENCE_MS);
    return null;
  }
}

/**
 * Writes an outcome. What the world has answered must not be forgotten, so this tries until it is written, or until the
 * database is closed: then the claim is taken back at the next start, and the mail tried once more.
 */
async function settle(deps: WorkerDeps, { job, occurrences }: Finished): Promise<void> {
  for (;;) {
    try {
      const recorded = await deps.recorder.record(occurrences);
      deps.windows.done(job, recorded.at(-1)?.state?.dueAt ?? null);
      return;
    } catch (error) {
      deps.failed(error);
      if (error instanceof StorageClosed) return;
      await deps.clock.sleep(PATIENCE_MS);
    }
  }
}
