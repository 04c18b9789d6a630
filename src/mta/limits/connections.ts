/**
 * The connections that a lane may have. A lane begins with a few and doubles them with each accepted mail while all are in use, so that it has
 * its limit after a few answers, however long each takes. A reply that asks for less halves them. The number that was too many is remembered:
 * below it they come back by one for each series of successes, beyond it by one after each quiet time. Pure.
 */
import { newLimit, shortCause, type About, type Limit } from '../../messages/limits/limit.ts';

export interface ConnectionLimits {
  readonly initial: number;
  readonly max: number;
}

/** The time between two halvings, in ms, so that the receiver notices the first. */
const HALVING_PAUSE_MS = 10_000;
/** Without a complaint for this long, the ceiling may be one higher. */
const PROBE_MS = 30_000;

export const firstConnections = (about: About, { initial, max }: ConnectionLimits, now: number): Limit => ({
  ...newLimit('connections', about, now),
  by: 'start',
  connections: Math.min(initial, max),
  step: 0,
  cause: 'start',
  evidence: null,
});

/** Returns the limit after a mail that was accepted while all connections were in use (`isFull`), or not. */
export function grown(limit: Limit, { max }: ConnectionLimits, isFull: boolean, now: number): Limit {
  const { connections: count, ceiling, until, step } = limit;
  if (count === null || count >= max) return limit;
  if (ceiling === null) return isFull ? changed(limit, Math.min(max, 2 * count), 'growth after successes', now) : limit;
  const successes = step + 1;
  if (successes < count || !isFull || (count >= ceiling && now < until)) return { ...limit, step: successes };
  if (count < ceiling) return changed(limit, count + 1, 'growth after successes', now);
  const next = changed(limit, count + 1, 'one more tried after a quiet while', now);
  // At the most that a lane may have, nothing of the receiver limits it any more.
  return count + 1 >= max
    ? { ...next, ceiling: null, by: 'start' }
    : { ...next, ceiling: count + 1, until: now + PROBE_MS };
}

/** Halves the connections, because the receiver asked for less. */
export function halved(limit: Limit, reply: string, now: number, by: Limit['by'] = 'receiver'): Limit {
  const count = limit.connections ?? 1;
  const until = now + PROBE_MS;
  if (limit.refusedAt > 0 && now - limit.refusedAt < HALVING_PAUSE_MS) return { ...limit, step: 0, until };
  const less = changed(limit, Math.max(1, Math.floor(count / 2)), shortCause(reply), now);
  return { ...less, by, ceiling: Math.max(1, count - 1), until, refusedAt: now };
}

const changed = (limit: Limit, connections: number, cause: string, now: number): Limit => ({
  ...limit,
  connections,
  step: 0,
  cause,
  changedAt: now,
});
