/** Checks domains again every few hours, so that a removed record is noticed before mail fails. */
import { checkTimes, domainsToCheck, domainsToReport, notifyMembers } from '../domains/domain-watch.ts';
import { verifyDomain, type VerifyDeps } from '../domains/verify.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { DomainDeps } from '../domains/domain-store.ts';
import type { DomainWithKeys } from '../domains/domain-record.ts';
import type { Notice } from '../storage/rows.ts';
import type { Rule } from './housekeeping.ts';

export function domainChecks(deps: VerifyDeps) {
  return {
    name: 'domain checks',
    everyMs: 60_000,
    async step(): Promise<number> {
      const due = await domainsToCheck(deps, checkTimes);
      await Promise.all(due.map(({ id }) => verifyDomain(deps, { accountId: null, nameOrId: id })));
      // The rule deletes nothing.
      return 0;
    },
  };
}

interface Deps extends DomainDeps {
  clock: Clock;
  log: Pick<Log, 'info'>;
  /** Tells the people of a domain that it has lost a record. */
  notice: Notice<DomainWithKeys>;
}

export function domainNotices(deps: Deps): Rule {
  return {
    name: 'domain notices',
    everyMs: 60_000,
    silent: true,
    async step(rows) {
      const due = await domainsToReport(deps, rows);
      if (due.length > 0) await deps.notice.prepare();
      for (const domain of due) await tell(deps, domain);
      return due.length;
    },
  };
}

async function tell({ db, clock, log, notice }: Deps, { row, keys }: DomainWithKeys): Promise<void> {
  const done = await notifyMembers({ db, clock }, row.id, (tx, now) => notice.of(tx, { row: now, keys }));
  if (done === null) return;
  done.written();
  const fields = { event: 'domain_notice', domain: row.name, account_id: row.account_id, told: done.recipients };
  log.info(fields, 'mails about a lost DNS record of a domain were written to its people');
}
