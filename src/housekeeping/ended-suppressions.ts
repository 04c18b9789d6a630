/** Removes suppressions whose end has passed; readers already ignore them. */
import { removeEnded } from '../suppressions/suppression-store.ts';
import type { Rule } from './housekeeping.ts';

const STEP = 100;

export function endedSuppressions(deps: Parameters<typeof removeEnded>[0]): Rule {
  return {
    name: 'ended suppressions',
    everyMs: 60 * 60_000,
    stepRows: STEP,
    step: () => removeEnded(deps, STEP),
  };
}
