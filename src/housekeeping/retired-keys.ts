/** DKIM keys that were replaced go when no mail signed with them can be on its way any more. */
import { removeRetiredKeys } from '../domains/dkim-rotation.ts';
import type { DomainDeps } from '../domains/domain-store.ts';
import type { Rule } from './housekeeping.ts';

export function retiredKeys(deps: Pick<DomainDeps, 'db' | 'clock'>): Rule {
  return {
    name: 'retired DKIM keys',
    everyMs: 60 * 60_000,
    // There are a few a domain and year: one step takes them all.
    stepRows: Infinity,
    step: () => removeRetiredKeys(deps),
  };
}
