/**
 * Keeps what aggregate reports say (DMARC, TLS): each report once, its records in slices so that no other write waits long, within
 * the budgets of its domain and of all. One report after the other: the same one, sent twice at once, is then found to be known.
 */
import type { Clock } from '../base/clock.ts';
import { Allowance } from '../scheduling/allowance.ts';
import { budgets, type UsedUp } from '../base/budgets.ts';
import type { Committer } from '../storage/commit.ts';
import type { Connection } from '../storage/connection.ts';
import { insertRows } from '../storage/rows.ts';
import { statement } from '../storage/sql.ts';
import { InTurn } from './in-turn.ts';
import { aggregateRows, domainsOf, faultOfAggregate, type Aggregate, type AggregateRows } from './aggregate.ts';
import { AGGREGATE_KEY } from '../storage/tables.ts';

export interface AggregateStoreDeps {
  clock: Clock;
  db: { commit: Committer; prepared: Connection };
  usedUp: UsedUp;
  /** True for a host whose mail comes to us. */
  isOurHost(host: string): Promise<boolean>;
}

export interface KeptAggregate {
  /** True for a report about a domain of ours. */
  isOurs: boolean;
  rows: number;
  alreadyCounted: boolean;
  /** Why nothing of it was counted, or null. */
  refused: string | null;
}

/** The part of a report that is counted. */
interface Chosen {
  /** The domains of ours that it is about. */
  own: readonly string[];
  fault: string | null;
  /** Those for which it was not counted before. */
  fresh: readonly string[];
  /** Those whose budget has room for it, with what it costs there. */
  granted: readonly { domain: string; cost: number }[];
  rows: AggregateRows;
}

const MOST_DOMAINS = 50;
/** Well under a millisecond each. */
const SLICE = 100;

export function createAggregateStore(deps: AggregateStoreDeps) {
  const { clock, db, usedUp } = deps;
  const ofDomain = new Allowance(budgets.aggregate_rows_domain);
  const rowCap = createRowCap(db, usedUp);
  const reports = new InTurn();

  async function keepOne(
    reportId: string,
    aggregate: Aggregate,
    finish: (tx: Connection, kept: KeptAggregate) => Promise<void>,
  ): Promise<KeptAggregate> {
    const own = await ownDomains(deps, domainsOf(aggregate));
    const fault = faultOfAggregate(aggregate, clock.now());
    const fresh = fault === null ? await uncounted(db.prepared, reportId, aggregate, own) : [];
    const now = clock.now();
    const { granted, rows } = grantedOf(reportId, aggregate, fresh, now);
    const writing = write(reportId, aggregate, { own, fault, fresh, granted, rows }, finish);
    const kept = await writing.catch((error: unknown) => {
      // The report is read again, and must not find the budget used up by itself.
      for (const { domain, cost } of granted) ofDomain.giveBack(domain, cost, now, clock.now());
      throw error;
    });
    await rowCap.added(rows.table, rows.rows.length);
    await rowCap.added('aggregate_reports', granted.length);
    return kept;
  }

  async function write(
    reportId: string,
    aggregate: Aggregate,
    { own, fault, fresh, granted, rows }: Chosen,
    finish: (tx: Connection, kept: KeptAggregate) => Promise<void>,
  ): Promise<KeptAggregate> {
    for (let at = 0; at < rows.rows.length; at += SLICE) await insertSlice(rows, at);
    const refused = fault ?? (granted.length < fresh.length ? 'too many records for one day' : null);
    const kept = {
      isOurs: own.length > 0,
      rows: rows.rows.length,
      alreadyCounted: fault === null && own.length > 0 && fresh.length === 0,
      refused,
    };
    await db.commit.transact(async (tx) => {
      const { kind, report } = aggregate;
      for (const { domain } of granted)
        await tx.run(
          'INSERT INTO aggregate_reports (kind, org, report_key, domain, from_at, report_id) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
          [kind, report.organization, report.id, domain, report.from, reportId],
        );
      await finish(tx, kept);
    });
    return kept;
  }

  /** Returns the domains whose records fit into the budget of the day, and the rows of these. */
  function grantedOf(
    id: string,
    aggregate: Aggregate,
    fresh: readonly string[],
    now: number,
  ): Pick<Chosen, 'granted' | 'rows'> {
    const granted = fresh.flatMap((domain) => {
      const { length } = aggregateRows(id, aggregate, new Set([domain])).rows;
      // A report without records costs a note of itself all the same.
      const cost = Math.max(1, length);
      const fits = ofDomain.has(domain, cost, now);
      if (fits) ofDomain.spend(domain, cost, now);
      else usedUp('aggregate_rows_domain');
      return fits ? [{ domain, cost }] : [];
    });
    return { granted, rows: aggregateRows(id, aggregate, new Set(granted.map(({ domain }) => domain))) };
  }

  async function insertSlice({ table, rows }: AggregateRows, at: number): Promise<void> {
    const slice = rows.slice(at, at + SLICE);
    await db.commit.transact(async (tx) => {
      // After a crash in the middle the same rows come again.
      await tx.run(
        statement(({ among }) => `DELETE FROM ${table} WHERE id ${among('text')}`),
        [JSON.stringify(slice.map(({ id }) => id))],
      );
      await insertRows(tx, [{ [table]: slice }]);
    });
  }

  return {
    /** `finish` writes the new state of the mail, in one transaction with the note that the report was counted. */
    keep(...report: Parameters<typeof keepOne>): Promise<KeptAggregate> {
      return reports.run('', () => keepOne(...report));
    },
  };
}

