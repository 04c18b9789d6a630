/**
 * Due work in lanes. A lane is work under one set of limits; a slow lane never holds up another, because lanes share nothing
 * but the total number of slots. A lane that has no slot is served first: while one starves that could use their slots, no other lane
 * starts a worker, workers beyond a lane's first end, and a first one ends after a few jobs. Of the lanes that starve those of each class
 * and share take turns, and no class and share has all slots (places.ts): one with thousands of lanes that hang does not keep the lane of
 * another from its first worker. Lanes that take no slot have as many workers as their own limit allows.
 *
 * The owner offers jobs to lanes by name. While a lane has jobs and free slots, `work` is started once for each slot; it takes jobs
 * until it is given none (lane-queue.ts says which). Time, limits and work are handed in.
 */
import { LaneQueue, type LaneJob } from './lane-queue.ts';
import { Places, turnOf } from './places.ts';

export type { LaneJob } from './lane-queue.ts';

export interface LaneView {
  name: string;
  /** Jobs in memory that no worker has in hand. */
  waiting: number;
  /** Workers running. */
  slots: number;
}

/** Why a lane with jobs has no further worker: all slots are taken, or all that the classes and shares of its jobs may have. */
export type NoSlot = 'all taken' | 'share at its bound';

/** A worker as its work sees it. */
export interface Lane<Job extends LaneJob> {
  readonly name: string;
  /** Takes the next job. Returns null if the worker should end: no job may be taken, another lane needs the slot more, or a stop. */
  take(): Job | null;
  /** Returns the first of the jobs that go next which is not `isBegun`, to be made ready; any worker of the lane may take it. */
  ahead(isBegun: (job: Job) => boolean): Job | null;
  /** Puts a job back to the front of its share. */
  giveBack(job: Job): void;
}

/** A worker. It has a place in the name of the class and share of the job that it has in hand. */
interface Worker<Job extends LaneJob> {
  readonly lane: LaneQueue<Job>;
  turn: string;
  /** The class and share whose turn it was among the lanes that had no worker; null once it has taken a job. */
  first: string | null;
}

export interface LanesOptions<Job extends LaneJob> {
  /** Works through a lane until `take` returns null. Should not throw: the job in its hand is then its owner's to find again. */
  work(lane: Lane<Job>): Promise<void>;
  /** Returns how many workers the lane may have now; 0 parks it until `pump`. */
  slots(name: string): number;
  /** Returns how many workers all lanes that take a slot may have together. */
  maxSlots(): number;
  /** Returns whether the workers of a lane take one of the slots each. Those of other lanes never wait for one. Default: all take one. */
  takesSlot?(name: string): boolean;
  /** No class and share may have all slots. False if the shares of jobs are not accounts. */
  hasReserve: boolean;
  /** Reports that a worker ended with an exception. */
  failed(name: string, error: unknown): void;
  /** Reports that the lane has no jobs and no workers left. */
  empty?(name: string): void;
  /** Reports that one more lane has jobs and no slot. */
  starves?(): void;
}

/** Lanes that get another worker when one has ended, and lanes that are looked at for that: some may not have the place that is free. */
const MOST_GROWN = 5;
const MOST_LOOKED_AT = 20;
/** Jobs that a lane's only worker still does while other lanes have none: enough to be worth a warm connection. */
const JOBS_WHILE_OTHERS_STARVE = 10;

export class Lanes<Job extends LaneJob> {
  private readonly options: LanesOptions<Job>;
  private readonly lanes = new Map<string, LaneQueue<Job>>();
  private countStarving = 0;
  /** Lanes that have a worker and could not start another. They are looked at in turns when a slot is free and no lane starves for it. */
  private readonly growing = new Set<LaneQueue<Job>>();
  /** The slots, and the lanes that have jobs and no slot, since none is free for them. The classes and shares of their jobs take turns. */
  private readonly places: Places<LaneQueue<Job>>;
  private countWorkers = 0;
  private isStopping = false;
  private stopped: (() => void) | null = null;

  constructor(options: LanesOptions<Job>) {
    this.options = options;
    this.places = new Places(() => options.maxSlots(), options);
  }

  offer(name: string, job: Job): void {
    let lane = this.lanes.get(name);
    if (lane === undefined) {
      lane = new LaneQueue(name, { takesSlot: this.options.takesSlot?.(name) ?? true });
      this.lanes.set(name, lane);
    }
    lane.add(job);
    // A new share goes behind the others of its class.
    if (lane.isStarving && lane.isLookedAt(job)) this.places.wait(turnOf(job), lane);
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

  /** Removes and returns the `unwanted` jobs that wait in this lane beyond the first `most`; each share keeps some. */
  withdraw(name: string, most: number, unwanted: (job: Job) => boolean): Job[] {
    const lane = this.lanes.get(name);
    return lane === undefined ? [] : this.afterRemoval(lane, lane.removeBeyond(most, unwanted));
  }

  views(): LaneView[] {
    return [...this.lanes.values()].map(({ name, waiting, slots }) => ({ name, waiting, slots }));
  }

  view(name: string): LaneView {
    const { waiting, slots } = this.lanes.get(name) ?? { waiting: 0, slots: 0 };
    return { name, waiting, slots };
  }

  /** Returns why the lane has not as many workers as its limit and its jobs allow, if it waits for a slot; else null. */
  whyNoSlot(name: string): NoSlot | null {
    const lane = this.lanes.get(name);
    if (lane === undefined || !(lane.isStarving || this.growing.has(lane))) return null;
    if (lane.waiting === 0 || lane.slots >= this.options.slots(name)) return null;
    if (this.places.isFull) return 'all taken';
    return this.nextTurn(lane) === null ? 'share at its bound' : null;
  }

  /** Counts the workers that have taken a slot. */
  workers(): number {
    return this.places.taken;
  }

  /** Counts the lanes that have jobs and no slot, because all slots are taken, or all that the classes and shares of their jobs may have. */
  starving(): number {
    return this.countStarving;
  }

  /** Takes no more work and resolves when all workers have ended. */
  stop(): Promise<void> {
    this.isStopping = true;
    if (this.countWorkers === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.stopped = resolve;
    });
  }

