/**
 * The line in which look-ups wait to ask DNS. A bounded number of them asks at the same time; the others wait, and their time
 * limit begins when they get a slot.
 *
 * A name whose servers are silent keeps its slot for the whole time limit; others need milliseconds. So look-ups that run
 * longer than `slowMs`, and those of names that were silent before, form a separate class. While others wait it may have half
 * of the slots at most: look-ups beyond that give their slot back and begin again later, in a separate line.
 */
import type { Clock, Timer } from '../base/clock.ts';

/** A look-up that is under way. */
export interface Asking<T> {
  result: Promise<T>;
  /** Stops asking. The result is not used any more. */
  abandon(): void;
}

export interface DnsSlotsOptions {
  /** Look-ups that ask at the same time. */
  max: number;
  /** Look-ups that wait; one more is turned away. */
  maxWaiting: number;
  /** From this age on a look-up is slow. */
  slowMs: number;
}

interface Entry<T> {
  ask: () => Asking<T>;
  asking: Asking<T> | null;
  since: number;
  settle(result: T): void;
  fail(error: unknown): void;
}

export class DnsSlots<T> {
  private readonly clock: Clock;
  private readonly options: DnsSlotsOptions;
  private readonly half: number;
  /** In the order in which they began. */
  private readonly prompt: Entry<T>[] = [];
  /** In the order in which they came into this class. One that begins here has a place below `half`, so it never gives way. */
  private readonly slow: Entry<T>[] = [];
  private readonly promptLines = new Map<string, Line<Entry<T>>>();
  private readonly slowLine = createLine<Entry<T>>();
  private promptWaiting = 0;
  private isSlowTurn = false;
  private timer: Timer | null = null;

  constructor({ clock }: { clock: Clock }, options: DnsSlotsOptions) {
    this.clock = clock;
    this.options = options;
    this.half = Math.max(1, Math.floor(options.max / 2));
  }

  /**
   * Asks when there is a slot. Kinds take turns, so that a long line of one kind does not delay the others. `isSlow`: the name was
   * silent before. `ask` is called once more if the look-up had to give its slot back. Returns null if too many wait.
   */
  run(ask: () => Asking<T>, { kind, isSlow }: { kind: string; isSlow: boolean }): Promise<T> | null {
    if (this.promptWaiting + this.slowLine.length >= this.options.maxWaiting) return null;
    return new Promise((resolve, reject) => {
      const entry: Entry<T> = { ask, asking: null, since: 0, settle: resolve, fail: reject };
      if (isSlow) this.slowLine.push(entry);
      else {
        const line = this.promptLines.get(kind) ?? createLine<Entry<T>>();
        this.promptLines.set(kind, line);
        line.push(entry);
        this.promptWaiting++;
      }
      this.pump();
    });
  }

  load(): { inFlight: number; waiting: number } {
    return { inFlight: this.prompt.length + this.slow.length, waiting: this.promptWaiting + this.slowLine.length };
  }

  /** Ends all look-ups with this result. */
  close(result: T): void {
    this.timer?.cancel();
    this.timer = null;
    const all = [...this.prompt.splice(0), ...this.slow.splice(0), ...this.slowLine.drain()];
    for (const line of this.promptLines.values()) all.push(...line.drain());
    this.promptLines.clear();
    this.promptWaiting = 0;
    for (const entry of all) {
      entry.asking?.abandon();
      entry.asking = null;
      entry.settle(result);
    }
  }

  /** Fills the free slots, and sets the timer for the time when the oldest look-up becomes slow. */
  private pump(): void {
    const { max, slowMs } = this.options;
    this.timer?.cancel();
    this.timer = null;
    this.moveSlow();
    while (this.prompt.length + this.slow.length < max) if (!this.beginNext()) break;
    const first = this.prompt[0];
    if (this.promptWaiting > 0 && first !== undefined)
      this.timer = this.clock.after(Math.max(1, first.since + slowMs - this.clock.monotonic()), () => this.pump());
  }

  /** Moves look-ups that have become slow to the slow class; those for which it has no room give their slot back. */
  private moveSlow(): void {
    const { prompt, slow, options } = this;
    const now = this.clock.monotonic();
    for (let first = prompt[0]; first !== undefined && now - first.since >= options.slowMs; first = prompt[0]) {
      prompt.shift();
      slow.push(first);
    }
    for (let excess = this.excessNow(); excess > 0; excess--) {
      const last = slow.pop();
      if (last !== undefined) this.suspend(last);
    }
  }

  /** Counts the slow look-ups that have to make room for waiting ones. */
  private excessNow(): number {
    const free = this.options.max - this.prompt.length - this.slow.length;
    return Math.max(0, Math.min(this.slow.length - this.half, this.promptWaiting - free));
  }

  private suspend(entry: Entry<T>): void {
    entry.asking?.abandon();
    entry.asking = null;
    this.slowLine.push(entry);
  }

  /** Begins the next look-up; the two classes take turns for free slots. */
  private beginNext(): boolean {
    this.isSlowTurn = !this.isSlowTurn;
    return (this.isSlowTurn && this.beginSlow()) || this.beginPrompt() || this.beginSlow();
  }

  private beginSlow(): boolean {
    const entry = this.slow.length < this.half ? this.slowLine.shift() : undefined;
    if (entry !== undefined) this.begin(entry, this.slow);
    return entry !== undefined;
  }

  private beginPrompt(): boolean {
    for (const [kind, line] of this.promptLines) {
      // The kind goes to the end of the turns, or out of them.
      this.promptLines.delete(kind);
      const entry = line.shift();
      if (line.length > 0) this.promptLines.set(kind, line);
      if (entry === undefined) continue;
      this.promptWaiting--;
      this.begin(entry, this.prompt);
      return true;
    }
    return false;
  }

  private begin(entry: Entry<T>, running: Entry<T>[]): void {
    running.push(entry);
    entry.since = this.clock.monotonic();
    const asking = entry.ask();
    entry.asking = asking;
    asking.result.then(
      (result) => {
        if (entry.asking === asking) this.end(entry, () => entry.settle(result));
      },
      (error: unknown) => {
        if (entry.asking === asking) this.end(entry, () => entry.fail(error));
      },
    );
  }

  private end(entry: Entry<T>, settle: () => void): void {
    if (!removed(this.prompt, entry)) removed(this.slow, entry);
    settle();
    this.pump();
  }
}

function removed<E>(from: E[], entry: E): boolean {
  const at = from.indexOf(entry);
  if (at >= 0) from.splice(at, 1);
  return at >= 0;
}

/** First in, first out, also with many thousands in it. */
type Line<E> = ReturnType<typeof createLine<E>>;

/** Above this the used-up head of a line is cut off when it is the larger part. */
const LONG_HEAD = 1024;

function createLine<E>() {
  let entries: E[] = [];
  let head = 0;
  return {
    get length() {
      return entries.length - head;
    },
    push(entry: E): void {
      entries.push(entry);
    },
    shift(): E | undefined {
      const entry = entries[head];
      if (entry === undefined) return undefined;
      head++;
      if (head === entries.length || (head > LONG_HEAD && head * 2 > entries.length)) {
        entries = entries.slice(head);
        head = 0;
      }
      return entry;
    },
    drain(): E[] {
      const rest = entries.slice(head);
      entries = [];
      head = 0;
      return rest;
    },
  };
}
