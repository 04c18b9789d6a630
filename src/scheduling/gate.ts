/**
 * A gate that lets a number of callers in at a time. Others wait in order, up to a number; those beyond are refused.
 * Pure: it knows neither the time nor the work inside.
 */

export type Gate = ReturnType<typeof createGate>;

export function createGate({ most, waiting: mostWaiting }: { most: number; waiting: number }) {
  let inside = 0;
  const queue: ((leave: () => void) => void)[] = [];

  function admit(): () => void {
    inside++;
    let out = false;
    return () => {
      if (out) throw new Error('left a gate twice');
      out = true;
      inside--;
      queue.shift()?.(admit());
    };
  }

  return {
    /** Resolves when the caller is inside, with the function to call when leaving; null where too many wait already. */
    enter(): Promise<(() => void) | null> | (() => void) {
      if (inside < most) return admit();
      if (queue.length >= mostWaiting) return Promise.resolve(null);
      return new Promise((resolve) => queue.push(resolve));
    },
    /** Counts the callers that are inside, and those that wait. */
    sizes: () => ({ inside, waiting: queue.length }),
  };
}
