/** Sums up the numbers of hours and days that are over (events/stat-sums.ts). */
import type { Clock } from '../base/clock.ts';
import { sumUpNext } from '../events/stat-sums.ts';
import type { Database } from '../storage/database.ts';
import type { Rule } from './housekeeping.ts';

const FIVE_MINUTES_MS = 300_000;

export function sumsOfNumbers(deps: { db: Pick<Database, 'commit' | 'prepared'>; clock: Clock }): Rule {
  return {
    name: 'sums of numbers',
    everyMs: FIVE_MINUTES_MS,
    stepRows: 1,
    silent: true,
    step: async () => ((await sumUpNext(deps)) ? 1 : 0),
  };
}
