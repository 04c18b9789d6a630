/** The only way to time and timers: a `Clock` is handed to all code that waits, so that a test can let three days pass in a millisecond. */

/** A timer that was set; cancelling it after it fired does nothing. */
export interface Timer {
  cancel(): void;
}

export interface Clock {
  now(): number;
  /** Returns milliseconds on a clock that never jumps: for durations, never for dates. */
  monotonic(): number;
  /** Calls `run` once after `ms` milliseconds. The timer keeps the process alive unless `background` is set. */
  after(ms: number, run: () => void, options?: { background?: boolean }): Timer;
  sleep(ms: number): Promise<void>;
}

/** setTimeout takes at most 2^31-1 ms and fires at once beyond that, so longer waits are cut: callers check the time again anyway. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run, options) {
    const timer = setTimeout(run, Math.min(Math.max(ms, 0), LONGEST_TIMER_MS));
    if (options?.background === true) timer.unref();
    return {
      cancel() {
        clearTimeout(timer);
      },
    };
  },
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};
