/**
 * Due work in lanes. A lane is work under one set of limits; a slow lane never holds up another, because lanes share nothing
 * but the total number of slots. A lane that has no slot is served first: while one starves, no other lane starts a worker,
 * workers beyond a lane's first end, and a first one ends after a few jobs.
 *
 * The owner offers jobs to lanes by name. While a lane has jobs and free slots, `work` is started once for each slot; it takes jobs
 * until the lane gives none (lane-queue.ts says which). Time, limits and work are handed in.
 */
import { LaneQueue, type Lane, type LaneJob } from './lane-queue.ts';

export type { Lane, LaneJob } from './lane-queue.ts';

export interface LaneView {
  name: string;
  /** Jobs in memory that no worker has in hand. */
  waiting: number;
  /** Workers running. */
  slots: number;
}

export interface LanesOptions<Job extends LaneJob> {
  /** Works through a lane until `take` returns null. Should not throw: the job in its hand is then its owner's to find again. */
  work(lane: Lane<Job>): Promise<void>;
  /** Returns how many workers the lane may have now; 0 parks it until `pump`. */
  slots(name: string): number;
  /** Returns how many workers all lanes together may have. */
  maxSlots(): number;
  /** Reports that a worker ended with an exception. */
  failed(name: string, error: unknown): void;
  /** Reports that the lane has no jobs and no workers left. */
  empty?(name: string): void;
}

/** Jobs that a lane's only worker still does while other lanes have none: enough to be worth a warm connection. */
const JOBS_WHILE_OTHERS_STARVE = 10;

export class Lanes<Job extends LaneJob> {
  private readonly options: LanesOptions<Job>;
  private readonly lanes = new Map<string, LaneQueue<Job>>();
  /** Lanes that have jobs and no slot because the total is reached, longest waiting first. */
  private readonly starved = new Set<LaneQueue<Job>>();
  private total = 0;
  private isStopping = false;
  private stopped: (() => void) | null = null;

  constructor(options: LanesOptions<Job>) {
    this.options = options;
  }

  offer(name: string, job: Job): void {
    let lane = this.lanes.get(name);
    if (lane === undefined) {
      lane = new LaneQueue(name, this.mayTake);
      this.lanes.set(name, lane);
    }
    lane.add(job);
    this.startWorkers(lane);
  }

  /** Looks at the lane again: its limit may have grown, or its pause ended. */
  pump(name: string): void {
    const lane = this.lanes.get(name);
    if (lane !== undefined) this.startWorkers(lane);
  }

  /** Removes and returns the jobs that wait in any lane and are `unwanted`. */
  removeWaiting(unwanted: (job: Job) => boolean): Job[] {
    return [...this.lanes.values()].flatMap((lane) => this.afterRemoval(lane, lane.removeWaiting(unwanted)));
  }

  /** Removes and returns the jobs that wait in this lane beyond so many; each share keeps some. */
  withdraw(name: string, most: number): Job[] {
    const lane = this.lanes.get(name);
    return lane === undefined ? [] : this.afterRemoval(lane, lane.removeBeyond(most));
  }

  views(): LaneView[] {
    return [...this.lanes.values()].map(({ name, waiting, slots }) => ({ name, waiting, slots }));
  }

  view(name: string): LaneView {
    const { waiting, slots } = this.lanes.get(name) ?? { waiting: 0, slots: 0 };
    return { name, waiting, slots };
  }

  /** Counts the workers of all lanes. */
  workers(): number {
    return this.total;
  }

  /** Counts the lanes that have jobs and no slot, because the slots of all lanes together are taken. */
  starving(): number {
    return this.starved.size;
  }

  /** Takes no more work and resolves when all workers have ended. */
  stop(): Promise<void> {
    this.isStopping = true;
    if (this.total === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.stopped = resolve;
    });
  }

  private readonly mayTake = (lane: LaneQueue<Job>): boolean => {
    if (this.isStopping || lane.slots > this.options.slots(lane.name)) return false;
    if (this.starved.size === 0) lane.takenWhileOthersStarve = 0;
    else if (lane.slots > 1 || ++lane.takenWhileOthersStarve > JOBS_WHILE_OTHERS_STARVE) return false;
    return true;
  };

  private afterRemoval(lane: LaneQueue<Job>, removed: Job[]): Job[] {
    if (lane.waiting === 0) this.starved.delete(lane);
    this.forgetIfIdle(lane);
    return removed;
  }

  private forgetIfIdle(lane: LaneQueue<Job>): void {
    if (!lane.isIdle) return;
    this.lanes.delete(lane.name);
    this.options.empty?.(lane.name);
  }

  private startWorkers(lane: LaneQueue<Job>): void {
    while (!this.isStopping && lane.waiting > 0 && lane.slots < this.options.slots(lane.name)) {
      // A worker for which take() would return null at once must not be started.
      if (this.starved.size > 0 && lane.slots > 0) return;
      if (this.total >= this.options.maxSlots()) {
        if (lane.slots === 0) this.starved.add(lane);
        return;
      }
      this.startWorker(lane);
    }
    this.starved.delete(lane);
  }

  private startWorker(lane: LaneQueue<Job>): void {
    this.starved.delete(lane);
    if (lane.slots === 0) lane.takenWhileOthersStarve = 0;
    lane.slots++;
    this.total++;
    void this.options.work(lane).then(
      () => this.workerEnded(lane),
      (error: unknown) => {
        this.options.failed(lane.name, error);
        this.workerEnded(lane);
      },
    );
  }

  private workerEnded(lane: LaneQueue<Job>): void {
    lane.slots--;
    this.total--;
    if (lane.slots === 0) lane.giveBackPrefetched();
    for (const starved of this.starved) {
      if (this.total >= this.options.maxSlots()) break;
      this.startWorkers(starved);
    }
    this.startWorkers(lane);
    this.forgetIfIdle(lane);
    if (this.total === 0) this.stopped?.();
  }
}
