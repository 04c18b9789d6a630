/**
 * Counts what each name has used in a window of time: octets, mails, milliseconds. All windows end together, so that forgetting
 * the past is one assignment. In memory: a restart grants everybody a new window.
 */

/** Most names with a count each; beyond, newcomers share one count: a flood of names must not take the memory. */
const MOST_NAMES = 20_000;
const SHARED = '';

export const WINDOW_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

export class Allowance {
  private readonly most: number;
  private readonly windowMs: number;
  private readonly mostNames: number;
  private used = new Map<string, number>();
  private window = -1;

  constructor({ most, within }: { most: number; within: keyof typeof WINDOW_MS }, mostNames = MOST_NAMES) {
    this.most = most;
    this.windowMs = WINDOW_MS[within];
    this.mostNames = mostNames;
  }

  /** Whether `amount` more fits. `now` is in milliseconds since the epoch. */
  has(name: string, amount: number, now: number): boolean {
    this.turn(now);
    return (this.used.get(this.keyOf(name)) ?? 0) + amount <= this.most;
  }

  /** Notes what was used, also beyond the limit: what has happened has happened. */
  spend(name: string, amount: number, now: number): void {
    this.turn(now);
    const key = this.keyOf(name);
    this.used.set(key, (this.used.get(key) ?? 0) + amount);
  }

  /** Takes back a part of what was spent at `then`, if that was in this window. */
  giveBack(name: string, amount: number, then: number, now: number): void {
    this.turn(now);
    if (Math.floor(then / this.windowMs) !== this.window) return;
    const key = this.keyOf(name);
    this.used.set(key, Math.max(0, (this.used.get(key) ?? 0) - amount));
  }

  private keyOf(name: string): string {
    return this.used.has(name) || this.used.size < this.mostNames ? name : SHARED;
  }

  /** A clock that steps back starts a new window too. */
  private turn(now: number): void {
    const window = Math.floor(now / this.windowMs);
    if (window === this.window) return;
    this.window = window;
    this.used = new Map();
  }
}
