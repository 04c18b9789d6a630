/**
 * Counts requests in fixed windows of a minute. All windows end with the minute, so that the reset time is exact.
 *
 * If several nodes serve the same names, each tells the others every two seconds what it has counted of names that have used more than a
 * quarter of their limit (`untold`), and the others count it too (`add`). So within two seconds a name can get its limit once from each node.
 */
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

/** A part of a limit above which the uses of a name are told to other nodes. */
const TOLD_ABOVE = 0.25;

/** Requests that a node has counted in a window, which is a number of minutes since the epoch. */
export interface CountedElsewhere {
  name: string;
  window: number;
  requests: number;
}

export class RateWindows {
  private readonly counts: Allowance;
  /** Returns whether other nodes serve the same names. */
  private readonly isShared: () => boolean;
  /** Requests of this window by name that other nodes do not know of, with the limit of the name. */
  private own = new Map<string, { requests: number; limit: number }>();
  private window = 0;

  constructor({
    mostNames = MOST_NAMES,
    isShared = () => false,
  }: { mostNames?: number; isShared?: () => boolean } = {}) {
    this.isShared = isShared;
    this.counts = new Allowance({ most: Infinity, within: 'minute' }, { mostNames });
  }

  /** Counts one request. `now` is in milliseconds since the epoch. */
  take(name: string, limit: number, now: number): Rate {
    if (this.isShared()) this.note(name, limit, now);
    return rateOf(this.counts.spend(name, 1, now), limit, now);
  }

  /** Counts what another node has told. What it counted in another minute, by its clock, is over. */
  add({ name, window, requests }: CountedElsewhere, now: number): void {
    if (window === windowOf(now)) this.counts.spend(name, requests, now);
  }

  /** Returns what other nodes should know and were not told yet. */
  untold(now: number): CountedElsewhere[] {
    if (windowOf(now) !== this.window) return [];
    const { window } = this;
    const told = [...this.own].filter(([name, { limit }]) => this.counts.usedBy(name, now) > limit * TOLD_ABOVE);
    for (const [name] of told) this.own.delete(name);
    return told.map(([name, { requests }]) => ({ name, window, requests }));
  }

  private note(name: string, limit: number, now: number): void {
    if (windowOf(now) !== this.window) {
      this.window = windowOf(now);
      this.own = new Map();
    }
    const before = this.own.get(name);
    if (before !== undefined) before.requests += 1;
    else if (this.own.size < MOST_NAMES) this.own.set(name, { requests: 1, limit });
  }

  /** Returns the state of the window without counting; `over` is false. */
  peek(name: string, limit: number, now: number): Rate {
    return { ...rateOf(this.counts.usedBy(name, now), limit, now), over: false };
  }
}

const windowOf = (now: number): number => Math.floor(now / WINDOW_MS.minute);

const rateOf = (count: number, limit: number, now: number): Rate => ({
  limit,
  remaining: Math.max(0, limit - count),
  reset: ((Math.floor(now / WINDOW_MS.minute) + 1) * WINDOW_MS.minute) / 1000,
  over: count > limit,
});
