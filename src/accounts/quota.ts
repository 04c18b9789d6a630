/**
 * Limits how much mail an account may have accepted per UTC day and month, by its plan. Every recipient counts, as in the
 * books, except those that are suppressed at acceptance.
 *
 * The books are read once for each account after a start; from then on accepted mail is counted in memory, because this process
 * accepts all mail. Quota is taken before the commit and returned if it fails, so that concurrent requests cannot exceed the
 * limit. An account without a quota costs nothing here.
 */
import { createLru } from '../base/lru.ts';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import type { Database } from '../storage/database.ts';
import { dayOf } from '../base/time.ts';

/** The most mails per day and month; null means no limit. */
export interface QuotaLimits {
  mailsPerDay: number | null;
  mailsPerMonth: number | null;
}

interface Count {
  day: string;
  /** Mails of `day`, and of its month until then. */
  today: number;
  thisMonth: number;
}

const MOST_ACCOUNTS = 10_000;
const noop = (): void => undefined;

export function createQuotas({ db, clock }: { db: Pick<Database, 'prepared'>; clock: Clock }) {
  const counts = createLru<string, Promise<Count>>(MOST_ACCOUNTS);

  function countOf(accountId: string, day: string): Promise<Count> {
    const loaded = counts.get(accountId);
    if (loaded !== undefined) return loaded;
    const loading = readCount(db, accountId, day);
    counts.set(accountId, loading);
    loading.catch(() => {
      if (counts.peek(accountId) === loading) counts.delete(accountId);
    });
    return loading;
  }

  return {
    /** Takes so many mails from the quota; the returned function gives them back. Throws `quota_exceeded` with the time to wait. */
    async take(accountId: string, limits: QuotaLimits, mails: number): Promise<() => void> {
      if (limits.mailsPerDay === null && limits.mailsPerMonth === null) {
        // If the plan gets a quota later, the books are read again.
        counts.delete(accountId);
        return noop;
      }
      const now = clock.now();
      const day = dayOf(now);
      const count = await countOf(accountId, day);
      startDay(count, day);
      refuseExcess(limits, count, mails, now);
      count.today += mails;
      count.thisMonth += mails;
      return () => {
        if (count.day === day) count.today -= mails;
        if (sameMonth(count.day, day)) count.thisMonth -= mails;
      };
    },
    /** Returns the mails accepted today and this month. */
    used: async (accountId: string): Promise<{ today: number; thisMonth: number }> => {
      const { today, thisMonth } = await readCount(db, accountId, dayOf(clock.now()));
      return { today, thisMonth };
    },
  };
}

async function readCount(db: Pick<Database, 'prepared'>, accountId: string, day: string): Promise<Count> {
  const [row] = await db.prepared.all<{ today: number | null; month: number | null }>(
    `SELECT SUM(CASE WHEN day = ? THEN n ELSE 0 END) AS today, SUM(n) AS month FROM counters
     WHERE account_id = ? AND day >= ? AND day <= ? AND from_status = 'none' AND to_status <> 'suppressed'`,
    [day, accountId, `${day.slice(0, 7)}-01`, day],
  );
  return { day, today: row?.today ?? 0, thisMonth: row?.month ?? 0 };
}

/** Starts the counts of a new day, and of a new month, at 0. */
function startDay(count: Count, day: string): void {
  if (count.day === day) return;
  if (!sameMonth(count.day, day)) count.thisMonth = 0;
  count.today = 0;
  count.day = day;
}

function refuseExcess(limits: QuotaLimits, count: Count, mails: number, now: number): void {
  // The month comes first: its end is the longer wait.
  if (limits.mailsPerMonth !== null && count.thisMonth + mails > limits.mailsPerMonth)
    throw exceeded('month', limits.mailsPerMonth, count.thisMonth, endOfMonth(now) - now);
  if (limits.mailsPerDay !== null && count.today + mails > limits.mailsPerDay)
    throw exceeded('day', limits.mailsPerDay, count.today, endOfDay(now) - now);
}

function exceeded(span: 'day' | 'month', limit: number, used: number, waitMs: number): Problem {
  const words = `The plan allows ${String(limit)} mails a ${span} (UTC), and ${String(used)} were accepted. Wait, or ask the operator for another plan.`;
  return new Problem('quota_exceeded', words, { retryAfter: Math.ceil(waitMs / 1000) });
}

const sameMonth = (a: string, b: string): boolean => a.slice(0, 7) === b.slice(0, 7);

function endOfDay(now: number): number {
  const at = new Date(now);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate() + 1);
}

function endOfMonth(now: number): number {
  const at = new Date(now);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1);
}
