/**
 * Limits how much mail an account may have accepted per UTC day and month, by its plan. Every recipient counts, as in the
 * books, except those that are suppressed at acceptance and those of simulated mail.
 *
 * The books are read once for each account after a start; from then on accepted mail is counted in memory. Quota is taken before the
 * commit and returned if it fails, so that concurrent requests cannot exceed the limit. An account without a quota costs nothing here.
 *
 * If other nodes accept mail too, the books are read again before a mail that comes two seconds after the last reading. So an account exceeds
 * its quota by at most what the other nodes accept for it in two seconds.
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

/** Gives back what was taken, if the mails were not accepted after all. */
export type SettleQuota = (isAccepted: boolean) => void;

interface Books {
  /** Mails of the day, and of its month until then. */
  today: number;
  thisMonth: number;
}

/** The books as they were read, and the mails that were taken since. */
interface Count extends Books {
  day: string;
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

/** Returns whether a recipient counts. */
export const isCharged = ({ status, test }: { status: string; test: number }): boolean =>
  status !== 'suppressed' && test === 0;

const MOST_ACCOUNTS = 10_000;
/** The age at which the books are read again if other nodes accept mail, in milliseconds. */
const FRESH_MS = 2000;
const noop = (): void => undefined;

/** `hasOthers` returns whether other nodes accept mail too. */
export function createQuotas({
  db,
  clock,
  hasOthers,
}: {
  db: Pick<Database, 'prepared'>;
  clock: Clock;
  hasOthers: () => boolean;
}) {
  const counts = createLru<string, Promise<Count>>(MOST_ACCOUNTS);

  async function firstCount(accountId: string, day: string): Promise<Count> {
    const readAt = clock.monotonic();
    const books = await readBooks(db, accountId, day);
    return { ...books, day, readAt, open: 0, sinceRead: 0, reading: null };
  }

  /** Reads the books again. Mails that may be in them or not are counted beside them until the next reading. */
  async function renew(accountId: string, count: Count): Promise<void> {
    const { day } = count;
    const readAt = clock.monotonic();
    count.sinceRead = 0;
    const { today, thisMonth } = await readBooks(db, accountId, day);
    if (count.day !== day) return;
    const own = count.open + count.sinceRead;
    Object.assign(count, { readAt, today: today + own, thisMonth: thisMonth + own });
  }

  /** Resolves when the count is new enough for what other nodes accept. */
  async function freshen(accountId: string, count: Count): Promise<void> {
    if (!hasOthers() || clock.monotonic() - count.readAt < FRESH_MS) return;
    count.reading ??= renew(accountId, count).finally(() => {
      count.reading = null;
    });
    await count.reading;
  }

  async function countOf(accountId: string, day: string): Promise<Count> {
    const loaded = counts.get(accountId);
    if (loaded !== undefined) {
      const count = await loaded;
      if (count.day <= day) return count;
      // The clock was set back: the count began a later day at 0, and the books know how much of this one is used.
      if (counts.peek(accountId) === loaded) counts.delete(accountId);
      return countOf(accountId, day);
    }
    const loading = firstCount(accountId, day);
    counts.set(accountId, loading);
    loading.catch(() => {
      if (counts.peek(accountId) === loading) counts.delete(accountId);
    });
    return loading;
  }

  return {
    /** Takes this number of mails from the quota; the returned function is called when they are accepted or not. Throws `quota_exceeded` with the time to wait. */
    async take(accountId: string, limits: QuotaLimits, mails: number): Promise<SettleQuota> {
      if (limits.mailsPerDay === null && limits.mailsPerMonth === null) {
        // If the plan gets a quota later, the books are read again.
        counts.delete(accountId);
        return noop;
      }
      const now = clock.now();
      const day = dayOf(now);
      const count = await countOf(accountId, day);
      startDay(count, day);
      await freshen(accountId, count);
      refuseExcess(limits, count, mails, now);
      count.today += mails;
      count.thisMonth += mails;
      count.open += mails;
      return (isAccepted) => {
        count.open -= mails;
        if (isAccepted) {
          count.sinceRead += mails;
          return;
        }
        if (count.day === day) count.today -= mails;
        if (sameMonth(count.day, day)) count.thisMonth -= mails;
      };
    },
    /** Returns the mails accepted today and this month. */
    used: (accountId: string): Promise<Books> => readBooks(db, accountId, dayOf(clock.now())),
  };
}

async function readBooks(db: Pick<Database, 'prepared'>, accountId: string, day: string): Promise<Books> {
  const [row] = await db.prepared.all<{ today: number | null; month: number | null }>(
    `SELECT SUM(CASE WHEN day = ? THEN charged ELSE 0 END) AS today, SUM(charged) AS month FROM (
       SELECT day, CASE WHEN from_status = 'none' THEN n ELSE -n END AS charged FROM counters
       WHERE account_id = ? AND day >= ? AND day <= ?
         AND (from_status = 'none' AND to_status <> 'suppressed' OR from_status = '${SIMULATED}')) AS mails`,
    [day, accountId, `${day.slice(0, 7)}-01`, day],
  );
  return { today: row?.today ?? 0, thisMonth: row?.month ?? 0 };
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

const sameMonth = (a: string, b: string): boolean => a.slice(0, 7) === b.slice(0, 7);

function endOfDay(now: number): number {
  const at = new Date(now);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate() + 1);
}

function endOfMonth(now: number): number {
  const at = new Date(now);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1);
}
