/** Surroundings for tests of the client: waits pass at once and are noted; time limits pass only if the test says so. */
import type { Surroundings } from '../../src/client/surroundings.ts';

export interface FakeAround extends Surroundings {
  /** Milliseconds of each wait between two tries. */
  readonly waits: number[];
  /** Lets the time limit of the try that runs now pass. */
  passLimit(): void;
  /** Timers that were set and neither ran nor were called off. */
  readonly open: number;
}

export const LIMIT_MS = 1_000_000;

export function fakeAround(environment: Readonly<Record<string, string>> = {}): FakeAround {
  const waits: number[] = [];
  const limits = new Set<() => void>();
  let uuids = 0;
  return {
    waits,
    get open() {
      return limits.size;
    },
    fetch: (...asked) => fetch(...asked),
    now: () => Date.parse('2026-01-31T09:30:00Z'),
    after(ms, run) {
      if (ms >= LIMIT_MS) {
        limits.add(run);
        return () => void limits.delete(run);
      }
      waits.push(ms);
      const soon = setImmediate(run);
      return () => clearImmediate(soon);
    },
    random: () => 0.5,
    uuid: () => `uuid-${++uuids}`,
    environment: (name) => environment[name],
    passLimit() {
      for (const run of limits) run();
      limits.clear();
    },
  };
}
