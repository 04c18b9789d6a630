/**
 * What strangers fill in the database: a table or a part of it. When it has too much its oldest rows go, in steps, so that no other write
 * waits long.
 */
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
  /** The rows that may go. */
  mayGo: string;
  /** The amount of one row. */
  amount: string;
  /** Rows that are removed at once. */
  step: number;
}

/** It may have more than its limit by this factor while the oldest rows are removed. */
const SLACK = 1.2;

export class BoundedStore {
  private readonly context: StoreContext;
  private readonly part: Part;
  /** The amount at the last look, with what came since. */
  private used = 0;
  private isCounted = false;
  private running: Promise<void> | null = null;

  constructor(context: StoreContext, part: Part) {
    this.context = context;
    this.part = part;
  }

  /** Returns the budget that is used up if the oldest rows are removed too slowly, or null. */
  get overfull(): BudgetName | null {
    return this.used > this.part.most * SLACK ? this.part.name : null;
  }

  add(amount: number): void {
    this.used += amount;
  }

  /** Removes what is too much. Resolves when that is done. */
  trim(): Promise<void> {
    if (this.isCounted && this.used <= this.part.most) return Promise.resolve();
    return (this.running ??= this.removeOldest().finally(() => {
      this.running = null;
    }));
  }

  private async removeOldest(): Promise<void> {
    const { context, part } = this;
    try {
      const [row] = await context.db.maintenance.all<{ used: number | null }>(
        `SELECT SUM(${part.amount}) AS used FROM ${part.table} WHERE ${part.where}`,
      );
      this.used = row?.used ?? 0;
      this.isCounted = true;
      if (this.used > part.most) context.usedUp(part.name);
      for (let gone = -1; this.used > part.most && gone !== 0;) {
        gone = await this.removeSome();
        this.used -= gone;
      }
    } catch (err) {
      const text = 'old reports could not be removed; it is tried again with the next one';
      context.log.error({ event: 'reports_failed', err }, text);
    }
  }

  private async removeSome(): Promise<number> {
    const { table, key, age, where, mayGo, amount, step } = this.part;
    const gone = await this.context.db.commit.transact((tx) =>
      tx.all<{ amount: number }>(
        `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE ${where} AND ${mayGo} ORDER BY ${age} LIMIT ?)
         RETURNING ${amount} AS amount`,
        [step],
      ),
    );
    return gone.reduce((sum, row) => sum + row.amount, 0);
  }
}

/** As the indexes have it (migrations/001-schema.ts). */
const LOOSE = "(delivery_id IS NULL OR state = 'unverified')";
const [LOOSE_SHARE, MATCHED_SHARE] = [0.01, 0.05];
export const ROW_BYTES = 1000;

/** The mails that came to us: those about a delivery, and all others, which anyone can send in any number. `diskBytes`: the size of the disk. */
export function keptReports(context: StoreContext, diskBytes: number) {
  const store = (name: 'kept_loose' | 'kept_matched', share: number, where: string): BoundedStore =>
    new BoundedStore(context, {
      name,
      most: Math.min(budgets[name].most, diskBytes * share),
      table: 'reports',
      key: 'id',
      age: 'id',
      where,
      // Unread mail has its own budgets.
      mayGo: 'kind IS NOT NULL',
      amount: `length(raw) + ${String(ROW_BYTES)}`,
      step: 20,
    });
  const loose = store('kept_loose', LOOSE_SHARE, LOOSE);
  const matched = store('kept_matched', MATCHED_SHARE, `NOT ${LOOSE}`);
  return {
    of: ({ deliveryId }: Pick<Stranger, 'deliveryId'>): BoundedStore => (deliveryId === null ? loose : matched),
    async trim(): Promise<void> {
      for (const one of [loose, matched]) await one.trim();
    },
  };
}

/** Rows of a kind that aggregate reports bring. */
export const boundedRows = (context: StoreContext, table: string, key: string, age: string): BoundedStore =>
  new BoundedStore(context, {
    name: 'aggregate_rows',
    most: budgets.aggregate_rows.most,
    ...{ table, key, age, where: 'true', mayGo: 'true', amount: '1', step: 100 },
  });
