/**
 * A gate that lets so many in at a time; the next wait in the order they came, and beyond so many who wait the gate says no.
 * Pure: it neither knows time nor what goes on inside.
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
    /** Resolves inside, with what to call when leaving; null where too many wait already. */
    enter(): Promise<(() => void) | null> | (() => void) {
      if (inside < most) return admit();
      if (queue.length >= mostWaiting) return Promise.resolve(null);
      return new Promise((resolve) => queue.push(resolve));
    },
    /** How many are inside, and how many wait. */
    sizes: () => ({ inside, waiting: queue.length }),
  };
}
