/** Waits for code under test that waits only for promises and immediates, such as a worker over storage kept in memory. */

/**
 * Runs the event loop until no immediate is left. Node.js empties the queues of promises between two immediates, so afterwards nothing
 * goes on but what waits for a timer, a socket, a file or the test itself.
 */
export async function settleEventLoop(): Promise<void> {
  do await new Promise((resolve) => setImmediate(resolve));
  while (process.getActiveResourcesInfo().includes('Immediate'));
}
