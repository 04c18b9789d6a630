/**
 * Runs the rules of housekeeping on their schedule. One rule runs at a time, in steps so small that mail
 * waiting for the same commit is not delayed, and a step begins only when the writer is idle.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Committer } from '../storage/commit.ts';

export type Transactor = Pick<Committer, 'transact'>;

export interface Rule {
  readonly name: string;
  /** Milliseconds from the end of one run to the start of the next. */
  readonly everyMs: number;
  /** Set if the log need not say how much was deleted. */
  readonly silent?: true;
  /** Set if each node has to run it, and not only the one that leads: it is about files of the node. */
  readonly onEveryNode?: true;
  /** Deletes at most this many of what is due, through the given transactor; a number says how many, and as many as asked for that there may be more. */
  step(rows: number, commit: Transactor): Promise<number | Step>;
}

export interface Step {
  rows: number;
  more: boolean;
}

export async function takeStep(rule: Rule, size: number, commit: Transactor): Promise<Step> {
  const done = await rule.step(size, commit);
  return typeof done === 'number' ? { rows: done, more: done >= size } : done;
}

/** Longest delay of the first run, also of a new leader: a program that restarts often must reach its rules, but not while it loads the mail. */
const FIRST_MS = 60_000;
/** Pause between two steps, so that waiting writes run first: the next step begins only when the writer is idle. */
const PAUSE_MS = 1;
/** Rows of a step: they hold the writer for a few milliseconds, also if they come from the disk. */
const ROWS = 20;
/** Under load that never lets the writer rest, a few steps a second still run, so that the disk does not fill up. */
const LOOK_AGAIN_MS = 1;
const MAX_IDLE_WAIT_MS = 250;

/** After this time a run pauses for other rules that are due and continues after them: some rules have millions of rows to remove. */
const RUN_MS = 10_000;

/**
 * A rule that fails is logged, once until it succeeds, and tried again at its next time. `isBusy` says whether writes are waiting; while
 * `leads` returns false another node has the chores.
 */
export function createHousekeeping(
  deps: {
    clock: Clock;
    log: Pick<Log, 'info' | 'error'>;
    commit: Transactor;
    isBusy?: () => boolean;
    leads?: () => boolean;
  },
  rules: readonly Rule[],
) {
  const { clock, log, isBusy = () => false, leads = () => true } = deps;
  const dueAt = new Map<Rule, number>();
  /** Rules whose last run failed. While the database is away each of them is logged once. */
  const failing = new Set<Rule>();
  let timer: Timer | null = null;
  let runBegan = 0;
  let working: Promise<void> = Promise.resolve();
  let stopped = false;

  function wait(ms: number, run: () => Promise<void>): void {
    if (stopped) return;
    timer = clock.after(
      ms,
      () => {
        working = run();
      },
      { background: true },
    );
  }

  function next(): void {
    const [first] = [...dueAt].sort(([, a], [, b]) => a - b);
    if (first === undefined) return;
    const [rule, at] = first;
    wait(Math.max(0, at - clock.monotonic()), async () => {
      runBegan = clock.monotonic();
      if (leads() || rule.onEveryNode === true) await whenIdle(rule, 0);
      else runLater(rule, Math.min(FIRST_MS, rule.everyMs));
    });
  }

  function runLater(rule: Rule, ms: number): void {
    dueAt.set(rule, clock.monotonic() + ms);
    next();
  }

  async function whenIdle(rule: Rule, before: number, since = clock.monotonic()): Promise<void> {
    if (isBusy() && clock.monotonic() - since < MAX_IDLE_WAIT_MS)
      wait(LOOK_AGAIN_MS, () => whenIdle(rule, before, since));
    else await step(rule, before);
  }

  function isWaitedFor(rule: Rule): boolean {
    const now = clock.monotonic();
    return now - runBegan >= RUN_MS && [...dueAt].some(([other, at]) => other !== rule && at <= now);
  }

  async function step(rule: Rule, before: number): Promise<void> {
    let everyMs = rule.everyMs;
    try {
      const { rows: deleted, more } = await takeStep(rule, ROWS, deps.commit);
      failing.delete(rule);
      if (more && isWaitedFor(rule)) everyMs = 0;
      else if (more) {
        wait(PAUSE_MS, () => whenIdle(rule, before + deleted));
        return;
      }
      if (before + deleted > 0 && rule.silent !== true)
        log.info({ event: 'housekeeping', rule: rule.name, deleted: before + deleted }, 'housekeeping');
    } catch (err) {
      if (!failing.has(rule))
        log.error(
          { event: 'housekeeping_failed', rule: rule.name, err },
          'a rule of housekeeping failed; it is tried again, and logged again once it has succeeded',
        );
      failing.add(rule);
    }
    runLater(rule, everyMs);
  }

  return {
    start(): void {
      for (const rule of rules) dueAt.set(rule, clock.monotonic() + Math.min(FIRST_MS, rule.everyMs));
      next();
    },
    /** Resolves when the step under way has ended. */
    async stop(): Promise<void> {
      stopped = true;
      timer?.cancel();
      await working;
    },
  };
}

export type Housekeeping = ReturnType<typeof createHousekeeping>;
