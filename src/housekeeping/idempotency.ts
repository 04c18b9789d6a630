/** Removes answers kept for repeated requests after their 24 hours. Most of all rows that expire are these. */
import type { Clock } from '../base/clock.ts';
import { PURGE_STEP, type IdempotencyStore } from '../storage/idempotency-store.ts';
import type { Rule } from './housekeeping.ts';

export function expiredIdempotency(deps: { store: Pick<IdempotencyStore, 'purge'>; clock: Clock }): Rule {
  return {
    name: 'expired idempotency keys',
    everyMs: 10 * 60_000,
    stepRows: PURGE_STEP,
    step: () => deps.store.purge(deps.clock.now()),
  };
}
