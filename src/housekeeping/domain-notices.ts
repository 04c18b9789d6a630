/**
 * Tells the people of an account by mail, once for each failure, that a domain of theirs has lost a DNS record. The domain's row notes
 * it in the transaction of the mail, whichever process or request found the record missing.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { DomainDeps } from '../domains/domain-store.ts';
import { domainsToReport, notifyMembers } from '../domains/domain-watch.ts';
import type { DomainWithKeys } from '../domains/domain-record.ts';
import type { Connection } from '../storage/connection.ts';
import type { Rows } from '../storage/rows.ts';
import type { Rule } from './housekeeping.ts';

/** Makes the notice to the people of a domain that has lost a record. */
export interface DomainNotice {
  /** Runs before anything is written. */
  prepare(): Promise<void>;
  /** Returns the rows of the mail, the number of people it goes to, and what to do after the commit. */
  of(
    tx: Pick<Connection, 'all'>,
    domain: DomainWithKeys,
  ): Promise<{ rows: readonly Rows[]; recipients: number; written(): void }>;
}

interface Deps extends DomainDeps {
  clock: Clock;
  log: Pick<Log, 'info'>;
  notice: DomainNotice;
}

const STEP = 20;

export function domainNotices(deps: Deps): Rule {
  return {
    name: 'domain notices',
    everyMs: 60_000,
    stepRows: STEP,
    silent: true,
    async step() {
      const due = await domainsToReport(deps, STEP);
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
