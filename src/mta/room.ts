/**
 * Makes room in memory if mail for more domains is due than may have jobs there (due-queue.ts): jobs that do not go soon rest on disk for
 * a while. So memory has a bound however many domains have due mail, and none of them has to wait for the hosts of others.
 */
import type { Clock } from '../base/clock.ts';
import { mapInSlices } from '../base/slices.ts';
import type { Lanes, LaneView } from '../scheduling/lanes.ts';
import type { Pool } from './connection/pool.ts';
import type { DueQueue, Job } from './due-queue.ts';
import type { Aside } from './lanes/aside.ts';
import type { LaneControl } from './lanes/lane-control.ts';
import type { Placing } from './placing.ts';

export interface RoomDeps {
  clock: Clock;
  lanes: Pick<Lanes<Job>, 'views' | 'withdraw'>;
  control: Pick<LaneControl, 'closedFor'>;
  pool: Pick<Pool, 'waitingLong'>;
  aside: Pick<Aside, 'takeOut'>;
  placing: Pick<Placing, 'releaseQuota'>;
  dueQueue: Pick<DueQueue, 'rest' | 'needsPlaceOf'>;
  isStopping(): boolean;
}

/** Mail that may go sooner keeps its place: to read it again costs more than its memory is worth. */
const LEAST_REST_MS = 5_000;
/** Afterwards it is looked at again: another source may take it, or the reason may be gone. */
const MOST_REST_MS = 30_000;
/** Jobs that a lane keeps for each of its workers. */
const KEPT = 20;

export function createRoom(deps: RoomDeps): () => Promise<void> {
  const { clock, lanes, control, pool, aside, placing, dueQueue } = deps;

  const isInTheWay = (job: Job): boolean => dueQueue.needsPlaceOf(job);

  function rest(jobs: readonly Job[], ms: number): void {
    const until = clock.now() + Math.min(Math.max(ms, LEAST_REST_MS), MOST_REST_MS);
    for (const job of jobs) {
      placing.releaseQuota(job);
      dueQueue.rest(job, until);
    }
  }

  /** Takes jobs of a lane out of memory: all of them if every worker waits for its host or none may start, otherwise those at the end. */
  function restSome({ name, slots }: LaneView, late: number): void {
    const closedMs = slots > 0 ? null : control.closedFor(name, LEAST_REST_MS);
    const isStuck = closedMs !== null || (slots > 0 && late >= slots);
    const most = isStuck ? 0 : KEPT * Math.max(1, slots);
    rest(lanes.withdraw(name, most, isInTheWay), closedMs ?? LEAST_REST_MS);
  }

  return async () => {
    for (const { jobs, wait } of aside.takeOut(LEAST_REST_MS, isInTheWay)) rest(jobs, wait);
    const late = pool.waitingLong(LEAST_REST_MS);
    const waiting = lanes.views().filter((view) => view.waiting > 0);
    await mapInSlices(waiting, (view) => {
      if (!deps.isStopping()) restSome(view, late.get(view.name) ?? 0);
    });
  };
}
