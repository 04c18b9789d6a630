/**
 * The jobs of one lane and their order. A job is in one of three states:
 *
 *   waiting ─── take ─────▶ in hand      a worker works on it
 *      │                      ▲
 *      └─ prefetch ─▶ prefetched ─┤ own    the worker that prefetched it has ended its job and goes on with this one
 *                         │       └ take   a worker that is free takes it over
 *                         └─▶ waiting      put back: a job of class 0 goes first, the lane's limit fell, or its workers are gone
 *
 * Class 0 goes before class 1, which keeps every fifth turn; inside a class the shares take turns.
 */

export interface LaneJob {
  readonly id: string;
  /** 0 goes before 1. */
  readonly class: number;
  /** Jobs of one share do not push back those of another. */
  readonly share: string;
}

/** A lane as its workers see it. */
export type Lane<Job extends LaneJob> = Pick<LaneQueue<Job>, 'name' | 'take' | 'prefetch' | 'own' | 'giveBack'>;

/** Every fifth turn class 1 goes first. */
const TURNS_A_RESERVE = 5;

const isFirstClass = (job: LaneJob): boolean => job.class === 0;
const isAny = (): boolean => true;

type Shares<Job> = Map<string, Job[]>;
const newShares = <Job>(): Shares<Job> => new Map<string, Job[]>();

export class LaneQueue<Job extends LaneJob> {
  readonly name: string;
  /** Workers running. */
  slots = 0;
  /** Jobs that wait. */
  waiting = 0;
  /** Jobs that the lane's only worker has taken while other lanes had no slot. */
  takenWhileOthersStarve = 0;
  /** The line in which it waits for a slot, or null. */
  starvesIn: string | null = null;
  private round = 0;
  /** The waiting jobs of class 0 and of class 1, by share. Made where they are needed: most of thousands of lanes have one class. */
  private first: Shares<Job> | null = null;
  private second: Shares<Job> | null = null;
  /** Prefetched jobs; true where class 1 had that turn by right. Made where it is needed. */
  private prefetched: Map<Job, boolean> | null = null;
  private isReserveTurn = false;
  private readonly mayTake: (lane: LaneQueue<Job>) => boolean;

  constructor(name: string, mayTake: (lane: LaneQueue<Job>) => boolean) {
    this.name = name;
    this.mayTake = mayTake;
  }

  add(job: Job, isFront = false): void {
    const shares = isFirstClass(job) ? (this.first ??= newShares<Job>()) : (this.second ??= newShares<Job>());
    const jobs = shares.get(job.share);
    if (jobs === undefined) shares.set(job.share, [job]);
    else if (isFront) jobs.unshift(job);
    else jobs.push(job);
    this.waiting++;
  }

  /** Takes the next job. Returns null where the worker should end: no job waits, another lane needs the slot more, or a stop. */
  take(): Job | null {
    if (!this.mayTake(this)) return null;
    return this.takeNext(true) ?? this.steal(isAny);
  }

  /** Takes the job after the one in hand. Until `own` returns true, an idle worker of the lane may take it over. */
  prefetch(): Job | null {
    if (!this.mayTake(this)) return null;
    const job = this.takeNext(false);
    if (job !== null) (this.prefetched ??= new Map<Job, boolean>()).set(job, this.isReserveTurn);
    return job;
  }

  /**
   * Makes a prefetched job the worker's own. Returns false where another worker has taken it over, where take() would return null,
   * and where another job goes first, which may be one that a busy worker has prefetched. In the last two cases it waits again.
   */
  own(job: Job): boolean {
    const { prefetched } = this;
    const byRight = prefetched?.get(job);
    if (prefetched === null || byRight === undefined) return false;
    const isOvertaken = job.class !== 0 && !byRight && this.hasFirstClass;
    if (!isOvertaken && this.mayTake(this)) return prefetched.delete(job);
    this.giveBack(job);
    return false;
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

  /** Removes and returns the waiting jobs at the ends of the shares, so that about `most` are left. Prefetched ones stay. */
  removeBeyond(most: number): Job[] {
    if (this.waiting <= most) return [];
    const each = Math.ceil(most / ((this.first?.size ?? 0) + (this.second?.size ?? 0)));
    return this.removeWaiting((_, at) => at >= each);
  }

  /** The class and share of the job that goes next; null where none waits. */
  get turn(): string | null {
    const [first] = this.first?.keys() ?? [];
    if (first !== undefined) return `0 ${first}`;
    const [second] = this.second?.keys() ?? [];
    return second === undefined ? null : `1 ${second}`;
  }

  get isIdle(): boolean {
    return this.slots === 0 && this.waiting === 0 && (this.prefetched?.size ?? 0) === 0;
  }

  /** True while a job of class 0 waits, or a busy worker has prefetched one. */
  private get hasFirstClass(): boolean {
    if (this.first !== null && this.first.size > 0) return true;
    for (const job of this.prefetched?.keys() ?? []) if (isFirstClass(job)) return true;
    return false;
  }

  /** `maySteal`: a job of class 0 that another worker has prefetched goes before one of class 1. */
  private takeNext(maySteal: boolean): Job | null {
    this.round = (this.round + 1) % TURNS_A_RESERVE;
    const { first, second } = this;
    this.isReserveTurn = this.round === 0 && second !== null && second.size > 0;
    if (this.isReserveTurn) return this.takeFrom(second);
    const job = this.takeFrom(first) ?? (maySteal ? this.steal(isFirstClass) : null);
    return job ?? this.takeFrom(second);
  }

  /** Takes the first job of the share whose turn it is; that share then goes to the end. */
  private takeFrom(shares: Shares<Job> | null): Job | null {
    if (shares === null) return null;
    for (const [share, jobs] of shares) {
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
  private steal(isWanted: (job: Job) => boolean): Job | null {
    const { prefetched } = this;
    if (prefetched === null) return null;
    for (const job of prefetched.keys()) {
      if (!isWanted(job)) continue;
      prefetched.delete(job);
      return job;
    }
    return null;
  }
}
