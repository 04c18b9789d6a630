/**
 * What the client takes from around it: the one door to time, timers, chance, the network and the environment, so that a test
 * can hold them all. Only globals that Node.js 20, Bun, Deno and edge workers share; nothing is imported.
 */

export interface Surroundings {
  fetch: typeof fetch;
  /** Milliseconds since the epoch. */
  now(): number;
  /** Runs it once after so many milliseconds; gives the way to call it off. */
  after(ms: number, run: () => void): () => void;
  /** From 0 up to, not including, 1. */
  random(): number;
  uuid(): string;
  environment(name: string): string | undefined;
}

export const surroundings: Surroundings = {
  // Some runtimes want their own global as `this`.
  fetch: (...asked) => globalThis.fetch(...asked),
  now: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  random: () => Math.random(),
  uuid: () => crypto.randomUUID(),
  // Where there is no `process` (browsers, some edge workers) there is no environment either.
  environment: (name) =>
    (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name],
};
