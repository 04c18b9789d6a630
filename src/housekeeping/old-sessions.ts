/** Removes ended sessions and set-up links of the dashboard; sign-ins are kept as long as the audit log. */
import type { UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { purgeSessions } from '../members/session-store.ts';
import type { Database } from '../storage/database.ts';
import type { Rule } from './housekeeping.ts';

const STEP = 500;

export function oldSessions(deps: {
  db: Pick<Database, 'commit' | 'prepared'>;
  clock: Clock;
  keptMs: number;
  usedUp: UsedUp;
}): Rule {
  return {
    name: 'old sessions',
    everyMs: 60 * 60_000,
    stepRows: STEP,
    step: () => purgeSessions(deps, deps.clock.now() - deps.keptMs, STEP),
  };
}