  private take(worker: Worker<Job>): Job | null {
    const { lane, turn: own, first } = worker;
    if (!this.mayGoOn(worker)) return null;
    const job = lane.take((turn) => this.mayHave(worker, turn), first);
    worker.first = null;
    if (job === null) return null;
    worker.turn = turnOf(job);
    if (worker.turn !== own && lane.takesSlot) {
      this.places.giveBack(own);
      this.places.take(worker.turn);
      // The class and share that had the place may have another now.
      this.startStarved();
    }
    return job;
  }

  private mayGoOn({ lane, turn }: Worker<Job>): boolean {
    if (this.isStopping || lane.slots > this.options.slots(lane.name)) return false;
    if (!lane.takesSlot || !this.places.someWaits(turn)) lane.takenWhileOthersStarve = 0;
    else if (lane.slots > 1 || ++lane.takenWhileOthersStarve > JOBS_WHILE_OTHERS_STARVE) return false;
    return true;
  }

  /** Returns whether this class and share may have the worker's place. */
  private mayHave({ lane, turn: own }: Worker<Job>, turn: string): boolean {
    return turn === own || !lane.takesSlot || this.places.mayHave(turn, own);
  }

  private afterRemoval(lane: LaneQueue<Job>, removed: Job[]): Job[] {
    if (lane.isStarving) {
      for (const job of removed) if (!lane.hasLike(job)) this.places.leave(turnOf(job), lane);
      this.standInLines(lane);
      if (lane.waiting === 0) this.leaveStarved(lane);
    }
    this.forgetIfIdle(lane);
    return removed;
  }

  private forgetIfIdle(lane: LaneQueue<Job>): void {
    if (!lane.isIdle) return;
    this.growing.delete(lane);
    this.lanes.delete(lane.name);
    this.options.empty?.(lane.name);
  }

  /** `first`: the class and share whose turn it is among the lanes that starve. */
  private startWorkers(lane: LaneQueue<Job>, first: string | null = null): void {
    let asked = first;
    while (!this.isStopping && lane.waiting > 0 && lane.slots < this.options.slots(lane.name)) {
      // A worker for which take() would return null at once must not be started.
      const isLater = lane.takesSlot && lane.slots > 0 && this.places.someWaits();
      const turn = isLater ? null : (asked ?? this.nextTurn(lane));
      if (turn === null) {
        if (lane.slots === 0) this.starve(lane);
        else this.growing.add(lane);
        return;
      }
      this.startWorker(lane, turn, asked);
      asked = null;
    }
    this.leaveStarved(lane);
  }

  private nextTurn(lane: LaneQueue<Job>): string | null {
    if (!lane.takesSlot) return lane.turns()[0] ?? null;
    for (const order of [0, 1] as const) {
      if (!this.places.mayClassHave(order)) continue;
      for (const turn of lane.turnsOf(order)) if (this.places.mayHave(turn)) return turn;
    }
    return null;
  }

  private starve(lane: LaneQueue<Job>): void {
    if (lane.isStarving) return;
    lane.isStarving = true;
    this.countStarving++;
    this.standInLines(lane);
    this.options.starves?.();
  }

  private standInLines(lane: LaneQueue<Job>): void {
    for (const turn of lane.turns()) this.places.wait(turn, lane);
  }

  private leaveStarved(lane: LaneQueue<Job>): void {
    if (!lane.isStarving) return;
    lane.isStarving = false;
    this.countStarving--;
    for (const turn of lane.turns()) this.places.leave(turn, lane);
  }

  private startWorker(lane: LaneQueue<Job>, turn: string, first: string | null): void {
    this.leaveStarved(lane);
    if (lane.slots === 0) lane.takenWhileOthersStarve = 0;
    lane.slots++;
    this.countWorkers++;
    if (lane.takesSlot) this.places.take(turn);
    const worker: Worker<Job> = { lane, turn, first };
    const work = this.options.work({
      name: lane.name,
      take: () => this.take(worker),
      ahead: (isBegun) => lane.ahead((one) => this.mayHave(worker, one), isBegun),
      giveBack: (job) => lane.add(job, true),
    });
    void work.then(
      () => this.workerEnded(worker),
      (error: unknown) => {
        this.options.failed(lane.name, error);
        this.workerEnded(worker);
      },
    );
  }

  private workerEnded({ lane, turn }: Worker<Job>): void {
    lane.slots--;
    this.countWorkers--;
    if (lane.takesSlot) this.places.giveBack(turn);
    this.startStarved();
    this.startWorkers(lane);
    this.forgetIfIdle(lane);
    if (this.countWorkers === 0) this.stopped?.();
  }

  private startStarved(): void {
    for (let next = this.places.next(); next !== undefined; next = this.places.next())
      this.startWorkers(next.item, next.turn);
    let left = MOST_GROWN;
    let looks = Math.min(this.growing.size, MOST_LOOKED_AT);
    for (const lane of this.growing) {
      if (left === 0 || looks-- === 0 || !this.places.mayClassHave(0)) return;
      this.growing.delete(lane);
      const { slots } = lane;
      this.startWorkers(lane);
      if (lane.slots > slots) left--;
    }
  }
}
