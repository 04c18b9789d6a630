/**
 * Limits how much mail an account may have accepted per UTC day and month, by its plan. Every recipient counts, as in the books, except those that
 * are suppressed at acceptance and those of simulated mail. The books are read once a day for each account; from then on accepted mail is counted in
 * memory. Quota is taken before the commit and returned if it fails, so that concurrent requests cannot exceed the limit. An account without a quota
 * costs nothing here. If other nodes accept mail too, the books are read again before a mail that comes two seconds after the last reading. So an
 * account exceeds its quota by at most what the other nodes accept for it in two seconds.
 */
import { createLru } from '../base/lru.ts';
import { Problem } from '../base/problem.ts';
import type { Database, StoreDeps } from '../storage/database.ts';
import { dayOf } from '../base/time.ts';

/** The most mails per day and month; null means no limit. */
export interface QuotaLimits {
  mailsPerDay: number | null;
  mailsPerMonth: number | null;
}

/** Gives back what was taken, if the mails were not accepted after all. */
export type SettleQuota = (isAccepted: boolean) => void;

interface Books {
  /** Mails of the day, and of its month until then. */
  today: number;
  thisMonth: number;
}

/** The books of a day as they were read, and the mails that were taken since. */
interface Count extends Books {
  /** When the last reading began, in ms of the monotonic clock. */
  readAt: number;
  /** Mails that were taken and are not in the books yet. */
  open: number;
  /** Mails of this node that came into the books since the last reading began: it may have seen them or not. */
  sinceRead: number;
  reading: Promise<void> | null;
}

/** In the books, the status from which simulated mail that was accepted goes to `none`: these rows are subtracted, and belong to no balance. */
export const SIMULATED = 'simulated';

export const isCharged = ({ status, test }: { status: string; test: number }): boolean =>
  status !== 'suppressed' && test === 0;

const MOST_ACCOUNTS = 10_000;
/** The age at which the books are read again if other nodes accept mail, in milliseconds. */
const FRESH_MS = 2000;
const noop = (): void => undefined;
const unread = (): Count => ({ today: 0, thisMonth: 0, readAt: -Infinity, open: 0, sinceRead: 0, reading: null });

/** `hasOthers` returns whether other nodes accept mail too. */
export function createQuotas({ db, clock, hasOthers }: StoreDeps & { hasOthers: () => boolean }) {
  /** By account and day, since a new day begins at 0. */
  const counts = createLru<string, Count>(MOST_ACCOUNTS);

  /** Reads the books (again). Mails that may be in them or not are counted beside them until the next reading. */
  async function read(accountId: string, day: string, count: Count): Promise<void> {
    const readAt = clock.monotonic();
    count.sinceRead = 0;
    const { today, thisMonth } = await readBooks(db, accountId, day);
    const own = count.open + count.sinceRead;
    Object.assign(count, { readAt, today: today + own, thisMonth: thisMonth + own });
  }

  /** Returns a count that is new enough for what other nodes accept. */
  async function countOf(accountId: string, day: string): Promise<Count> {
    const key = `${accountId} ${day}`;
    const count = counts.get(key) ?? unread();
    counts.set(key, count);
    const age = clock.monotonic() - count.readAt;
    if (age === Infinity || (hasOthers() && age >= FRESH_MS)) {
      count.reading ??= read(accountId, day, count).finally(() => {
        count.reading = null;
      });
      await count.reading;
    }
    return count;
  }

  return {
    /** Takes mails from the quota; the returned function is called when they are accepted or not. Throws `quota_exceeded` with the time to wait. */
    async take(accountId: string, limits: QuotaLimits, mails: number): Promise<SettleQuota> {
      const now = clock.now();
      const day = dayOf(now);
      if (limits.mailsPerDay === null && limits.mailsPerMonth === null) {
        // If the plan gets a quota later, the books are read again.
        counts.delete(`${accountId} ${day}`);
        return noop;
      }
      const count = await countOf(accountId, day);
      refuseExcess(limits, count, mails, now);
      count.today += mails;
      count.thisMonth += mails;
      count.open += mails;
      return (isAccepted) => {
        count.open -= mails;
        if (isAccepted) count.sinceRead += mails;
        else {
          count.today -= mails;
          count.thisMonth -= mails;
        }
      };
    },
    used: (accountId: string): Promise<Books> => readBooks(db, accountId, dayOf(clock.now())),
  };
}

async function readBooks(db: Database, accountId: string, day: string): Promise<Books> {
  const [row] = await db.prepared.all<{ today: number | null; month: number | null }>(
    `SELECT SUM(CASE WHEN day = ? THEN charged ELSE 0 END) AS today, SUM(charged) AS month FROM (
       SELECT day, CASE WHEN from_status = 'none' THEN n ELSE -n END AS charged FROM counters
       WHERE account_id = ? AND day >= ? AND day <= ?
         AND (from_status = 'none' AND to_status <> 'suppressed' OR from_status = '${SIMULATED}')) AS mails`,
    [day, accountId, `${day.slice(0, 7)}-01`, day],
  );
  return { today: row?.today ?? 0, thisMonth: row?.month ?? 0 };
}

function refuseExcess(limits: QuotaLimits, count: Count, mails: number, now: number): void {
  // The month comes first: its end is the longer wait.
  if (limits.mailsPerMonth !== null && count.thisMonth + mails > limits.mailsPerMonth)
    throw exceeded('month', limits.mailsPerMonth, count.thisMonth, mails, endOfMonth(now) - now);
  if (limits.mailsPerDay !== null && count.today + mails > limits.mailsPerDay)
    throw exceeded('day', limits.mailsPerDay, count.today, mails, endOfDay(now) - now);
}

function exceeded(span: 'day' | 'month', limit: number, used: number, mails: number, waitMs: number): Problem {
  const plan = `The plan allows ${String(limit)} mails a ${span} (UTC)`;
  const words =
    mails > limit
      ? `${plan}, and this request has ${String(mails)}, so waiting does not help. Send fewer at once, or ask the operator for another plan.`
      : `${plan}, and ${String(used)} were accepted. Wait, or ask the operator for another plan.`;
  return new Problem('quota_exceeded', words, { retryAfter: Math.ceil(waitMs / 1000) });
}

function endOfDay(now: number): number {
  const at = new Date(now);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate() + 1);
}

function endOfMonth(now: number): number {
  const at = new Date(now);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1);
}
