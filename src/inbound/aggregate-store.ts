/** Keeps what aggregate reports say (DMARC, TLS): each report once, within the budgets of its domain and of all. */
import { Allowance } from '../scheduling/allowance.ts';
import { budgets } from '../base/budgets.ts';
import type { Connection } from '../storage/connection.ts';
import { insertRows } from '../storage/rows.ts';
import { aggregateRows, domainsOf, faultOfAggregate, type Aggregate } from './aggregate.ts';
import { boundedRows } from './bounded-store.ts';
import type { InboundContext } from './context.ts';
import { AGGREGATE_KEY } from '../storage/tables.ts';

type AggregateContext = Pick<InboundContext, 'clock' | 'log' | 'db' | 'usedUp' | 'isOurHost'>;

export interface KeptAggregate {
  /** True for a report about a domain of ours. */
  isOurs: boolean;
  rows: number;
  alreadyCounted: boolean;
  /** Why nothing of it was counted, or null. */
  refused: string | null;
}

const MOST_DOMAINS = 50;

export function createAggregateStore(context: AggregateContext) {
  const { clock, db, usedUp } = context;
  const ofDomain = new Allowance(budgets.aggregate_rows_domain);
  const stores = {
    dmarc_rows: boundedRows(context, 'dmarc_rows', 'id', 'id'),
    tls_report_rows: boundedRows(context, 'tls_report_rows', 'id', 'id'),
    aggregate_reports: boundedRows(context, 'aggregate_reports', AGGREGATE_KEY, 'report_id'),
  };

  /** A report without records costs a note of itself all the same. */
  const costOf = (id: string, aggregate: Aggregate, domain: string): number =>
    Math.max(1, aggregateRows(id, aggregate, new Set([domain])).rows.length);

  return {
    /**
     * Counts a report for those of our domains for which it was not counted before: reporters send again what they are not sure of.
     * `finish` writes the new state of the mail, in the same transaction.
     */
    async keep(
      reportId: string,
      aggregate: Aggregate,
      finish: (tx: Connection, kept: KeptAggregate) => Promise<void>,
    ): Promise<KeptAggregate> {
      const now = clock.now();
      const own = await ownDomains(context, domainsOf(aggregate));
      const fault = faultOfAggregate(aggregate, now);
      const fitting = own.filter((domain) => ofDomain.has(domain, costOf(reportId, aggregate, domain), now));
      const { table, kept, granted } = await db.commit.transact(async (tx) => {
        const granted = fault === null ? await uncounted(tx, reportId, aggregate, fitting) : [];
        const { table, rows } = aggregateRows(reportId, aggregate, new Set(granted));
        await insertRows(tx, [{ [table]: rows }]);
        const isOver = granted.length === 0 && fitting.length < own.length;
        const kept = {
          isOurs: own.length > 0,
          rows: rows.length,
          alreadyCounted: fault === null && own.length > 0 && granted.length === 0 && !isOver,
          refused: fault ?? (isOver ? 'too many records for one day' : null),
        };
        await finish(tx, kept);
        return { table, kept, granted };
      });
      if (fitting.length < own.length) usedUp('aggregate_rows_domain');
      for (const domain of granted) ofDomain.spend(domain, costOf(reportId, aggregate, domain), now);
      if (granted.length === 0) return kept;
      stores[table].add(kept.rows);
      stores.aggregate_reports.add(granted.length);
      await Promise.all([stores[table].trim(), stores.aggregate_reports.trim()]);
      return kept;
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
