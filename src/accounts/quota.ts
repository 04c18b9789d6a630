/**
 * How much mail an account may have accepted per UTC day and month, by its plan. Every recipient counts, as in the books;
 * what is suppressed at acceptance does not.
 *
 * The books are read once an account and start; from then on what is accepted is counted in memory, since all mail is
 * accepted by this process. Room is taken before the commit and given back where it fails, so that requests side by side
 * cannot pass the limit together. An account whose plan has no quota costs nothing here.
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import type { Database } from '../storage/database.ts';

/** Most mails a day and a month; null means no limit. */
export interface QuotaLimits {
  mailsPerDay: number | null;
  mailsPerMonth: number | null;
}

export interface Quotas {
  /** Takes room for so many mails; the returned function gives it back. Throws `quota_exceeded` with the time to wait. */
  take(accountId: string, limits: QuotaLimits, mails: number): Promise<() => void>;
  /** Mails accepted today and this month. */
  used: (accountId: string) => Promise<{ today: number; thisMonth: number }>;
}

interface Count {
  day: string;
  /** Mails of `day`, and of its whole month. */
  today: number;
  thisMonth: number;
}

const MOST_ACCOUNTS = 10_000;
const nothing = (): void => undefined;

export function createQuotas({ db, clock }: { db: Pick<Database, 'prepared'>; clock: Clock }): Quotas {
  const counts = new LRUCache<string, Promise<Count>>({ max: MOST_ACCOUNTS });

  function countOf(accountId: string, day: string): Promise<Count> {
    const known = counts.get(accountId);
    if (known !== undefined) return known;
    const loading = readCount(db, accountId, day);
    counts.set(accountId, loading);
    loading.catch(() => {
      if (counts.peek(accountId) === loading) counts.delete(accountId);
    });
    return loading;
  }

  return {
    async take(accountId, limits, mails) {
      if (limits.mailsPerDay === null && limits.mailsPerMonth === null) {
        // Under a plan with a quota later on, what was accepted meanwhile is read from the books.
        counts.delete(accountId);
        return nothing;
      }
      const now = clock.now();
      const day = dayOf(now);
      const count = await countOf(accountId, day);
      turn(count, day);
      refuseBeyond(limits, count, mails, now);
      count.today += mails;
      count.thisMonth += mails;
      return () => {
        if (count.day === day) count.today -= mails;
        if (sameMonth(count.day, day)) count.thisMonth -= mails;
      };
    },
    async used(accountId) {
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

/** A new day begins at nothing, and so does a new month. */
function turn(count: Count, day: string): void {
  if (count.day === day) return;
  if (!sameMonth(count.day, day)) count.thisMonth = 0;
  count.today = 0;
  count.day = day;
}

function refuseBeyond(limits: QuotaLimits, count: Count, mails: number, now: number): void {
  // The month first: its end is the time that has to be waited for then.
  if (limits.mailsPerMonth !== null && count.thisMonth + mails > limits.mailsPerMonth)
    throw exceeded('month', limits.mailsPerMonth, count.thisMonth, endOfMonth(now) - now);
  if (limits.mailsPerDay !== null && count.today + mails > limits.mailsPerDay)
    throw exceeded('day', limits.mailsPerDay, count.today, endOfDay(now) - now);
}

function exceeded(span: 'day' | 'month', limit: number, used: number, waitMs: number): Problem {
  const words = `the plan allows ${String(limit)} mails a ${span} (UTC), and ${String(used)} were accepted`;
  return new Problem('quota_exceeded', words, { retryAfter: Math.ceil(waitMs / 1000) });
}

const dayOf = (now: number): string => new Date(now).toISOString().slice(0, 10);
const sameMonth = (a: string, b: string): boolean => a.slice(0, 7) === b.slice(0, 7);

function endOfDay(now: number): number {
  const at = new Date(now);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate() + 1);
}

function endOfMonth(now: number): number {
  const at = new Date(now);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1);
}
