/** A clock that stands still until a test moves it: timers fire in order of their time, and what they set fires too. */
import type { Clock, Timer } from '../../../src/base/clock.ts';

interface Waiting {
  at: number;
  order: number;
  run: () => void;
}

export class FakeClock implements Clock {
  private time: number;
  private order = 0;
  private readonly waiting = new Set<Waiting>();
  private start: number;

  constructor(start: number = Date.parse('2026-01-31T09:30:00.000Z')) {
    this.time = start;
    this.start = start;
  }

  now(): number {
    return this.time;
  }

  monotonic(): number {
    return this.time - this.start;
  }

  after(ms: number, run: () => void): Timer {
    const entry = { at: this.time + Math.max(ms, 0), order: this.order++, run };
    this.waiting.add(entry);
    return { cancel: () => this.waiting.delete(entry) };
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** Moves time on, firing what falls due on the way, each at its own time. */
  advance(ms: number): void {
    const end = this.time + ms;
    for (;;) {
      const next = this.nextBefore(end);
      if (next === undefined) break;
      this.waiting.delete(next);
      this.time = Math.max(this.time, next.at);
      next.run();
    }
    this.time = end;
  }

  /** Sets the clock on the wall to another time; what waits waits as long as before. */
  jump(ms: number): void {
    this.time += ms;
    this.start += ms;
    for (const entry of this.waiting) entry.at += ms;
  }

  /** When the next timer falls due, or null if none is set. */
  nextAt(): number | null {
    let next: number | null = null;
    for (const { at } of this.waiting) if (next === null || at < next) next = at;
    return next;
  }

  /** True if a timer falls due in exactly so many milliseconds. */
  isDueIn(ms: number): boolean {
    return [...this.waiting].some(({ at }) => at === this.time + ms);
  }

  private nextBefore(end: number): Waiting | undefined {
    let best: Waiting | undefined;
    for (const entry of this.waiting) {
      if (entry.at > end) continue;
      if (best === undefined || entry.at < best.at || (entry.at === best.at && entry.order < best.order)) best = entry;
    }
    return best;
  }
}
