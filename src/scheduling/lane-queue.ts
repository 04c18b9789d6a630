/**
 * The jobs of one lane and their order. A job is in one of three states:
 *
 *   waiting ─── take ─────▶ in hand      a worker works on it
 *      │                      ▲
 *      └─ prefetch ─▶ prefetched ─┤ own    the worker that prefetched it has ended its job and goes on with this one
 *                         │       └ take   a worker that is free takes it over
 *                         └─▶ waiting      put back: a job of class 0 goes first, the lane's limit fell, or its workers are gone
 *
 * Class 0 goes before class 1, which keeps every fifth turn; inside a class the shares take turns. A class and share that may not have one
 * more worker (`mayHave`, places.ts) is passed over.
 */
import { turnOf, type PlaceClass } from './places.ts';

export interface LaneJob {
  readonly id: string;
  /** 0 goes before 1. */
  readonly class: number;
  /** Jobs of one share do not push back those of another. */
  readonly share: string;
}

/**
 * How many shares of a class are looked at to find one that may have a place. A share's bound is nearly all places, so if this many
 * may have none, no share of the class may. A lane of thousands of accounts thus costs no more than one of twenty.
 */
const MOST_LOOKED_AT = 20;
/** Every fifth turn class 1 goes first. */
const TURNS_A_RESERVE = 5;

const isFirstClass = (job: LaneJob): boolean => job.class === 0;
const isAny = (): boolean => true;

/** Returns whether a class and share may have the worker that asks. */
export type MayHave = (turn: string) => boolean;
type Shares<Job> = Map<string, Job[]>;
const newShares = <Job>(): Shares<Job> => new Map<string, Job[]>();

export class LaneQueue<Job extends LaneJob> {
  readonly name: string;
  /** Each of its workers takes one of the slots that all lanes share. */
  readonly takesSlot: boolean;
  /** Workers running. */
  slots = 0;
  /** Jobs that wait. */
  waiting = 0;
  /** Jobs that the lane's only worker has taken while other lanes had no slot. */
  takenWhileOthersStarve = 0;
  /** It waits for a slot, in the line of each class and share of its jobs. */
  isStarving = false;
  private round = 0;
  /** The waiting jobs of class 0 and of class 1, by share. Made if they are needed: most of thousands of lanes have one class. */
  private first: Shares<Job> | null = null;
  private second: Shares<Job> | null = null;
  /** Prefetched jobs; true if class 1 had that turn by right. Made if it is needed. */
  private prefetched: Map<Job, boolean> | null = null;
  private isReserveTurn = false;

  constructor(name: string, { takesSlot }: { takesSlot: boolean }) {
    this.name = name;
    this.takesSlot = takesSlot;
  }

  add(job: Job, isFront = false): void {
    const shares = isFirstClass(job) ? (this.first ??= newShares<Job>()) : (this.second ??= newShares<Job>());
    const jobs = shares.get(job.share);
    if (jobs === undefined) shares.set(job.share, [job]);
    else if (isFront) jobs.unshift(job);
    else jobs.push(job);
    this.waiting++;
  }

  /** Takes the next job, or that of the class and share `first` if one waits. Returns null if none may be taken. */
  take(mayHave: MayHave, first: string | null): Job | null {
    return this.takeNext(mayHave, { maySteal: true, first }) ?? this.steal(mayHave, isAny);
  }

  /** Takes the job after the one in hand. Until `own` returns true, an idle worker of the lane may take it over. */
  prefetch(mayHave: MayHave): Job | null {
    const job = this.takeNext(mayHave, { maySteal: false, first: null });
    if (job !== null) (this.prefetched ??= new Map<Job, boolean>()).set(job, this.isReserveTurn);
    return job;
  }

  /** Returns whether no other worker has taken the job over. */
  isPrefetched(job: Job): boolean {
    return this.prefetched?.has(job) === true;
  }

  /** Returns whether another job goes before a prefetched one. It may be one that a busy worker has prefetched. */
  isOvertaken(job: Job, mayHave: MayHave): boolean {
    return job.class !== 0 && this.prefetched?.get(job) !== true && this.hasFirstClass(mayHave);
  }

  /** Makes a prefetched job that of the worker that asks. */
  own(job: Job): void {
    this.prefetched?.delete(job);
  }

  /** Puts a job back to the front of its share. */
  giveBack(job: Job): void {
    this.prefetched?.delete(job);
    this.add(job, true);
  }

  /** Puts back what workers that have ended had prefetched. */
  giveBackPrefetched(): void {
    for (const job of this.prefetched?.keys() ?? []) this.giveBack(job);
  }

