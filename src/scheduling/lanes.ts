/**
 * Due work in lanes. A lane is work under one set of limits; a slow lane never holds up another, because nothing is shared
 * between lanes but the total number of slots, and a lane that has none is served first: while one starves, no other lane
 * starts a worker, workers beyond a lane's first go home, and a first one after a turn of a few jobs.
 *
 * The owner offers jobs to lanes by name. While a lane has jobs and free slots, `work` is started once a slot; it takes jobs
 * until the lane gives none. Inside a lane class 0 goes before class 1, which keeps every fifth turn; inside a class the
 * shares (accounts, say) take turns. Time, limits and work are handed in; lanes only wait, wake and are fair.
 */

export interface LaneJob {
  readonly id: string;
  /** 0 goes before 1. */
  readonly class: number;
  /** Jobs of one share do not delay those of another: shares take turns. */
  readonly share: string;
}

/** A lane as its workers see it. */
export interface Lane<Job extends LaneJob> {
  readonly name: string;
  /** The next job, or null: then the worker should end. Also null when another lane needs the slot more, or at a stop. */
  take(): Job | null;
  /** Like take(), for the job after the one in hand. Until `mine` says it is, an idle worker of the lane may still take it. */
  takeAhead(): Job | null;
  /**
   * Makes a job taken ahead one's own. False when another worker has it by now, and when take() would send the worker home
   * (the limit fell, a stop) or has something that goes first, be it one that a busy worker took ahead: then the job is back
   * in the lane.
   */
  mine(job: Job): boolean;
  /** Puts a job back to the front of its share. */
  giveBack(job: Job): void;
}

export interface LaneView {
  name: string;
  /** Jobs in memory, in no worker's hand. */
  waiting: number;
  /** Workers running. */
  slots: number;
}

export interface LanesOptions<Job extends LaneJob> {
  /** Works through a lane until `take` gives null. Should not throw: the job in its hand is then its owner's to find again. */
  work(lane: Lane<Job>): Promise<void>;
  /** How many workers the lane may have now; 0 parks it until `pump`. */
  slots(name: string): number;
  /** Workers in all lanes together. */
  maxSlots(): number;
  /** A worker ended with an exception. */
  failed(name: string, error: unknown): void;
  /** The lane has no jobs and no workers left. */
  empty?(name: string): void;
}

/** Every so many turns class 1 goes first. */
const TURNS_A_RESERVE = 5;
/** Jobs that a lane's only worker still does while other lanes have none: enough to be worth a warm connection. */
const JOBS_WHILE_OTHERS_STARVE = 10;

const isFirst = (job: LaneJob): boolean => job.class === 0;

class OneLane<Job extends LaneJob> implements Lane<Job> {
  readonly name: string;
  slots = 0;
  waiting = 0;
  /** Jobs done while other lanes starved. */
  overtime = 0;
  private turn = 0;
  private readonly classes: readonly [Map<string, Job[]>, Map<string, Job[]>] = [
    new Map<string, Job[]>(),
    new Map<string, Job[]>(),
  ];
  /** Jobs taken ahead, and whether class 1 had that turn by right. */
  private readonly ahead = new Map<Job, boolean>();
  private hasReserve = false;
  private readonly mayTake: (lane: OneLane<Job>) => boolean;

  constructor(name: string, mayTake: (lane: OneLane<Job>) => boolean) {
    this.name = name;
    this.mayTake = mayTake;
  }

  add(job: Job, front = false): void {
    const shares = this.classes[job.class === 0 ? 0 : 1];
    const jobs = shares.get(job.share);
    if (jobs === undefined) shares.set(job.share, [job]);
    else if (front) jobs.unshift(job);
    else jobs.push(job);
    this.waiting++;
  }

  take(): Job | null {
    if (!this.mayTake(this)) return null;
    return this.next(true) ?? this.steal(() => true);
  }

  takeAhead(): Job | null {
    if (!this.mayTake(this)) return null;
    const job = this.next(false);
    if (job !== null) this.ahead.set(job, this.hasReserve);
    return job;
  }

  mine(job: Job): boolean {
    const byRight = this.ahead.get(job);
    if (byRight === undefined) return false;
    const isOvertaken = job.class !== 0 && !byRight && this.urgent;
    if (!isOvertaken && this.mayTake(this)) return this.ahead.delete(job);
    this.giveBack(job);
    return false;
  }

  giveBack(job: Job): void {
    this.ahead.delete(job);
    this.add(job, true);
  }

  get idle(): boolean {
    return this.slots === 0 && this.waiting === 0 && this.ahead.size === 0;
  }

  /** Gives back to all workers what ended workers had taken ahead. */
  takeBackAhead(): void {
    for (const job of this.ahead.keys()) this.giveBack(job);
  }

