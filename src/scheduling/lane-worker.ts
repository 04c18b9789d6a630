/** A worker of a lane. It has a place in the name of the class and share of the job that it has in hand. */
import type { LaneJob, LaneQueue } from './lane-queue.ts';
import { turnOf } from './places.ts';

/** Rules of all lanes together for one worker. */
export interface WorkerRules<Job extends LaneJob> {
  /** Returns whether the worker may go on: no stop, no lower limit, and no other lane needs its slot more. */
  mayGoOn(worker: LaneWorker<Job>): boolean;
  /** Returns whether this class and share may have the worker's place. */
  mayHave(worker: LaneWorker<Job>, turn: string): boolean;
  /** Counts the worker's place for another class and share. */
  move(worker: LaneWorker<Job>, turn: string): void;
}

export class LaneWorker<Job extends LaneJob> {
  readonly queue: LaneQueue<Job>;
  /** The class and share for which its place is counted. */
  turn: string;
  private readonly rules: WorkerRules<Job>;
  /** The class and share whose turn it was among the lanes that had no worker. */
  private first: string | null;

  constructor(
    queue: LaneQueue<Job>,
    { turn, first, rules }: { turn: string; first: string | null; rules: WorkerRules<Job> },
  ) {
    this.queue = queue;
    this.turn = turn;
    this.first = first;
    this.rules = rules;
  }

  get name(): string {
    return this.queue.name;
  }

  /** Takes the next job. Returns null if the worker should end: no job may be taken, another lane needs the slot more, or a stop. */
  take(): Job | null {
    if (!this.rules.mayGoOn(this)) return null;
    const job = this.queue.take(this.mayHave, this.first);
    this.first = null;
    if (job !== null) this.rules.move(this, turnOf(job));
    return job;
  }

  /** Takes the job after the one in hand. Until `own` returns true, an idle worker of the lane may take it over. */
  prefetch(): Job | null {
    return this.rules.mayGoOn(this) ? this.queue.prefetch(this.mayHave) : null;
  }

  /**
   * Makes a prefetched job the worker's own. Returns false if another worker has taken it over, if take() would not give it,
   * and if another job goes first. In the last two cases it waits again.
   */
  own(job: Job): boolean {
    const { queue, rules } = this;
    if (!queue.isPrefetched(job)) return false;
    if (queue.isOvertaken(job, this.mayHave) || !this.mayHave(turnOf(job)) || !rules.mayGoOn(this)) {
      queue.giveBack(job);
      return false;
    }
    queue.own(job);
    rules.move(this, turnOf(job));
    return true;
  }

  /** Puts a job back to the front of its share. */
  giveBack(job: Job): void {
    this.queue.giveBack(job);
  }

  private readonly mayHave = (turn: string): boolean => this.rules.mayHave(this, turn);
}

/** A worker as its work sees it. */
export type Lane<Job extends LaneJob> = Pick<LaneWorker<Job>, 'name' | 'take' | 'prefetch' | 'own' | 'giveBack'>;
