/**
 * Limits the RSA signatures that run at once. Each uses a thread of the pool that commits and files need too: a hundred queued
 * ones delay a commit from 0.3 to 72 ms. So only a few run, and the others wait here, transactional mail before broadcasts.
 * Pure.
 */

export function createSignSlots(atOnce: number) {
  const queues: readonly [(() => void)[], (() => void)[]] = [[], []];
  let running = 0;

  function next(): void {
    running--;
    (queues[0].shift() ?? queues[1].shift())?.();
  }

  return {
    /** Runs `work` when there is a free slot; class 0 before class 1. */
    run<T>(order: 0 | 1, work: () => Promise<T>): Promise<T> {
      return new Promise((resolve, reject) => {
        const start = (): void => {
          running++;
          work().then(resolve, reject).finally(next);
        };
        if (running < atOnce) start();
        else queues[order].push(start);
      });
    },
  };
}

export type SignSlots = ReturnType<typeof createSignSlots>;
