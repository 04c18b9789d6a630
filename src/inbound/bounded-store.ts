/** Bounds the rows that strangers cause: the oldest of too many go, in steps, so that no other write waits long. */
import { budgets, type BudgetName } from '../base/budgets.ts';
import type { InboundContext } from './context.ts';
import type { Stranger } from './mx-budgets.ts';

type StoreContext = Pick<InboundContext, 'log' | 'usedUp'> & {
  db: Pick<InboundContext['db'], 'commit' | 'maintenance'>;
};

/** The members other than `name` and `most` are SQL. */
interface Part {
  name: BudgetName;
  most: number;
  table: string;
  /** The columns of the key, and those that say what is oldest. */
  key: string;
  age: string;
  where: string;
  /** The amount of one row. */
  amount: string;
}

/** It may have more than its limit by this factor while the oldest rows are removed. */
const SLACK = 1.2;
/** Rows that are removed at once. */
const STEP = 20;

type BoundedStore = ReturnType<typeof createBoundedStore>;

function createBoundedStore({ db, log, usedUp }: StoreContext, { name, most, table, key, age, where, amount }: Part) {
  /** The amount at the last look, with what came since. */
  let used = 0;
  let isCounted = false;
  let running: Promise<void> | null = null;

  async function removeOldest(): Promise<void> {
    try {
      const [row] = await db.maintenance.all<{ used: number | null }>(
        `SELECT SUM(${amount}) AS used FROM ${table} WHERE ${where}`,
      );
      used = row?.used ?? 0;
      isCounted = true;
      if (used > most) usedUp(name);
      for (let gone = -1; used > most && gone !== 0;) {
        gone = await removeSome();
        used -= gone;
      }
    } catch (err) {
      log.error(
        { event: 'reports_failed', err },
        'old reports could not be removed; it is tried again with the next one',
      );
    }
  }

  async function removeSome(): Promise<number> {
    // Unread mail has its own budgets.
    const mayGo = table === 'reports' ? `${where} AND kind IS NOT NULL` : where;
    const gone = await db.commit.transact((tx) =>
      tx.all<{ amount: number }>(
        `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE ${mayGo} ORDER BY ${age} LIMIT ?)
         RETURNING ${amount} AS amount`,
        [STEP],
      ),
    );
    return gone.reduce((sum, row) => sum + row.amount, 0);
  }

  return {
    /** Returns the budget that is used up if the oldest rows are removed too slowly, or null. */
    overfull: (): BudgetName | null => (used > most * SLACK ? name : null),
    add(more: number): void {
      used += more;
    },
    /** Removes what is too much. Resolves when that is done. */
    trim(): Promise<void> {
      if (isCounted && used <= most) return Promise.resolve();
      return (running ??= removeOldest().finally(() => {
        running = null;
      }));
    },
  };
}

/** As the indexes have it (migrations/001-schema.ts). */
const LOOSE = "(delivery_id IS NULL OR state = 'unverified')";
export const ROW_BYTES = 1000;

/** The mails that came to us: those about a delivery, and all others, which anyone can send in any number. `diskBytes`: the size of the disk. */
export function keptReports(context: StoreContext, diskBytes: number) {
  const store = (name: 'kept_loose' | 'kept_matched', share: number, where: string): BoundedStore =>
    createBoundedStore(context, {
      name,
      most: Math.min(budgets[name].most, diskBytes * share),
      table: 'reports',
      key: 'id',
      age: 'id',
      where,
      amount: `length(raw) + ${String(ROW_BYTES)}`,
    });
  const loose = store('kept_loose', 0.01, LOOSE);
  const matched = store('kept_matched', 0.05, `NOT ${LOOSE}`);
  return {
    of: ({ deliveryId }: Pick<Stranger, 'deliveryId'>): BoundedStore => (deliveryId === null ? loose : matched),
    async trim(): Promise<void> {
      for (const one of [loose, matched]) await one.trim();
    },
  };
}

/** Rows of a kind that aggregate reports bring. */
export const boundedRows = (context: StoreContext, table: string, key = 'id', age = 'id'): BoundedStore =>
  createBoundedStore(context, {
    name: 'aggregate_rows',
    most: budgets.aggregate_rows.most,
    ...{ table, key, age, where: 'true', amount: '1' },
  });
