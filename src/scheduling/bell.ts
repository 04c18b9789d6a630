/**
 * A bell says "look now" to whoever listens; what there is to see stands in the database.
 * Ringing never carries work, at most where to find it: a listener that misses a ring only looks later (the sweeper sees to that).
 */
export interface Bell<Hint = void> {
  ring(hint: Hint): void;
  /** Calls `listener` at each ring until the returned function is called. */
  listen(listener: (hint: Hint) => void): () => void;
}

export function createBell<Hint = void>(): Bell<Hint> {
  const listeners = new Set<(hint: Hint) => void>();
  return {
    ring(hint) {
      for (const listener of listeners) listener(hint);
    },
    listen(listener) {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}
