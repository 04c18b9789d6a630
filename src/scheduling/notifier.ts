/**
 * A notifier tells its listeners that the database has something new to read. It carries no work, at most a hint where to look:
 * a listener that misses a call only finds the work later, when the sweeper runs.
 */
export interface Notifier<Hint = void> {
  notify(hint: Hint): void;
  /** Calls `listener` at each notification until the returned function is called. */
  listen(listener: (hint: Hint) => void): () => void;
}

export function createNotifier<Hint = void>(): Notifier<Hint> {
  const listeners = new Set<(hint: Hint) => void>();
  return {
    notify(hint) {
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
