/**
 * Due work in lanes. A lane is work under one set of limits; a slow lane never holds up another, because lanes share nothing
 * but the total number of slots. A lane that has no slot is served first: while one starves, no other lane starts a worker,
 * workers beyond a lane's first end, and a first one ends after a few jobs. Of the lanes that starve those of each class and share take turns,
 * and no class and share has all slots: one with thousands of lanes that hang does not keep the lane of another from its first worker.
 *
 * The owner offers jobs to lanes by name. While a lane has jobs and free slots, `work` is started once for each slot; it takes jobs
 * until the lane gives none (lane-queue.ts says which). Time, limits and work are handed in.
 */
import { LaneQueue, type Lane, type LaneJob } from './lane-queue.ts';
import { WaitingLine } from './waiting-line.ts';

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
/** The part of all slots that one class and share leaves to others. */
const RESERVE = 0.05;

export class Lanes<Job extends LaneJob> {
  private readonly options: LanesOptions<Job>;
  private readonly lanes = new Map<string, LaneQueue<Job>>();
  /** Lanes that have jobs and no slot because the total is reached. The classes and shares of their next jobs take turns. */
  private readonly starved = new WaitingLine<LaneQueue<Job>>();
  /** Workers by the class and share that they were started for. */
  private readonly startedFor = new Map<string, number>();
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
    return this.starved.all;
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
    if (this.starved.all === 0) lane.takenWhileOthersStarve = 0;
    else if (lane.slots > 1 || ++lane.takenWhileOthersStarve > JOBS_WHILE_OTHERS_STARVE) return false;
    return true;
  };

  private afterRemoval(lane: LaneQueue<Job>, removed: Job[]): Job[] {
    if (lane.waiting === 0) this.leaveStarved(lane);
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
      if (this.starved.all > 0 && lane.slots > 0) return;
      const { turn } = lane;
      if (turn === null) break;
      if (!this.mayStart(turn)) {
        if (lane.slots === 0) this.starveIn(turn, lane);
        return;
      }
      this.startWorker(lane, turn);
    }
    this.leaveStarved(lane);
  }

  private mayStart(turn: string): boolean {
    const most = this.options.maxSlots();
    return this.total < most && (this.startedFor.get(turn) ?? 0) < most - Math.floor(most * RESERVE);
  }

  private starveIn(turn: string, lane: LaneQueue<Job>): void {
    if (lane.starvesIn === turn) return;
    this.leaveStarved(lane);
    lane.starvesIn = turn;
    this.starved.add(turn, lane);
  }

  private leaveStarved(lane: LaneQueue<Job>): void {
    if (lane.starvesIn !== null) this.starved.delete(lane.starvesIn, lane);
    lane.starvesIn = null;
  }

  private startWorker(lane: LaneQueue<Job>, turn: string): void {
    this.leaveStarved(lane);
    if (lane.slots === 0) lane.takenWhileOthersStarve = 0;
    lane.slots++;
    this.total++;
    this.countFor(turn, 1);
    void this.options.work(lane).then(
      () => this.workerEnded(lane, turn),
      (error: unknown) => {
        this.options.failed(lane.name, error);
        this.workerEnded(lane, turn);
      },
    );
  }

  private countFor(turn: string, by: 1 | -1): void {
    const count = (this.startedFor.get(turn) ?? 0) + by;
    if (count > 0) this.startedFor.set(turn, count);
    else this.startedFor.delete(turn);
  }

  private workerEnded(lane: LaneQueue<Job>, turn: string): void {
    lane.slots--;
    this.total--;
    this.countFor(turn, -1);
    if (lane.slots === 0) lane.giveBackPrefetched();
    for (let next = this.nextStarved(); next !== null; next = this.nextStarved()) this.startWorkers(next);
    this.startWorkers(lane);
    this.forgetIfIdle(lane);
    if (this.total === 0) this.stopped?.();
  }

  private nextStarved(): LaneQueue<Job> | null {
    const next = this.starved.next((turn) => this.mayStart(turn));
    if (next === undefined) return null;
    next.item.starvesIn = null;
    return next.item;
  }
}
