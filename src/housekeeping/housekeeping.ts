/**
 * What is deleted when. Each rule has a file of its own; this is the clock that winds them: one rule at a time, in steps so
 * small that mail waiting for the same commit does not notice, with a pause after each.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';

export interface Rule {
  /** For the log. */
  readonly name: string;
  /** Milliseconds from the end of one run to the begin of the next. */
  readonly everyMs: number;
  /** Deletes some of what is due; returns how many rows that were. */
  step(): Promise<number>;
  /** A step that deleted fewer was the last of its run. */
  readonly stepRows: number;
}

export interface Housekeeping {
  start(): void;
  /** Resolves when the step under way has ended. */
  stop(): Promise<void>;
}

/** A program that is restarted often must get to its rules too, but not while it takes up the mail that waits. */
const FIRST_MS = 60_000;
/** Between two steps of a rule: those of a busy day are then done in minutes, and cost others a commit in twenty. */
const PAUSE_MS = 50;

/** A rule that fails is logged and waits for its next turn. */
export function createHousekeeping(
  deps: { clock: Clock; log: Pick<Log, 'info' | 'error'> },
  rules: readonly Rule[],
): Housekeeping {
  const { clock, log } = deps;
  const dueAt = new Map<Rule, number>();
  let timer: Timer | null = null;
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
    wait(Math.max(0, at - clock.monotonic()), () => step(rule, 0));
  }

  async function step(rule: Rule, before: number): Promise<void> {
    try {
      const deleted = await rule.step();
      if (deleted >= rule.stepRows) {
        wait(PAUSE_MS, () => step(rule, before + deleted));
        return;
      }
      if (before + deleted > 0)
        log.info({ event: 'housekeeping', rule: rule.name, deleted: before + deleted }, 'housekeeping');
    } catch (err) {
      log.error(
        { event: 'housekeeping_failed', rule: rule.name, err },
        'a rule of housekeeping failed; it will be tried again',
      );
    }
    dueAt.set(rule, clock.monotonic() + rule.everyMs);
    next();
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
