/**
 * Due work in lanes. A lane is work under one set of limits; a slow lane never holds up another, because lanes share nothing
 * but the total number of slots. A lane that has no slot is served first: while one starves that could use their slots, no other lane
 * starts a worker, workers beyond a lane's first end, and a first one ends after a few jobs. Of the lanes that starve those of each class
 * and share take turns, and no class and share has all slots (places.ts): one with thousands of lanes that hang does not keep the lane of
 * another from its first worker. Lanes that take no slot have as many workers as their own limit allows.
 *
 * The owner offers jobs to lanes by name. While a lane has jobs and free slots, `work` is started once for each slot; it takes jobs
 * until it is given none (`LaneQueue` says which). Time, limits and work are handed in.
 */
import { CLASSES, Places, SECOND_FIRST, turnOf, type PlaceClass } from './places.ts';

export interface LaneJob {
  readonly id: string;
  /** 0 goes before 1. */
  readonly class: number;
  /** Jobs of one share do not push back those of another. */
  readonly share: string;
}

export interface LaneView {
  name: string;
  /** Jobs in memory that no worker has in hand. */
  waiting: number;
  slots: number;
}

export interface Lane<Job extends LaneJob> {
  readonly name: string;
  /** Takes the next job. Returns null if the worker should end: no job may be taken, another lane needs the slot more, or a stop. */
  take(): Job | null;
  /** Returns the first of the jobs that go next which is not `isBegun`, to be made ready; any worker of the lane may take it. */
  ahead(isBegun: (job: Job) => boolean): Job | null;
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

/** Lanes that are looked at when a worker has ended: some may not have the place that is free. */
const MOST_GROWING_LOOKED_AT = 20;
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

  /** Returns whether the lane waits for a slot: all are taken, or all that the classes and shares of its jobs may have. */
  waitsForSlot(name: string): boolean {
    const lane = this.lanes.get(name);
    if (lane?.takesSlot !== true || lane.waiting === 0 || lane.slots >= this.options.slots(name)) return false;
    return this.places.isFull || this.nextTurn(lane) === null;
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
    let looks = Math.min(this.growing.size, MOST_GROWING_LOOKED_AT);
    for (const lane of this.growing) {
      if (looks-- === 0 || !this.places.mayClassHave(0)) return;
      this.growing.delete(lane);
      this.startWorkers(lane);
    }
  }
}

/**
 * How many shares of a class are looked at to find one that may have a place. A share's bound is nearly all places, so if this many
 * may have none, no share of the class may. A lane of thousands of accounts thus costs no more than one of twenty.
 */
const MOST_LOOKED_AT = 20;
/** Every fifth turn class 1 goes first. */
const TURNS_A_RESERVE = 5;

/** Returns whether a class and share may have the worker that asks. */
type MayHave = (turn: string) => boolean;
type Shares<Job> = Map<string, Job[]>;
const classOfJob = ({ class: order }: LaneJob): PlaceClass => (order === 0 ? 0 : 1);

/**
 * The jobs of one lane that wait, and their order: class 0 goes before class 1, which keeps every fifth turn; inside a class the shares take turns.
 * A class and share that may not have one more worker (`mayHave`) is passed over.
 */
class LaneQueue<Job extends LaneJob> {
  readonly name: string;
  /** Each of its workers takes one of the slots that all lanes share. */
  readonly takesSlot: boolean;
  slots = 0;
  waiting = 0;
  /** Jobs that the lane's only worker has taken while other lanes had no slot. */
  takenWhileOthersStarve = 0;
  /** It waits for a slot, in the line of each class and share of its jobs. */
  isStarving = false;
  private round = 0;
  /** The jobs of each class by share. Made if they are needed: most of thousands of lanes have one class. */
  private readonly shares: [Shares<Job> | null, Shares<Job> | null] = [null, null];

  constructor(name: string, { takesSlot }: { takesSlot: boolean }) {
    this.name = name;
    this.takesSlot = takesSlot;
  }

  add(job: Job, isFront = false): void {
    const shares = (this.shares[classOfJob(job)] ??= new Map<string, Job[]>());
    const jobs = shares.get(job.share);
    if (jobs === undefined) shares.set(job.share, [job]);
    else if (isFront) jobs.unshift(job);
    else jobs.push(job);
    this.waiting++;
  }

