/** Removes numbers by the hour after a month; later only days can be asked for. */
import type { Clock } from '../base/clock.ts';
import { removeOldStats } from '../events/stats-store.ts';
import type { Database } from '../storage/database.ts';
import type { Rule } from './housekeeping.ts';

const STEP = 100;

export function oldStats({ db, clock }: { db: Pick<Database, 'commit'>; clock: Clock }): Rule {
  return {
    name: 'old numbers',
    everyMs: 24 * 60 * 60_000,
    stepRows: STEP,
    step: () => removeOldStats(db.commit, clock.now(), STEP),
  };
}
