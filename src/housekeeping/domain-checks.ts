/** Domains are checked again every few hours: a record that somebody removed is told of before the mail suffers. */
import { domainsToCheck } from '../domains/domain-watch.ts';
import { verifyDomain, type VerifyDeps } from '../domains/verify.ts';
import type { Rule } from './housekeeping.ts';

/** At once: each costs half a dozen look-ups. One step a minute is enough for 7,000 domains. */
const STEP = 20;
export const CHECK_EVERY_MS = 6 * 60 * 60_000;
/** A domain that lost a record is looked at more often: its mail is refused before long, or is already. */
export const CHECK_BROKEN_EVERY_MS = 30 * 60_000;

export function domainChecks(deps: VerifyDeps): Rule {
  return {
    name: 'domain checks',
    everyMs: 60_000,
    stepRows: Infinity,
    async step() {
      const due = await domainsToCheck(deps, { every: CHECK_EVERY_MS, brokenEvery: CHECK_BROKEN_EVERY_MS, most: STEP });
      await Promise.all(due.map(({ id }) => verifyDomain(deps, { accountId: null, nameOrId: id })));
      // Nothing was deleted.
      return 0;
    },
  };
}
