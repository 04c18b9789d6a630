/**
 * One worker of a lane: claim, attempt, record, and on to the next. While a mail is on the wire the next one is composed; its
 * claim and the outcome of the last go into one commit, beside which it is signed. An outcome never waits for a mail that is
 * not composed.
 */
import type { Clock } from '../base/clock.ts';
import type { Lane } from '../base/lanes.ts';
import type { DeliveryState, Happening, Outcome } from '../messages/delivery.ts';
import type { Hold } from '../messages/holds.ts';
import type { Occurrence, Recorder } from '../messages/record.ts';
import { StorageClosed } from '../storage/commit.ts';
import type { Held, Making, Prepared } from './prepare.ts';
import type { Job, Windows } from './windows.ts';

export interface WorkerDeps {
  clock: Clock;
  recorder: Recorder;
  windows: Windows;
  /** Which run of the program this is. */
  epoch: number;
  /** How long a claim lasts: longer than any attempt. */
  leaseMs: number;
  prepare(job: Job): Promise<Making | Held | Elsewhere>;
  /** Finds the job another lane. */
  elsewhere(job: Job): void;
  /** Tries the mail once. `connected` is called when it is on the wire. Throws only for a bug. */
  attempt(job: Job, mail: Prepared, number: number, connected: () => void): Promise<Attempted>;
  /** Writing failed; it is tried again. */
  failed(error: unknown): void;
}

export type Attempted =
  | { kind: 'done'; outcome: Outcome; followUps: readonly Happening[] }
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
  let next = begin(deps, lane.take());
  let finished: Finished | null = null;
  /** Whether its last mail found a connection: so will the next, most likely. */
  const way = { isWarm: false };
  while (next !== null) {
    const { job } = next;
    const known = await next.known;
    if (known.kind !== 'making') {
      if (finished !== null) await settle(deps, finished);
      finished = null;
      if (known.kind === 'elsewhere') deps.elsewhere(job);
      else await settle(deps, { job, occurrences: [heldNow(job, known.hold)] });
      next = begin(deps, lane.take());
      continue;
    }
    // Where the wire is quicker than loading and composing, a mail begun only then is too late for the common commit.
    const ahead: { begun: Begun | null } = { begun: way.isWarm ? beginAhead(deps, lane.takeAhead()) : null };
    const claim = await settleAndClaim(deps, finished, job);
    finished = null;
    if (claim === null) {
      next = following(deps, lane, ahead.begun);
      continue;
    }
    way.isWarm = false;
    const attempted = await attemptClaimed(deps, job, await known.mail, claim, () => {
      way.isWarm = true;
      ahead.begun ??= beginAhead(deps, lane.takeAhead());
    }).catch((error: unknown) => {
      if (ahead.begun !== null) begunAhead.delete(ahead.begun.job);
      throw error;
    });
    finished = { job, occurrences: occurrencesOf(deps, job, claim.attemptCount, attempted) };
    next = following(deps, lane, ahead.begun);
    if (next?.isKnown !== true) {
      await settle(deps, finished);
      finished = null;
    }
  }
}

const heldNow = ({ id }: Job, { by, since, until }: Hold): Occurrence => ({
  deliveryId: id,
  happening: { kind: 'held', by, since, until },
});

function beginAhead(deps: WorkerDeps, job: Job | null): Begun | null {
  const begun = begin(deps, job);
  if (begun !== null) begunAhead.set(begun.job, begun);
  return begun;
}

/** What was begun ahead, or else what the lane gives. */
const following = (deps: WorkerDeps, lane: Lane<Job>, begun: Begun | null): Begun | null =>
  (begun === null ? null : kept(lane, begun)) ?? begin(deps, lane.take());

/** What was begun ahead, if it is still this worker's. What goes back to the lane is made ready anew when its turn comes. */
function kept(lane: Lane<Job>, begun: Begun): Begun | null {
  const isMine = lane.mine(begun.job);
  if (begunAhead.get(begun.job) === begun) begunAhead.delete(begun.job);
  return isMine ? begun : null;
}

function begin(deps: WorkerDeps, job: Job | null): Begun | null {
  if (job === null) return null;
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
  connected: () => void,
): Promise<Attempted> {
  try {
    return await deps.attempt(job, mail, claim.attemptCount, connected);
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
    return { kind: 'making', mail: Promise.resolve(notLoaded(error)) };
  }
}

function occurrencesOf({ epoch }: WorkerDeps, job: Job, attempt: number, attempted: Attempted): Occurrence[] {
  const deliveryId = job.id;
  if (attempted.kind === 'untried') {
    return [{ deliveryId, happening: { kind: 'released', epoch, attempt, dueAt: attempted.dueAt } }];
  }
  const happening: Happening = { kind: 'outcome', epoch, attempt, outcome: attempted.outcome };
  return [{ deliveryId, happening }, ...attempted.followUps.map((followUp) => ({ deliveryId, happening: followUp }))];
}

/** Writes the last outcome, if any, and the claim of `job` together; answers the claim, or null where there is nothing to try. */
async function settleAndClaim(deps: WorkerDeps, finished: Finished | null, job: Job): Promise<DeliveryState | null> {
  const claim: Happening = { kind: 'claimed', epoch: deps.epoch, leaseUntil: deps.clock.now() + deps.leaseMs };
  const before = finished?.occurrences ?? [];
  try {
    const recorded = await deps.recorder.record([...before, { deliveryId: job.id, happening: claim }]);
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
