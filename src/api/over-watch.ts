/**
 * Returns `whenOver` of a call: its listeners are called once when the call is over, or at once if `isOver` says that it is
 * already. `watch` begins at the first listener and serves them all, since a streamed answer alone has nearly as many `close`
 * listeners as Node takes for a leak; it returns the function that ends the watch.
 */
export function overWatch(
  isOver: () => boolean,
  watch: (end: () => void) => () => void,
): (listener: () => void) => void {
  const listeners: (() => void)[] = [];
  let hasEnded = false;
  let unwatch = (): void => undefined;
  const end = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    unwatch();
    for (const listener of listeners) listener();
  };
  return (listener) => {
    if (hasEnded || isOver()) listener();
    else if (listeners.push(listener) === 1) unwatch = watch(end);
  };
}
