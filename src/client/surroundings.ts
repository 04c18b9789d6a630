/**
 * The only access to time, timers, randomness, network and environment, for tests: only globals that Node.js 20, Bun, Deno and edge workers share.
 */

export interface Surroundings {
  fetch: typeof fetch;
  /** Milliseconds since the epoch. */
  now(): number;
  /** Runs `run` once after `ms` milliseconds; returns a function that cancels it. */
  after(ms: number, run: () => void): () => void;
  /** From 0 up to, but not including, 1. */
  random(): number;
  uuid(): string;
  environment(name: string): string | undefined;
}

export const surroundings: Surroundings = {
  // Some runtimes need their own global as `this`.
  fetch: (...asked) => globalThis.fetch(...asked),
  now: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  random: () => Math.random(),
  uuid: () => crypto.randomUUID(),
  // Without `process` (browsers, some edge workers) there is no environment.
  environment: (name) =>
    (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name],
};
