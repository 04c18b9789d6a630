/** Removes replaced DKIM keys when no mail signed with them can be in transit any more. */
import { removeRetiredKeys } from '../domains/dkim-rotation.ts';
import type { DomainDeps } from '../domains/domain-store.ts';
import type { Rule } from './housekeeping.ts';

export function retiredKeys(deps: Pick<DomainDeps, 'db' | 'clock'>): Rule {
  return {
    name: 'retired DKIM keys',
    everyMs: 60 * 60_000,
    // One step removes all: a domain has a few a year.
    stepRows: Infinity,
    step: () => removeRetiredKeys(deps),
  };
}
