/**
 * What is deleted when. Each rule has a file of its own; this is the clock that winds them: one rule at a time, in steps so
 * small that mail waiting for the same commit does not notice, begun only when the writer has nothing else to do.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Timed } from './timed.ts';

interface Common {
  /** For the log. */
  readonly name: string;
  /** Milliseconds from the end of one run to the begin of the next. */
  readonly everyMs: number;
  /** Nothing was deleted that anybody would ask for. */
  readonly silent?: true;
}

/** A rule whose steps have a size of their own. */
export interface Rule extends Common {
  /** Deletes some of what is due; returns how many rows that were. */
  step(): Promise<number>;
  /** A step that deleted fewer was the last of its run. */
  readonly stepRows: number;
}

/** A rule whose steps are as large as the time they take allows. */
export interface SizedRule extends Common {
  /** Deletes this many of what is due. */
  sizedStep(rows: number): Promise<SizedStep>;
}

export interface SizedStep extends Timed {
  /** Whether something is left; where it is not said, only a step that deleted fewer than it was to was the last of its run. */
  more?: boolean;
}

export const isMoreAfter = ({ rows, more }: SizedStep, size: number): boolean => more ?? rows >= size;

export interface Housekeeping {
  start(): void;
  /** Resolves when the step under way has ended. */
  stop(): Promise<void>;
}

/** A program that is restarted often must get to its rules too, but not while it takes up the mail that waits. */
const FIRST_MS = 60_000;
/** Between two steps of a rule without measure. */
const PAUSE_MS = 50;
/** Between two sized steps, so that who wants to write gets his turn first: the next begins only while nobody does. */
const SHORT_PAUSE_MS = 1;
/** How long one step may hold the writer. */
export const AIM_MS = 5;
/** How many rows are tried first. */
const FIRST_ROWS = 20;
/** The next rows may be far colder than those before them: no more are tried at once, however quickly these went. */
const [FEWEST_ROWS, MOST_ROWS] = [5, 100];
/** A writer that is never idle gets its steps, too, but a few a second only: the disk must not fill up behind the load. */
const LOOK_AGAIN_MS = 1;
const PATIENCE_MS = 250;

/** The size of the next step after one of `rows` took `ms`: towards the aim, at most twice as many. */
export function nextSize(rows: number, ms: number): number {
  const wanted = ms <= 0 ? rows * 2 : Math.floor((rows * AIM_MS) / ms);
  return Math.min(MOST_ROWS, Math.max(FEWEST_ROWS, Math.min(wanted, rows * 2)));
}

/** A run of one rule gives way to others that are due after this time, and goes on behind them: some have millions of rows before them. */
const RUN_MS = 10_000;

/** A rule that fails is logged and waits for its next turn. `isBusy`: whether others want to write. */
export function createHousekeeping(
  deps: { clock: Clock; log: Pick<Log, 'info' | 'error'>; isBusy?: () => boolean },
  rules: readonly (Rule | SizedRule)[],
): Housekeeping {
  const { clock, log, isBusy = () => false } = deps;
  const dueAt = new Map<Rule | SizedRule, number>();
  const sizes = new Map<SizedRule, number>();
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
    wait(Math.max(0, at - clock.monotonic()), () => {
      runBegan = clock.monotonic();
      return whenIdle(rule, 0);
    });
  }

  async function whenIdle(rule: Rule | SizedRule, before: number, since = clock.monotonic()): Promise<void> {
    if (isBusy() && clock.monotonic() - since < PATIENCE_MS) wait(LOOK_AGAIN_MS, () => whenIdle(rule, before, since));
    else await step(rule, before);
  }

  function isWaitedFor(rule: Rule | SizedRule): boolean {
    const now = clock.monotonic();
    return now - runBegan >= RUN_MS && [...dueAt].some(([other, at]) => other !== rule && at <= now);
  }

  async function step(rule: Rule | SizedRule, before: number): Promise<void> {
    let everyMs = rule.everyMs;
    try {
      const { deleted, more } = await take(rule);
      if (more && isWaitedFor(rule)) everyMs = 0;
      else if (more) {
        wait('step' in rule ? PAUSE_MS : SHORT_PAUSE_MS, () => whenIdle(rule, before + deleted));
        return;
      }
      if (before + deleted > 0 && !('silent' in rule))
        log.info({ event: 'housekeeping', rule: rule.name, deleted: before + deleted }, 'housekeeping');
    } catch (err) {
      log.error(
        { event: 'housekeeping_failed', rule: rule.name, err },
        'a rule of housekeeping failed; it will be tried again',
      );
    }
    dueAt.set(rule, clock.monotonic() + everyMs);
    next();
  }

  async function take(rule: Rule | SizedRule): Promise<{ deleted: number; more: boolean }> {
    if ('step' in rule) {
      const deleted = await rule.step();
      return { deleted, more: deleted >= rule.stepRows };
    }
    const size = sizes.get(rule) ?? FIRST_ROWS;
    const done = await rule.sizedStep(size);
    // The last step of a run has few rows: its time says nothing.
    if (done.rows >= size) sizes.set(rule, nextSize(size, done.ms));
    return { deleted: done.rows, more: isMoreAfter(done, size) };
  }

  return {
    start() {
      for (const rule of rules) dueAt.set(rule, clock.monotonic() + Math.min(FIRST_MS, rule.everyMs));
      next();
    },
    async stop() {
      stopped = true;
      timer?.cancel();
      await working;
    },
  };
}