/** Returns the domains that send from here, those above them (which may have the DMARC policy), and hosts that take mail for us. */
async function ownDomains(
  { db, isOurHost }: Pick<AggregateStoreDeps, 'db' | 'isOurHost'>,
  about: readonly string[],
): Promise<string[]> {
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

/** Returns those of the domains that this report has not been counted for yet. Reporters send again what they are not sure of. */
async function uncounted(
  db: Connection,
  reportId: string,
  { kind, report }: Aggregate,
  domains: readonly string[],
): Promise<string[]> {
  const known = await db.all<{ domain: string }>(
    'SELECT domain FROM aggregate_reports WHERE kind = ? AND org = ? AND report_key = ? AND from_at = ? AND report_id <> ?',
    [kind, report.organization, report.id, report.from, reportId],
  );
  const counted = new Set(known.map(({ domain }) => domain));
  return domains.filter((domain) => !counted.has(domain));
}

type CappedTable = AggregateRows['table'] | 'aggregate_reports';

/** Rows removed at once: well under a millisecond each. */
const CAP_SLICE = 100;

function createRowCap(db: { commit: Committer; prepared: Connection }, usedUp: UsedUp) {
  /** The rows of each table, counted once and kept up to date since. */
  const counts = new Map<CappedTable, number>();
  return {
    /** Removes the oldest rows of a table if it has too many, now that rows were added. */
    async added(table: CappedTable, rows: number): Promise<void> {
      if (rows === 0) return;
      const known = counts.get(table);
      const count = known === undefined ? await countOf(db.prepared, table) : known + rows;
      const { most } = budgets.aggregate_rows;
      counts.set(table, Math.min(count, most));
      if (count > most) usedUp('aggregate_rows');
      const [by, key] = table === 'aggregate_reports' ? ['report_id', AGGREGATE_KEY] : (['id', 'id'] as const);
      for (let left = count - most; left > 0; left -= CAP_SLICE)
        await db.commit.transact((tx) =>
          tx.run(`DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} ORDER BY ${by} LIMIT ?)`, [
            Math.min(CAP_SLICE, left),
          ]),
        );
    },
  };
}

async function countOf(db: Connection, table: CappedTable): Promise<number> {
  const [row] = await db.all<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`);
  return row?.n ?? 0;
}
