/**
 * The ages of waiting mail: since acceptance, or since the `send_at` that was asked for. The index of what waits has no such time, so what is
 * read of the rows themselves has a bound.
 */
import { idTime, tailOf, TAIL_FROM } from '../base/id.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time.ts';
import { dialectOf } from '../storage/sql.ts';
import type { DeliveryRow } from '../storage/tables.ts';
import type { OperatorDeps } from './deps.ts';

type Deps = Pick<OperatorDeps, 'db' | 'clock'>;

/** When the oldest mail that waits was accepted or was to be sent. Scheduled mail does not count before its time. */
export interface Oldest {
  /** Null if there is none, or none was found. */
  at: number | null;
  /** False if not all mail could be read, so that there may be older mail. */
  isExact: boolean;
}

export const noMail: Oldest = { at: null, isExact: true };

/** The ids of mail and the time of acceptance differ by at most this, unless the mail was scheduled. */
const NEAR_MS = 60_000;
/** Rows that are read if scheduled mail hides the oldest of other mail. */
const MOST_HIDDEN = 20_000;

/** A domain with the waiting mail that was accepted first, which has the smallest id. */
export interface First {
  domain: string;
  waiting: number;
  first: string;
  first_status: DeliveryRow['status'];
  first_queued_at: number;
}

/** Returns the time of the mail that was accepted first, if no other can be older. */
export function timeOfFirst({
  first,
  first_status: status,
  first_queued_at: at,
}: Omit<First, 'domain' | 'waiting'>): number | null {
  const accepted = idTime(first);
  return status !== 'scheduled' && accepted !== null && at <= accepted + NEAR_MS ? at : null;
}

/**
 * Returns the oldest waiting mail of each domain: the mail that was accepted first. If that was scheduled for later, other mail may be older:
 * then mail of the domain is read, with a bound for all domains together.
 */
export async function oldestOf({ db, clock }: Deps, domains: readonly First[]): Promise<Map<string, Oldest>> {
  const { listed, using } = dialectOf(db.reader);
  const found = new Map<string, Oldest>();
  const hidden: First[] = [];
  for (const one of domains) {
    const at = timeOfFirst(one);
    if (at === null) hidden.push(one);
    else found.set(one.domain, { at, isExact: true });
  }
  if (hidden.length === 0) return found;
  const most = Math.ceil(MOST_HIDDEN / hidden.length);
  const read = await db.reader.raw<{ domain: string; at: number | null }[]>(
    `SELECT h.value AS domain, (
       SELECT MIN(queued_at) FROM (
         SELECT d.queued_at, d.status FROM deliveries d ${using('deliveries_due')}
         WHERE d.due_at IS NOT NULL AND d.domain = h.value LIMIT ?) w
       WHERE w.status <> 'scheduled' AND w.queued_at <= ?) AS at
     FROM ${listed('h', 'text')}`,
    [most, clock.now(), JSON.stringify(hidden.map(({ domain }) => domain))],
  );
  const waiting = new Map(hidden.map((one) => [one.domain, one.waiting]));
  for (const { domain, at } of read) found.set(domain, { at, isExact: (waiting.get(domain) ?? 0) <= most });
  return found;
}

/** Returns the oldest of several. */
export const oldestAmong = (all: readonly Oldest[]): Oldest =>
  all.reduce(
    (a, b) => ({
      at: a.at === null ? b.at : b.at === null ? a.at : Math.min(a.at, b.at),
      isExact: a.isExact && b.isExact,
    }),
    noMail,
  );

/** The members of the histogram, with the age below which mail is in each. */
const steps = [
  ['under_1m', 60_000],
  ['under_10m', 10 * MINUTE_MS],
  ['under_1h', HOUR_MS],
  ['under_6h', 6 * HOUR_MS],
  ['under_24h', DAY_MS],
] as const;

/** Up to this much mail is counted one by one, which takes a reader about 75 ms; of more mail, a sample of about `SAMPLE` is counted. */
const MOST_COUNTED = 10_000;
const SAMPLE = 4_000;
/** Entries of the index that a sample is taken from. */
const MOST_SAMPLED = 200_000;

interface Counts extends Record<(typeof steps)[number][0], number> {
  counted: number;
  scheduled: number;
  older: number;
}

/** Counts the waiting mail of these domains by its age: all of it, or a sample by the random end of its ids. */
export async function agesOf(
  { db, clock }: Deps,
  domains: readonly { domain: string; waiting: number; oldest_at: string | null; oldest_is_exact: boolean }[],
) {
  const waiting = domains.reduce((sum, one) => sum + one.waiting, 0);
  const known = domains.flatMap(({ oldest_at: at }) => at ?? []).sort();
  const isSample = waiting > MOST_COUNTED;
  const share = SAMPLE / Math.min(waiting, MOST_SAMPLED);
  const now = clock.now();
  const { among, using, thenJoin } = dialectOf(db.reader);
  const due = `d.status <> 'scheduled' AND d.queued_at <= ?`;
  const [counts] = await db.reader.raw<Counts[]>(
    `SELECT COUNT(*) AS counted, COUNT(*) FILTER (WHERE NOT (${due})) AS scheduled,
       ${steps.map(([name]) => `COUNT(*) FILTER (WHERE ${due} AND d.queued_at > ? AND d.queued_at <= ?) AS ${name}`).join(', ')},
       COUNT(*) FILTER (WHERE ${due} AND d.queued_at <= ?) AS older
     FROM (SELECT id FROM deliveries ${using('deliveries_due')}
       WHERE due_at IS NOT NULL AND domain ${among('text')} LIMIT ?) w
     ${thenJoin} deliveries d ON d.id = w.id ${isSample ? `AND substr(w.id, ${String(TAIL_FROM)}, 4) < ?` : ''}`,
    [
      now,
      ...steps.flatMap(([, below], at) => [now, now - below, now - (steps[at - 1]?.[1] ?? 0)]),
      now,
      now - DAY_MS,
      JSON.stringify(domains.map(({ domain }) => domain)),
      isSample ? MOST_SAMPLED : MOST_COUNTED,
      ...(isSample ? [tailOf(share)] : []),
    ],
  );
  return {
    /** Recipients that wait, and how many of them are counted here: fewer if it is a sample. */
    waiting,
    counted: counts?.counted ?? 0,
    /** Each has what is not in those before it. */
    under_1m: counts?.under_1m ?? 0,
    under_10m: counts?.under_10m ?? 0,
    under_1h: counts?.under_1h ?? 0,
    under_6h: counts?.under_6h ?? 0,
    under_24h: counts?.under_24h ?? 0,
    older: counts?.older ?? 0,
    /** Mail whose `send_at` has not come. */
    scheduled: counts?.scheduled ?? 0,
    oldest_at: known[0] ?? null,
    oldest_is_exact: domains.every(({ oldest_is_exact: isExact }) => isExact),
  };
}

export const oldestRecord = ({ at, isExact }: Oldest) => ({
  /** When the oldest was accepted, or was to be sent; null if none was found. */
  oldest_at: rfc3339(at),
  /** False if there may be older mail: scheduled mail that was accepted before it hides it, and not all was read. */
  oldest_is_exact: isExact,
});
