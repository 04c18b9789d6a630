/** Keeps what aggregate reports say (DMARC, TLS): each report once, within the budgets of its domain and of all. */
import { Allowance } from '../scheduling/allowance.ts';
import { budgets } from '../base/budgets.ts';
import type { Connection } from '../storage/connection.ts';
import type { Rows } from '../storage/rows.ts';
import { aggregateRows, domainsOf, faultOfAggregate, type Aggregate } from './aggregate.ts';
import { boundedRows } from './bounded-store.ts';
import type { InboundContext } from './context.ts';
import { AGGREGATE_KEY } from '../storage/tables.ts';

type AggregateContext = Pick<InboundContext, 'clock' | 'log' | 'db' | 'usedUp' | 'isOurHost'>;

interface Counted {
  /** True for a report about a domain of ours. */
  isOurs: boolean;
  already_counted: boolean;
  /** Why nothing of it was counted, or null. */
  refused: string | null;
  /** To be written in the same transaction, and to be done after it. */
  rows: Rows;
  done: () => Promise<unknown>;
}

const MOST_DOMAINS = 50;

export function createAggregateStore(context: AggregateContext) {
  const { clock, usedUp } = context;
  const ofDomain = new Allowance(budgets.aggregate_rows_domain);
  const stores = {
    dmarc_rows: boundedRows(context, 'dmarc_rows'),
    tls_report_rows: boundedRows(context, 'tls_report_rows'),
    aggregate_reports: boundedRows(context, 'aggregate_reports', AGGREGATE_KEY, 'report_id'),
  };

  return {
    /** Resolves with the act that counts a report in its mail's transaction, once for each domain: reporters send again when not sure. */
    async open(reportId: string, aggregate: Aggregate): Promise<(tx: Connection) => Promise<Counted>> {
      const now = clock.now();
      const own = await ownDomains(context, domainsOf(aggregate));
      const fault = faultOfAggregate(aggregate, now);
      const rowsOf = (domains: readonly string[]) => aggregateRows(reportId, aggregate, new Set(domains));
      /** A report without records costs a note of itself all the same. */
      const costOf = (domain: string): number => Math.max(1, rowsOf([domain]).rows.length);
      const fitting = own.filter((domain) => ofDomain.has(domain, costOf(domain), now));
      return async (tx) => {
        const granted = fault === null ? await uncounted(tx, reportId, aggregate, fitting) : [];
        const { table, rows } = rowsOf(granted);
        const isOver = granted.length === 0 && fitting.length < own.length;
        return {
          isOurs: own.length > 0,
          already_counted: fault === null && own.length > 0 && granted.length === 0 && !isOver,
          refused: fault ?? (isOver ? 'too many records for one day' : null),
          rows: { [table]: rows },
          async done() {
            if (fitting.length < own.length) usedUp('aggregate_rows_domain');
            for (const domain of granted) ofDomain.spend(domain, costOf(domain), now);
            stores[table].add(rows.length);
            stores.aggregate_reports.add(granted.length);
            if (granted.length > 0) await Promise.all([stores[table].trim(), stores.aggregate_reports.trim()]);
          },
        };
      };
    },
  };
}

/** Returns the domains that send from here, those above them (which may have the DMARC policy), and hosts that take mail for us. */
async function ownDomains({ db, isOurHost }: AggregateContext, about: readonly string[]): Promise<string[]> {
  const own: string[] = [];
  for (const domain of about.slice(0, MOST_DOMAINS)) {
    if (!/^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){1,30}$/.test(domain)) continue;
    const found = await db.prepared.all(
      'SELECT 1 FROM domains WHERE name = ? OR substr(name, length(name) - length(?) + 1) = ? LIMIT 1',
      [domain, `.${domain}`, `.${domain}`],
    );
    if (found.length > 0 || (await isOurHost(domain))) own.push(domain);
  }
  return own;
}

/** Notes for which of the domains the report is counted now, and returns them. */
async function uncounted(
  tx: Connection,
  reportId: string,
  { kind, report: { organization, id, from } }: Aggregate,
  domains: readonly string[],
): Promise<string[]> {
  const fresh: string[] = [];
  for (const domain of domains) {
    const noted = await tx.all(
      `INSERT INTO aggregate_reports (kind, org, report_key, domain, from_at, report_id) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT DO NOTHING RETURNING 1`,
      [kind, organization, id, domain, from, reportId],
    );
    if (noted.length > 0) fresh.push(domain);
  }
  return fresh;
}
