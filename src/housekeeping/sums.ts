/** Sums up the numbers of hours and days that are over (events/stat-sums.ts). */
import type { Clock } from '../base/clock.ts';
import { sumUpNext } from '../events/stat-sums.ts';
import type { Database } from '../storage/database.ts';
import type { Rule } from './housekeeping.ts';

const FIVE_MINUTES_MS = 300_000;
/** A run ends after so many, whatever is left: the first one has months of all accounts before it, and other rules want their turn. */
const MOST_STEPS = 600;

export function sumsOfNumbers(deps: { db: Pick<Database, 'commit' | 'fast'>; clock: Clock }): Rule {
  let steps = 0;
  return {
    name: 'sums of numbers',
    everyMs: FIVE_MINUTES_MS,
    stepRows: 1,
    silent: true,
    async step() {
      steps = (await sumUpNext(deps)) && steps < MOST_STEPS ? steps + 1 : 0;
      return steps > 0 ? 1 : 0;
    },
  };
}
