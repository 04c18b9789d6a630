/**
 * Returns `whenOver` of a call: its listeners are called once when the call is over. `watch` begins at the first listener and
 * serves them all, since a streamed answer alone has nearly as many `close` listeners as Node takes for a leak; it returns the
 * function that ends the watch.
 */
export function overWatch(watch: (end: () => void) => () => void): (listener: () => void) => void {
  const listeners: (() => void)[] = [];
  let isOver = false;
  let unwatch = (): void => undefined;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    unwatch();
    for (const listener of listeners) listener();
  };
  return (listener) => {
    if (isOver) {
      listener();
      return;
    }
    if (listeners.push(listener) > 1) return;
    unwatch = watch(end);
    // The call may have been over already.
    if (isOver) unwatch();
  };
}
