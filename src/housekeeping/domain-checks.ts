/** Checks domains again every few hours, so that a removed record is noticed before mail fails. */
import { domainsToCheck } from '../domains/domain-watch.ts';
import { verifyDomain, type VerifyDeps } from '../domains/verify.ts';
import type { Rule } from './housekeeping.ts';
import { HOUR_MS, MINUTE_MS } from '../base/time.ts';

/** Domains checked in one step: each costs half a dozen look-ups. One step a minute is enough for 7,000 domains. */
const STEP = 20;
export const CHECK_EVERY_MS = 6 * HOUR_MS;
/** A domain that lost a record is checked more often, since its mail is or soon will be refused. */
export const CHECK_BROKEN_EVERY_MS = 30 * MINUTE_MS;

/** A domain that was just added is checked while its owner publishes the records. */
const CHECK_FRESH = { every: 2 * MINUTE_MS, forMs: HOUR_MS };
export const checkTimes = {
  every: CHECK_EVERY_MS,
  brokenEvery: CHECK_BROKEN_EVERY_MS,
  fresh: CHECK_FRESH,
  most: STEP,
} as const;

export function domainChecks(deps: VerifyDeps): Rule {
  return {
    name: 'domain checks',
    everyMs: 60_000,
    stepRows: Infinity,
    async step() {
      const due = await domainsToCheck(deps, checkTimes);
      await Promise.all(due.map(({ id }) => verifyDomain(deps, { accountId: null, nameOrId: id })));
      // The rule deletes nothing.
      return 0;
    },
  };
}
