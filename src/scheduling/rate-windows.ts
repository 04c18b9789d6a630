/**
 * Counts requests in fixed windows of a minute. All windows end with the minute, so that the reset time is exact and
 * forgetting the past is one assignment: nothing has to be swept.
 */

const WINDOW_MS = 60_000;
/** Most names with a count each in one window; beyond, newcomers share one count: a flood of addresses must not take the memory. */
const MOST_NAMES = 100_000;
const SHARED = '';

/** The values of the rate-limit headers, and the verdict on this request. */
export interface Rate {
  /** Requests allowed in the window. */
  limit: number;
  /** Requests left in it. */
  remaining: number;
  /** When it ends, in Unix seconds. */
  reset: number;
  over: boolean;
}

/** Seconds until the window ends, at least 1: the value of `Retry-After`. */
export function secondsLeft(rate: Rate, now: number): number {
  return Math.max(1, rate.reset - Math.floor(now / 1000));
}

export class RateWindows {
  private readonly mostNames: number;
  private counts = new Map<string, number>();
  private end = 0;

  constructor(mostNames = MOST_NAMES) {
    this.mostNames = mostNames;
  }

  /** Counts one request. `now` is in milliseconds since the epoch. */
  take(name: string, limit: number, now: number): Rate {
    this.turn(now);
    const key = this.counts.has(name) || this.counts.size < this.mostNames ? name : SHARED;
    const count = (this.counts.get(key) ?? 0) + 1;
    this.counts.set(key, count);
    return this.rate(count, limit);
  }

  /** Returns the state of the window without counting; `over` is false. */
  peek(name: string, limit: number, now: number): Rate {
    this.turn(now);
    return { ...this.rate(this.counts.get(name) ?? 0, limit), over: false };
  }

  private rate(count: number, limit: number): Rate {
    return { limit, remaining: Math.max(0, limit - count), reset: this.end / 1000, over: count > limit };
  }

  /** A clock that steps back starts a new window too. */
  private turn(now: number): void {
    const end = (Math.floor(now / WINDOW_MS) + 1) * WINDOW_MS;
    if (end === this.end) return;
    this.end = end;
    this.counts = new Map();
  }
}
