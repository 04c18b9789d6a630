/**
 * The depth of the queue and the time that clients waited, for each minute of the last day, for charts. It is kept in memory, so a
 * restart clears it. A sample costs one read of the books and does not read the queue.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import type { Family, Sample } from './exposition.ts';
import type { Database } from '../../storage/database.ts';

export interface Moment {
  /** Milliseconds since the epoch. */
  at: number;
  /** Recipients that are not finished. */
  waiting: number;
  /** Connections in use. */
  connections: number;
  /** Milliseconds within which half, 95 % and 99 % of the send requests of this minute were answered; null if there was none. */
  accept: { p50: number; p95: number; p99: number } | null;
}

export interface HistoryDeps {
  db: Pick<Database, 'reader'>;
  clock: Clock;
  mta: { sizes(): { workers: number } };
  /** The figures that are counted in memory, or null if none are. */
  families: (() => readonly Family[]) | null;
  failed: (error: unknown) => void;
}

const EVERY_MS = 60_000;
const MOST = 24 * 60;
const ACCEPT = 'posthorn_accept_seconds';

export type History = ReturnType<typeof createHistory>;

export function createHistory(deps: HistoryDeps) {
  const { clock } = deps;
  const moments: Moment[] = [];
  let before: Bucket[] = [];
  let looking: Promise<void> | null = null;
  let timer = wait();

  function wait(): Timer {
    return clock.after(
      EVERY_MS,
      () => {
        // If the database is slow, samples are skipped: they would only queue up.
        looking ??= look()
          .catch(deps.failed)
          .finally(() => {
            looking = null;
          });
        timer = wait();
      },
      { background: true },
    );
  }

  async function look(): Promise<void> {
    const at = clock.now();
    const buckets = bucketsOf(deps.families?.().find(({ name }) => name === ACCEPT)?.samples ?? []);
    const accept = percentiles(since(before, buckets));
    before = buckets;
    const connections = deps.mta.sizes().workers;
    moments.push({ at, waiting: await waitingNow(deps), connections, accept });
    if (moments.length > MOST) moments.shift();
  }

  return {
    moments: (): readonly Moment[] => moments,
    stop(): void {
      timer.cancel();
    },
  };
}

/** Returns the waiting recipients: those that arrived less those that left, a sum over a few rows a day. */
async function waitingNow({ db }: Pick<HistoryDeps, 'db'>): Promise<number> {
  const waiting = ['scheduled', 'queued', 'sent', 'deferred'];
  const [row] = await db.reader.raw<{ n: number | null }[]>(
    `SELECT SUM(CASE WHEN to_status IN (?, ?, ?, ?) THEN n ELSE 0 END) - SUM(CASE WHEN from_status IN (?, ?, ?, ?) THEN n ELSE 0 END) AS n FROM counters`,
    [...waiting, ...waiting],
  );
  return Math.max(0, row?.n ?? 0);
}

/** A bucket of a histogram. */
export interface Bucket {
  /** Seconds; infinite for the last. */
  le: number;
  count: number;
}

function bucketsOf(samples: readonly Sample[]): Bucket[] {
  return samples
    .filter(({ suffix }) => suffix === '_bucket')
    .map(({ labels, value }) => ({ le: labels?.['le'] === '+Inf' ? Infinity : Number(labels?.['le']), count: value }));
}

/** Returns the counts that were added between two samples. */
const since = (before: readonly Bucket[], now: readonly Bucket[]): Bucket[] =>
  now.map(({ le, count }, at) => ({ le, count: count - (before[at]?.count ?? 0) }));

/** Interpolates between the bounds of the buckets; beyond the last bound it returns that bound. */
export function percentiles(buckets: readonly Bucket[]): Moment['accept'] {
  const total = buckets.at(-1)?.count ?? 0;
  if (total === 0) return null;
  const within = (part: number): number => {
    const wanted = part * total;
    const at = buckets.findIndex(({ count }) => count >= wanted);
    const [bucket, below] = [buckets[at], buckets[at - 1] ?? { le: 0, count: 0 }];
    if (bucket === undefined || bucket.le === Infinity) return round(below.le);
    const share = (wanted - below.count) / Math.max(1, bucket.count - below.count);
    return round(below.le + share * (bucket.le - below.le));
  };
  return { p50: within(0.5), p95: within(0.95), p99: within(0.99) };
}

const round = (seconds: number): number => Math.round(seconds * 10_000) / 10;
