/** Keeps the tables of aggregate reports at their cap: housekeeping removes rows by age only, and one day may bring too many. */
import { budgets, type UsedUp } from '../base/budgets.ts';
import type { Committer } from '../storage/commit.ts';
import type { Connection } from '../storage/connection.ts';
import { AGGREGATE_KEY } from '../storage/tables.ts';
import type { AggregateRows } from './aggregate.ts';

type CappedTable = AggregateRows['table'] | 'aggregate_reports';

/** Rows removed at once: well under a millisecond each. */
const SLICE = 100;

export function createRowCap(db: { commit: Committer; prepared: Connection }, usedUp: UsedUp) {
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
      for (let left = count - most; left > 0; left -= SLICE)
        await db.commit.transact((tx) =>
          tx.run(`DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} ORDER BY ${by} LIMIT ?)`, [
            Math.min(SLICE, left),
          ]),
        );
    },
  };
}

async function countOf(db: Connection, table: CappedTable): Promise<number> {
  const [row] = await db.all<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`);
  return row?.n ?? 0;
}
