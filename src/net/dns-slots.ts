/**
 * The line in which look-ups wait to ask DNS. A bounded number of them asks at the same time; the others wait, and their time
 * limit begins when they get a slot.
 *
 * A name whose servers are silent keeps its slot for the whole time limit, where others need milliseconds. So look-ups that run
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

export type DnsSlots<T> = ReturnType<typeof createDnsSlots<T>>;

interface Entry<T> {
  ask: () => Asking<T>;
  asking: Asking<T> | null;
  since: number;
  settle(result: T): void;
  fail(error: unknown): void;
}

export function createDnsSlots<T>(deps: { clock: Clock }, options: DnsSlotsOptions) {
  const { clock } = deps;
  const { max, maxWaiting, slowMs } = options;
  const half = Math.max(1, Math.floor(max / 2));
  /** In the order in which they began. */
  const prompt: Entry<T>[] = [];
  /** In the order in which they came into this class. One that begins here has a place below `half`, so it never gives way. */
  const slow: Entry<T>[] = [];
  const promptLines = new Map<string, Line<Entry<T>>>();
  const slowLine = createLine<Entry<T>>();
  let promptWaiting = 0;
  let isSlowTurn = false;
  let timer: Timer | null = null;

  function begin(entry: Entry<T>, running: Entry<T>[]): void {
    running.push(entry);
    entry.since = clock.monotonic();
    const asking = entry.ask();
    entry.asking = asking;
    asking.result.then(
      (result) => {
        if (entry.asking === asking) end(entry, () => entry.settle(result));
      },
      (error: unknown) => {
        if (entry.asking === asking) end(entry, () => entry.fail(error));
      },
    );
  }

  function end(entry: Entry<T>, settle: () => void): void {
    if (!removed(prompt, entry)) removed(slow, entry);
    settle();
    pump();
  }

  function suspend(entry: Entry<T>): void {
    entry.asking?.abandon();
    entry.asking = null;
    slowLine.push(entry);
  }

  /** Moves look-ups that have become slow to the slow class; those for which it has no room give their slot back. */
  function moveSlow(): void {
    const now = clock.monotonic();
    for (let first = prompt[0]; first !== undefined && now - first.since >= slowMs; first = prompt[0]) {
      prompt.shift();
      slow.push(first);
    }
    for (let excess = excessNow(); excess > 0; excess--) {
      const last = slow.pop();
      if (last !== undefined) suspend(last);
    }
  }

  /** Counts the slow look-ups that have to make room for waiting ones. */
  function excessNow(): number {
    const wanted = promptWaiting - (max - prompt.length - slow.length);
    return Math.max(0, Math.min(slow.length - half, wanted));
  }

  function pump(): void {
    timer?.cancel();
    timer = null;
    moveSlow();
    while (prompt.length + slow.length < max) if (!beginNext()) break;
    const first = prompt[0];
    if (promptWaiting > 0 && first !== undefined)
      timer = clock.after(Math.max(1, first.since + slowMs - clock.monotonic()), pump);
  }

  /** Begins the next look-up; the two classes take turns for free slots. */
  function beginNext(): boolean {
    isSlowTurn = !isSlowTurn;
    return (isSlowTurn && beginSlow()) || beginPrompt() || beginSlow();
  }

  function beginSlow(): boolean {
    const entry = slow.length < half ? slowLine.shift() : undefined;
    if (entry !== undefined) begin(entry, slow);
    return entry !== undefined;
  }

  function beginPrompt(): boolean {
    for (const [kind, line] of promptLines) {
      // The kind goes to the end of the turns, or out of them.
      promptLines.delete(kind);
      const entry = line.shift();
      if (line.length > 0) promptLines.set(kind, line);
      if (entry === undefined) continue;
      promptWaiting--;
      begin(entry, prompt);
      return true;
    }
    return false;
  }

  return {
    /**
     * Asks when there is a slot. Kinds take turns, so that a long line of one kind does not delay the others. `isSlow`: the name was
     * silent before. `ask` is called once more if the look-up had to give its slot back. Returns null if too many wait.
     */
    run(ask: () => Asking<T>, { kind, isSlow }: { kind: string; isSlow: boolean }): Promise<T> | null {
      if (promptWaiting + slowLine.length >= maxWaiting) return null;
      return new Promise((resolve, reject) => {
        const entry: Entry<T> = { ask, asking: null, since: 0, settle: resolve, fail: reject };
        if (isSlow) slowLine.push(entry);
        else {
          const line = promptLines.get(kind) ?? createLine<Entry<T>>();
          promptLines.set(kind, line);
          line.push(entry);
          promptWaiting++;
        }
        pump();
      });
    },
    load: () => ({ inFlight: prompt.length + slow.length, waiting: promptWaiting + slowLine.length }),
    /** Ends all look-ups with this result. */
    close(result: T): void {
      timer?.cancel();
      timer = null;
      const all = [...prompt.splice(0), ...slow.splice(0), ...slowLine.drain()];
      for (const line of promptLines.values()) all.push(...line.drain());
      promptLines.clear();
      promptWaiting = 0;
      for (const entry of all) {
        entry.asking?.abandon();
        entry.asking = null;
        entry.settle(result);
      }
    },
  };
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
