/**
 * The jobs of one lane that wait, and their order: class 0 goes before class 1, which keeps every fifth turn; inside a class the shares take turns.
 * A class and share that may not have one more worker (`mayHave`, places.ts) is passed over.
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

/** Returns whether a class and share may have the worker that asks. */
export type MayHave = (turn: string) => boolean;
type Shares<Job> = Map<string, Job[]>;
const classOfJob = ({ class: order }: LaneJob): PlaceClass => (order === 0 ? 0 : 1);

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
  /** The jobs of each class by share. Made if they are needed: most of thousands of lanes have one class. */
  private readonly shares: [Shares<Job> | null, Shares<Job> | null] = [null, null];

  constructor(name: string, { takesSlot }: { takesSlot: boolean }) {
    this.name = name;
    this.takesSlot = takesSlot;
  }

  /** Adds a job at the end of its share, or at the front if it was taken before. */
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
          if (job === undefined || !mayHave(turnOf(job))) continue;
          if (!isBegun(job)) return job;
          if (--left === 0) return null;
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

  /** The same of both classes. */
  turns(): string[] {
    return [...this.turnsOf(0), ...this.turnsOf(1)];
  }

  /** Returns whether the class and share of a waiting job are in `turns`, if the share is the last of its class. */
  isLookedAt(job: LaneJob): boolean {
    return (this.shares[classOfJob(job)]?.size ?? 0) <= MOST_LOOKED_AT;
  }

  /** Returns whether a job of the same class and share waits. */
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
      shares.delete(share);
      const job = jobs.shift();
      if (jobs.length > 0) shares.set(share, jobs);
      if (job === undefined) continue;
      this.waiting--;
      return job;
    }
    return null;
  }
}

const CLASSES: readonly PlaceClass[] = [0, 1];
const SECOND_FIRST: readonly PlaceClass[] = [1, 0];
