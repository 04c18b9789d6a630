/**
 * A notifier tells its listeners that the database has something new to read. It carries no work, at most a hint where to look:
 * a listener that misses a call only finds the work later, when the sweeper runs.
 */
export type Notifier<Hint = void> = ReturnType<typeof createNotifier<Hint>>;

export function createNotifier<Hint = void>() {
  const listeners = new Set<(hint: Hint) => void>();
  return {
    notify(hint: Hint): void {
      for (const listener of listeners) listener(hint);
    },
    /** Calls `listener` at each notification until the returned function is called. */
    listen(listener: (hint: Hint) => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