  /** Takes the next job, or that of the class and share `first` if one waits. Returns null if none may be taken. */
  take(mayHave: MayHave, first: string | null): Job | null {
    const classes = this.nextClasses();
    this.round = (this.round + 1) % TURNS_A_RESERVE;
    const isFirst = (turn: string): boolean => turn === first;
    for (const isWanted of first === null ? [mayHave] : [isFirst, mayHave])
      for (const order of classes) {
        const job = this.takeFrom(order, isWanted);
        if (job !== null) return job;
      }
    return null;
  }

  /** Returns the first of the jobs that go next which is not `isBegun`; it stays where it is. */
  ahead(mayHave: MayHave, isBegun: (job: Job) => boolean): Job | null {
    const classes = this.nextClasses();
    // One for each worker is begun at the most.
    let left = this.slots;
    for (let depth = 0; depth < this.slots; depth++)
      for (const order of classes)
        for (const share of this.sharesOf(order)) {
          const job = this.shares[order]?.get(share)?.[depth];
          if (job === undefined) continue;
          if (!isBegun(job)) {
            if (mayHave(turnOf(job))) return job;
          } else if (--left === 0) return null;
        }
    return null;
  }

  /** Removes and returns the waiting jobs that are `unwanted`, which is told each one's place in its share. */
  removeWaiting(unwanted: (job: Job, at: number) => boolean): Job[] {
    const removed: Job[] = [];
    for (const shares of this.shares)
      for (const [share, jobs] of shares ?? []) {
        removed.push(...jobs.filter(unwanted));
        const kept = jobs.filter((job, at) => !unwanted(job, at));
        if (kept.length > 0) shares?.set(share, kept);
        else shares?.delete(share);
      }
    this.waiting -= removed.length;
    return removed;
  }

  /** Removes and returns waiting jobs that are `unwanted`, at the ends of the shares, so that about `most` are left. */
  removeBeyond(most: number, unwanted: (job: Job) => boolean): Job[] {
    if (this.waiting <= most) return [];
    const each = Math.ceil(most / ((this.shares[0]?.size ?? 0) + (this.shares[1]?.size ?? 0)));
    return this.removeWaiting((job, at) => at >= each && unwanted(job));
  }

  /** The shares of a class whose jobs go next, at most twenty, those that go first before others. */
  *turnsOf(order: PlaceClass): Generator<string, undefined> {
    for (const share of this.sharesOf(order)) yield turnOf({ class: order, share });
  }

  turns(): string[] {
    return [...this.turnsOf(0), ...this.turnsOf(1)];
  }

  /** Returns whether the class and share of a waiting job are in `turns`, if the share is the last of its class. */
  isLookedAt(job: LaneJob): boolean {
    return (this.shares[classOfJob(job)]?.size ?? 0) <= MOST_LOOKED_AT;
  }

  hasLike(job: LaneJob): boolean {
    return this.shares[classOfJob(job)]?.has(job.share) === true;
  }

  get isIdle(): boolean {
    return this.slots === 0 && this.waiting === 0;
  }

  private nextClasses(): readonly PlaceClass[] {
    return this.round === TURNS_A_RESERVE - 1 ? SECOND_FIRST : CLASSES;
  }

  private *sharesOf(order: PlaceClass): Generator<string, undefined> {
    let left = MOST_LOOKED_AT;
    for (const share of this.shares[order]?.keys() ?? []) {
      if (left-- === 0) return;
      yield share;
    }
  }

  /** Takes the first job of the share whose turn it is; that share then goes to the end. */
  private takeFrom(order: PlaceClass, mayHave: MayHave): Job | null {
    const shares = this.shares[order];
    if (shares === null) return null;
    for (const share of this.sharesOf(order)) {
      if (!mayHave(turnOf({ class: order, share }))) continue;
      const jobs = shares.get(share) ?? [];
      const job = jobs.shift();
      if (shares.size > 1 || jobs.length === 0) shares.delete(share);
      if (jobs.length > 0) shares.set(share, jobs);
      if (job === undefined) continue;
      this.waiting--;
      return job;
    }
    return null;
  }
}