  /** Removes and returns the waiting jobs that are `unwanted`, which is told each one's place in its share. Prefetched ones stay. */
  removeWaiting(unwanted: (job: Job, at: number) => boolean): Job[] {
    const removed: Job[] = [];
    for (const shares of [this.first, this.second].filter((one) => one !== null))
      for (const [share, jobs] of shares) {
        removed.push(...jobs.filter(unwanted));
        const kept = jobs.filter((job, at) => !unwanted(job, at));
        if (kept.length > 0) shares.set(share, kept);
        else shares.delete(share);
      }
    this.waiting -= removed.length;
    return removed;
  }

  /** Removes and returns waiting jobs that are `unwanted`, at the ends of the shares, so that about `most` are left. Prefetched ones stay. */
  removeBeyond(most: number, unwanted: (job: Job) => boolean): Job[] {
    if (this.waiting <= most) return [];
    const each = Math.ceil(most / ((this.first?.size ?? 0) + (this.second?.size ?? 0)));
    return this.removeWaiting((job, at) => at >= each && unwanted(job));
  }

  /** The shares of a class whose jobs go next, at most twenty, those that go first before others. */
  *turnsOf(order: PlaceClass): Generator<string, undefined> {
    let left = MOST_LOOKED_AT;
    for (const share of this.sharesOf(order)?.keys() ?? []) {
      if (left-- === 0) return;
      yield turnOf({ class: order, share });
    }
  }

  /** The same of both classes. */
  turns(): string[] {
    return [...this.turnsOf(0), ...this.turnsOf(1)];
  }

  /** Returns whether the class and share of a waiting job are in `turns`, if the share is the last of its class. */
  isLookedAt({ class: order }: LaneJob): boolean {
    return (this.sharesOf(order === 0 ? 0 : 1)?.size ?? 0) <= MOST_LOOKED_AT;
  }

  /** Returns whether a job of the same class and share waits. */
  hasLike({ class: order, share }: LaneJob): boolean {
    return this.sharesOf(order === 0 ? 0 : 1)?.has(share) === true;
  }

  get isIdle(): boolean {
    return this.slots === 0 && this.waiting === 0 && (this.prefetched?.size ?? 0) === 0;
  }

  private sharesOf(order: PlaceClass): Shares<Job> | null {
    return order === 0 ? this.first : this.second;
  }

  /** True while a job of class 0 waits that may be taken, or a busy worker has prefetched one. */
  private hasFirstClass(mayHave: MayHave): boolean {
    for (const turn of this.turnsOf(0)) if (mayHave(turn)) return true;
    for (const job of this.prefetched?.keys() ?? []) if (isFirstClass(job) && mayHave(turnOf(job))) return true;
    return false;
  }

  /** `maySteal`: a job of class 0 that another worker has prefetched goes before one of class 1. */
  private takeNext(
    mayHave: MayHave,
    { maySteal, first: wanted }: { maySteal: boolean; first: string | null },
  ): Job | null {
    this.round = (this.round + 1) % TURNS_A_RESERVE;
    this.isReserveTurn = false;
    const isWanted = (turn: string): boolean => turn === wanted;
    const asked = wanted === null ? null : (this.takeFrom(0, isWanted) ?? this.takeFrom(1, isWanted));
    if (asked !== null) return asked;
    if (this.round === 0) {
      const reserved = this.takeFrom(1, mayHave);
      this.isReserveTurn = reserved !== null;
      if (reserved !== null) return reserved;
    }
    const job = this.takeFrom(0, mayHave) ?? (maySteal ? this.steal(mayHave, isFirstClass) : null);
    return job ?? this.takeFrom(1, mayHave);
  }

  /** Takes the first job of the share whose turn it is; that share then goes to the end. */
  private takeFrom(order: PlaceClass, mayHave: MayHave): Job | null {
    const shares = this.sharesOf(order);
    if (shares === null) return null;
    let left = MOST_LOOKED_AT;
    for (const [share, jobs] of shares) {
      if (left-- === 0) return null;
      if (!mayHave(turnOf({ class: order, share }))) continue;
      shares.delete(share);
      const job = jobs.shift();
      if (jobs.length > 0) shares.set(share, jobs);
      if (job === undefined) continue;
      this.waiting--;
      return job;
    }
    return null;
  }

  /** Takes over a job that a busy worker has prefetched. */
  private steal(mayHave: MayHave, isWanted: (job: Job) => boolean): Job | null {
    const { prefetched } = this;
    if (prefetched === null) return null;
    for (const job of prefetched.keys()) {
      if (!isWanted(job) || !mayHave(turnOf(job))) continue;
      prefetched.delete(job);
      return job;
    }
    return null;
  }
}
