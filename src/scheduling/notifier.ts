/** A notifier tells listeners that the database has something new, at most with a hint. One that misses a call finds it when the sweeper runs. */
export type Notifier<Hint = void> = ReturnType<typeof createNotifier<Hint>>;

export function createNotifier<Hint = void>() {
  const listeners = new Set<(hint: Hint) => void>();
  let tellOthers: ((hint: Hint) => void) | null = null;
  const call = (hint: Hint): void => {
    for (const listener of listeners) listener(hint);
  };
  return {
    /** Tells the listeners here and, if there are other servers, theirs. */
    notify(hint: Hint): void {
      call(hint);
      tellOthers?.(hint);
    },
    /** Calls the listeners here with what another server has told. */
    arrive(hint: Hint): void {
      call(hint);
    },
    /** From now on each notification is also handed to this function, which tells other servers. */
    joinOthers(tell: (hint: Hint) => void): void {
      tellOthers = tell;
    },
    /** Calls `listener` at each notification until the returned function is called. */
    listen(listener: (hint: Hint) => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
