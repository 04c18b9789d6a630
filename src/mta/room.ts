/**
 * Makes room in memory where mail for more domains is due than may have jobs there (due-queue.ts): jobs that a slow or dead host keeps
 * from going rest on disk until they may go. So memory has a bound however many domains have due mail, and none of them has to wait for
 * the hosts of others.
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
  control: Pick<LaneControl, 'closedUntil'>;
  pool: Pick<Pool, 'allWaitingLong'>;
  aside: Pick<Aside, 'takeOut'>;
  placing: Pick<Placing, 'releaseQuota'>;
  dueQueue: Pick<DueQueue, 'rest'>;
}

/** Mail that may go sooner keeps its place: to read it again costs more than its memory is worth. */
const LEAST_REST_MS = 5_000;

export function createRoom(deps: RoomDeps): () => Promise<void> {
  const { clock, lanes, control, pool, aside, placing, dueQueue } = deps;

  function rest(jobs: readonly Job[], until: number): void {
    for (const job of jobs) {
      placing.releaseQuota(job);
      dueQueue.rest(job, until);
    }
  }

  /** Returns until when the jobs that wait in the lane rest: all its workers wait for their hosts, or none may begin. Null where they stay. */
  function restOf({ name, slots }: LaneView, late: number): number | null {
    if (slots > 0) return late >= slots ? clock.now() + LEAST_REST_MS : null;
    const until = control.closedUntil(name);
    return until !== null && until - clock.now() >= LEAST_REST_MS ? until : null;
  }

  return async () => {
    for (const { jobs, wait } of aside.takeOut(LEAST_REST_MS)) rest(jobs, clock.now() + wait);
    const late = pool.allWaitingLong(LEAST_REST_MS);
    const waiting = lanes.views().filter((view) => view.waiting > 0);
    await mapInSlices(waiting, (view) => {
      const until = restOf(view, late.get(view.name) ?? 0);
      if (until !== null) rest(lanes.withdraw(view.name), until);
    });
  };
}
