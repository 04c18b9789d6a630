/** Counts requests in fixed windows of a minute. All windows end with the minute, so that the reset time is exact. */
import { Allowance, WINDOW_MS } from './allowance.ts';

/** Names with a count each in one window; those beyond share one count. */
const MOST_NAMES = 100_000;

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

/** Returns the seconds until the window ends, at least 1: the value of `Retry-After`. */
export function secondsLeft(rate: Rate, now: number): number {
  return Math.max(1, rate.reset - Math.floor(now / 1000));
}

export class RateWindows {
  private readonly counts: Allowance;

  constructor(mostNames = MOST_NAMES) {
    this.counts = new Allowance({ most: Infinity, within: 'minute' }, mostNames);
  }

  /** Counts one request. `now` is in milliseconds since the epoch. */
  take(name: string, limit: number, now: number): Rate {
    return rateOf(this.counts.spend(name, 1, now), limit, now);
  }

  /** Returns the state of the window without counting; `over` is false. */
  peek(name: string, limit: number, now: number): Rate {
    return { ...rateOf(this.counts.usedBy(name, now), limit, now), over: false };
  }
}

const rateOf = (count: number, limit: number, now: number): Rate => ({
  limit,
  remaining: Math.max(0, limit - count),
  reset: ((Math.floor(now / WINDOW_MS.minute) + 1) * WINDOW_MS.minute) / 1000,
  over: count > limit,
});
