/** Domains are checked again every few hours: a record that somebody removed is told of before the mail suffers. */
import type { Log } from '../base/log.ts';
import { domainsToCheck } from '../domains/domain-store.ts';
import { verifyDomain, type VerifyDeps } from '../domains/verify.ts';
import type { Rule } from './housekeeping.ts';

/** At once: each costs half a dozen look-ups. One step a minute is enough for 7,000 domains. */
const STEP = 20;
export const CHECK_EVERY_MS = 6 * 60 * 60_000;
/** A domain that waits for its records, or lost one, is looked at more often: mail may be held for it. */
export const CHECK_BROKEN_EVERY_MS = 30 * 60_000;

export function domainChecks(deps: VerifyDeps & { log: Pick<Log, 'warn' | 'info'> }): Rule {
  return {
    name: 'domain checks',
    everyMs: 60_000,
    stepRows: Infinity,
    async step() {
      const due = await domainsToCheck(deps, { every: CHECK_EVERY_MS, brokenEvery: CHECK_BROKEN_EVERY_MS, most: STEP });
      await Promise.all(due.map((row) => check(deps, row)));
      // Nothing was deleted.
      return 0;
    },
  };
}

async function check(
  deps: Parameters<typeof domainChecks>[0],
  before: { id: string; name: string; status: string },
): Promise<void> {
  const { row } = await verifyDomain(deps, { accountId: null, nameOrId: before.id });
  if (row.status === before.status) return;
  const fields = { event: 'domain_status', domain: row.name, before: before.status, status: row.status };
  if (row.status === 'verified') deps.log.info(fields, 'a domain is verified');
  else deps.log.warn(fields, 'a required DNS record of a domain is missing or wrong; its mail is held');
}
