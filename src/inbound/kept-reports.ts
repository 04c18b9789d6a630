/**
 * Bounds the disk space of received mails, in two stores: those about a delivery, and all others, which anyone can send in any
 * number. Each store has a size; the oldest are deleted when it is full. Unread mail stays: it has its own budgets.
 */
import { budgets, type BudgetName, type UsedUp } from '../base/budgets.ts';
import type { Log } from '../base/log.ts';
import type { Committer } from '../storage/commit.ts';
import type { Connection } from '../storage/connection.ts';
import { statement } from '../storage/sql.ts';
import type { Stranger } from './mx-budgets.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

interface Store {
  name: BudgetName;
  most: number;
  /** In SQL, as its index has it (migrations/001-schema.ts). */
  where: string;
  /** Bytes at the last look, and those that came since. */
  used: number;
}

const STEP = 20;
const ROW_BYTES = 1000;
const [LOOSE_SHARE, MATCHED_SHARE] = [0.01, 0.05];
/** A store may be larger than its limit by this factor while the oldest reports are removed. */
const SLACK = 1.2;

const LOOSE = "(delivery_id IS NULL OR state = 'unverified')";

export type KeptReports = ReturnType<typeof createKeptReports>;

/** `diskBytes`: the size of the disk. */
export function createKeptReports(
  { db, log, usedUp }: { db: { commit: Committer; maintenance: Connection }; log: Log; usedUp: UsedUp },
  diskBytes: number,
) {
  const store = (name: 'kept_loose' | 'kept_matched', share: number, where: string): Store => ({
    name,
    most: Math.min(budgets[name].most, diskBytes * share),
    where,
    used: 0,
  });
  const loose = store('kept_loose', LOOSE_SHARE, LOOSE);
  const matched = store('kept_matched', MATCHED_SHARE, `NOT ${LOOSE}`);
  const storeOf = ({ deliveryId }: Stranger): Store => (deliveryId === null ? loose : matched);
  let running: Promise<void> | null = null;

  async function trimAll(): Promise<void> {
    try {
      for (const one of [loose, matched]) await trimOne(one);
    } catch (err) {
      log.error(
        { event: 'reports_failed', err },
        'mails that came back could not be removed; it is tried again with the next one',
      );
    }
  }

  async function trimOne(one: Store): Promise<void> {
    one.used = await sizeOf(db.maintenance, one);
    if (one.used <= one.most) return;
    usedUp(one.name);
    for (let gone = -1; one.used > one.most && gone !== 0;) {
      gone = await removeOldest(one);
      one.used -= gone;
    }
  }

  const removeOldest = (one: Store): Promise<number> =>
    db.commit.transact(async (tx) => {
      const rows = await tx.all<{ id: string; bytes: number }>(
        `SELECT id, length(raw) + ${String(ROW_BYTES)} AS bytes FROM reports WHERE ${one.where} AND kind IS NOT NULL ORDER BY id LIMIT ?`,
        [STEP],
      );
      await tx.run(
        statement(({ among }) => `DELETE FROM reports WHERE id ${among('text')}`),
        [JSON.stringify(rows.map(({ id }) => id))],
      );
      return rows.reduce((sum, { bytes }) => sum + bytes, 0);
    });

  /** Looks at the rows again, and removes what is too much. Resolves when that is done. */
  function trim(): Promise<void> {
    return (running ??= trimAll().finally(() => {
      running = null;
    }));
  }

  return {
    /** Refuses mail while the oldest mails are deleted too slowly. */
    refusal(stranger: Stranger): SmtpRefusal | null {
      const { name, used, most } = storeOf(stranger);
      if (used <= most * SLACK) return null;
      usedUp(name);
      return refuse(452, '4.3.1 there is no room now: try again later');
    },
    added(stranger: Stranger, bytes: number): void {
      storeOf(stranger).used += bytes;
    },
    trim,
    /** Trims if too much has come since the last look. */
    trimIfFull: (): Promise<void> =>
      [loose, matched].some(({ used, most }) => used > most) ? trim() : Promise.resolve(),
  };
}

async function sizeOf(db: Connection, { where }: Store): Promise<number> {
  const [row] = await db.all<{ bytes: number | null }>(
    `SELECT SUM(length(raw) + ${String(ROW_BYTES)}) AS bytes FROM reports WHERE ${where}`,
  );
  return row?.bytes ?? 0;
}