  /** Some job of class 0 is not begun: it waits, or a busy worker holds it for later, for as long as its mail takes. */
  private get urgent(): boolean {
    if (this.classes[0].size > 0) return true;
    for (const job of this.ahead.keys()) if (isFirst(job)) return true;
    return false;
  }

  /** `orStolen`: a job of class 0 that another worker holds for later goes before one of class 1. */
  private next(orStolen: boolean): Job | null {
    this.turn = (this.turn + 1) % TURNS_A_RESERVE;
    const [first, second] = this.classes;
    this.hasReserve = this.turn === 0 && second.size > 0;
    if (this.hasReserve) return this.taken(nextOf(second));
    const job = this.taken(nextOf(first)) ?? (orStolen ? this.steal(isFirst) : null);
    return job ?? this.taken(nextOf(second));
  }

  private taken(job: Job | null): Job | null {
    if (job !== null) this.waiting--;
    return job;
  }

  /** A job that another worker holds for later goes to the one that is free now. */
  private steal(which: (job: Job) => boolean): Job | null {
    for (const job of this.ahead.keys()) {
      if (!which(job)) continue;
      this.ahead.delete(job);
      return job;
    }
    return null;
  }
}

/** The first job of the share whose turn it is; that share then goes to the end. */
function nextOf<Job>(shares: Map<string, Job[]>): Job | null {
  for (const [share, jobs] of shares) {
    shares.delete(share);
    const job = jobs.shift();
    if (jobs.length > 0) shares.set(share, jobs);
    if (job !== undefined) return job;
  }
  return null;
}

export interface Lanes<Job extends LaneJob> {
  offer(name: string, job: Job): void;
  /** Looks at the lane again: its limit may have grown, or its pause ended. */
  pump(name: string): void;
  views(): LaneView[];
  /** Jobs of a lane that are in memory and in no worker's hand, and its workers. */
  view(name: string): LaneView;
  /** Lanes that have jobs and no slot, because the slots of all lanes together are taken. */
  starving(): number;
  /** Takes no more work and resolves when all workers have ended. */
  stop(): Promise<void>;
}

export function createLanes<Job extends LaneJob>(options: LanesOptions<Job>): Lanes<Job> {
  const lanes = new Map<string, OneLane<Job>>();
  /** Lanes that have jobs and no slot because the total is reached, longest waiting first. */
  const starving = new Set<OneLane<Job>>();
  let total = 0;
  let stopping = false;
  let stopped: (() => void) | null = null;

  const mayTake = (lane: OneLane<Job>): boolean => {
    if (stopping || lane.slots > options.slots(lane.name)) return false;
    if (starving.size === 0) lane.overtime = 0;
    else if (lane.slots > 1 || ++lane.overtime > JOBS_WHILE_OTHERS_STARVE) return false;
    return true;
  };

  function laneOf(name: string): OneLane<Job> {
    let lane = lanes.get(name);
    if (lane === undefined) {
      lane = new OneLane(name, mayTake);
      lanes.set(name, lane);
    }
    return lane;
  }

  function pump(lane: OneLane<Job>): void {
    while (!stopping && lane.waiting > 0 && lane.slots < options.slots(lane.name)) {
      // A worker that take() would send home at once must not be started.
      if (starving.size > 0 && lane.slots > 0) return;
      if (total >= options.maxSlots()) {
        if (lane.slots === 0) starving.add(lane);
        return;
      }
      start(lane);
    }
    starving.delete(lane);
  }

  function start(lane: OneLane<Job>): void {
    starving.delete(lane);
    if (lane.slots === 0) lane.overtime = 0;
    lane.slots++;
    total++;
    void options.work(lane).then(
      () => {
        ended(lane);
      },
      (error: unknown) => {
        options.failed(lane.name, error);
        ended(lane);
      },
    );
  }

  function ended(lane: OneLane<Job>): void {
    lane.slots--;
    total--;
    if (lane.slots === 0) lane.takeBackAhead();
    for (const waiting of starving) {
      if (total >= options.maxSlots()) break;
      pump(waiting);
    }
    pump(lane);
    if (lane.idle) {
      lanes.delete(lane.name);
      options.empty?.(lane.name);
    }
    if (total === 0) stopped?.();
  }

  return {
    offer(name, job) {
      const lane = laneOf(name);
      lane.add(job);
      pump(lane);
    },
    pump(name) {
      const lane = lanes.get(name);
      if (lane !== undefined) pump(lane);
    },
    starving: () => starving.size,
    view(name) {
      const { waiting, slots } = lanes.get(name) ?? { waiting: 0, slots: 0 };
      return { name, waiting, slots };
    },
    views: () => [...lanes.values()].map(({ name, waiting, slots }) => ({ name, waiting, slots })),
    stop() {
      stopping = true;
      if (total === 0) return Promise.resolve();
      return new Promise((resolve) => {
        stopped = resolve;
      });
    },
  };
}
