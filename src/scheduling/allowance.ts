/** Counts what each name used in a window: octets, mails, ms. All windows end together, so forgetting is one assignment. A restart forgets them. */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time.ts';

/** Names that have a count each, since a flood of names must not take the memory. */
const MOST_NAMES = 20_000;
const SHARED = '';

/** The fate of names beyond those that have a count each: one count for all of them, or none, if names cannot be made up. */
export type Beyond = 'shared' | 'uncounted';

export const WINDOW_MS = { minute: MINUTE_MS, hour: HOUR_MS, day: DAY_MS } as const;

/** Returns what one of many may use of a shared budget: its own most, but from half of it on a part of what is left, so newcomers find room. */
export const mostForOne = (each: number, all: number, used: number): number =>
  Math.min(each, (2 * each * Math.max(0, all - used)) / all);

export class Allowance {
  private readonly most: number;
  private readonly windowMs: number;
  private readonly mostNames: number;
  private readonly beyond: Beyond;
  private used = new Map<string, number>();
  private window = -1;

  constructor(
    { most, within }: { most: number; within: keyof typeof WINDOW_MS },
    { mostNames = MOST_NAMES, beyond = 'shared' }: { mostNames?: number; beyond?: Beyond | undefined } = {},
  ) {
    this.most = most;
    this.windowMs = WINDOW_MS[within];
    this.mostNames = mostNames;
    this.beyond = beyond;
  }

  /** Returns whether `amount` more fits. `now` is in milliseconds since the epoch. */
  has(name: string, amount: number, now: number): boolean {
    return this.usedBy(name, now) + amount <= this.most;
  }

  /** Returns what the name has used in this window. */
  usedBy(name: string, now: number): number {
    this.turn(now);
    const key = this.keyOf(name);
    return key === null ? 0 : (this.used.get(key) ?? 0);
  }

  /** Notes what was used, also beyond the limit, since it has happened; returns how much that is in this window. */
  spend(name: string, amount: number, now: number): number {
    this.turn(now);
    const key = this.keyOf(name);
    if (key === null) return amount;
    const used = (this.used.get(key) ?? 0) + amount;
    this.used.set(key, used);
    return used;
  }

  /** Spends `amount` if it fits, and returns whether it does. */
  take(name: string, amount: number, now: number): boolean {
    const fits = this.has(name, amount, now);
    if (fits) this.spend(name, amount, now);
    return fits;
  }

  /** Takes back a part of what was spent at `then`, if that was in this window. */
  giveBack(name: string, amount: number, then: number, now: number): void {
    this.turn(now);
    if (Math.floor(then / this.windowMs) !== this.window) return;
    const key = this.keyOf(name);
    if (key !== null) this.used.set(key, Math.max(0, (this.used.get(key) ?? 0) - amount));
  }

  private keyOf(name: string): string | null {
    if (this.used.has(name) || this.used.size < this.mostNames) return name;
    return this.beyond === 'shared' ? SHARED : null;
  }

  /** A clock that steps back starts a new window too. */
  private turn(now: number): void {
    const window = Math.floor(now / this.windowMs);
    if (window === this.window) return;
    this.window = window;
    this.used = new Map();
  }
}
