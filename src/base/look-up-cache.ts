/**
 * A bounded memory of look-ups that must never be old: each answer is good for a short time, in which another process may change the rows, is dropped
 * at once if this one does, and is fetched once however many ask.
 */
import { createLru } from './lru.ts';
import type { Clock } from './clock.ts';

export interface LookUpOptions<V> {
  /** Answers kept; the one not used for longest goes first. */
  max: number;
  /** The time for which an answer is good, in ms from the moment it was asked for. */
  freshMs: number;
  /** Returns false for an answer that is not worth keeping: a stranger could otherwise push the others out with names that do not exist. */
  keep?: (value: V) => boolean;
}

interface Entry<V> {
  answer: Promise<V>;
  value: V | undefined;
  settled: boolean;
  freshUntil: number;
}

/**
 * Creates the memory. `load` gets the last answer, to take over parts that are expensive to make. Its failures are not kept. (The `fetch`
 * of lru-cache stores an answer that comes after `delete`, which `forget` must not.)
 */
export function createLookUpCache<V>(
  deps: { clock: Clock },
  options: LookUpOptions<V>,
  load: (key: string, before: V | undefined) => Promise<V>,
) {
  const entries = createLru<string, Entry<V>>(options.max);

  function look(key: string, before: V | undefined, now: number): Promise<V> {
    const answer = load(key, before);
    const entry: Entry<V> = { answer, value: undefined, settled: false, freshUntil: now + options.freshMs };
    entries.set(key, entry);
    const drop = (): void => {
      if (entries.peek(key) === entry) entries.delete(key);
    };
    answer.then((value) => {
      entry.value = value;
      entry.settled = true;
      if (options.keep?.(value) === false) drop();
    }, drop);
    return answer;
  }

  return {
    get(key: string): Promise<V> {
      const now = deps.clock.monotonic();
      const entry = entries.get(key);
      if (entry === undefined || (entry.settled && entry.freshUntil <= now)) return look(key, entry?.value, now);
      return entry.answer;
    },
    /** Drops the answer. The next `get` looks again, and does not join a look-up that began before this. */
    forget(key: string): void {
      entries.delete(key);
    },
  };
}
