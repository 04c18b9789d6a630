/** The ages of waiting mail since it was accepted, from the times in its ids: the index of what waits has these. */
import { idFloor, idTime } from '../base/id.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time.ts';
import { dialectOf } from '../storage/sql.ts';
import type { OperatorDeps } from './deps.ts';

/** The members of the histogram, with the age below which mail is in each. */
const steps = [
  ['under_1m', MINUTE_MS],
  ['under_10m', 10 * MINUTE_MS],
  ['under_1h', HOUR_MS],
  ['under_6h', 6 * HOUR_MS],
  ['under_24h', DAY_MS],
] as const;

type Counts = Record<(typeof steps)[number][0] | 'waiting', number> & { first: string | null };

/** Counts the waiting mail of these domains by its age: about 0.1 s for a million, on a reader. */
export async function agesOf({ db, clock }: Pick<OperatorDeps, 'db' | 'clock'>, domains: readonly string[]) {
  const now = clock.now();
  const { among, using } = dialectOf(db.reader);
  const [counts] = await db.reader.raw<Counts[]>(
    `SELECT COUNT(*) AS waiting, MIN(id) AS first, ${steps.map(([name]) => `COUNT(*) FILTER (WHERE id >= ?) AS ${name}`).join(', ')}
     FROM deliveries ${using('deliveries_due')} WHERE due_at IS NOT NULL AND domain ${among('text')}`,
    [...steps.map(([, below]) => idFloor('dlv', now - below)), JSON.stringify(domains)],
  );
  const upTo = [0, ...steps.map(([name]) => counts?.[name] ?? 0), counts?.waiting ?? 0];
  const [under1m = 0, under10m = 0, under1h = 0, under6h = 0, under24h = 0, older = 0] = upTo
    .slice(1)
    .map((count, at) => count - (upTo[at] ?? 0));
  return {
    /** Recipients that wait. */
    waiting: counts?.waiting ?? 0,
    /** Each has what is not in those before it. */
    under_1m: under1m,
    under_10m: under10m,
    under_1h: under1h,
    under_6h: under6h,
    under_24h: under24h,
    older,
    oldest_at: acceptedAt(counts?.first ?? null),
  };
}

/** Returns when the delivery with this id was accepted; null without one. */
export const acceptedAt = (id: string | null): string | null => rfc3339(id === null ? null : idTime(id));
