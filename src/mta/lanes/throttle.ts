/**
 * How many connections a lane may have: a few to begin with, one more for each stretch of successes, half after a reply that
 * asks for less. What was too many is remembered: up to there the lane grows back quickly, beyond it by one connection
 * after each quiet while, so that it settles under the other side's limit and finds out when that is lifted. Pure: time
 * and changes are handed in. Each change says why, for the operator.
 */

export interface ThrottleLimits {
  initial: number;
  max: number;
}

export interface Throttle {
  /** Connections allowed now. */
  readonly limit: number;
  /** Accepted messages since the last change. */
  readonly successes: number;
  readonly halvedAt: number | null;
  /** As many were borne; one more was once too many. Null while nobody has complained. */
  readonly ceiling: number | null;
  /** From when on one more than the ceiling is tried. */
  readonly probeAt: number;
  /** When and why the limit last changed. */
  readonly cause: string;
  readonly causeAt: number;
}

/** After a halving the remote gets time to feel it before the next one. */
const HALVING_PAUSE_MS = 10_000;
/** Without a complaint for this long, the ceiling may be one higher. */
const PROBE_MS = 30_000;

export const newThrottle = (limits: ThrottleLimits, now: number): Throttle => ({
  limit: Math.min(limits.initial, limits.max),
  successes: 0,
  halvedAt: null,
  ceiling: null,
  probeAt: now,
  cause: 'start',
  causeAt: now,
});

/** A message was accepted: after as many as there are connections, one connection more, where all of them (`isFull`) were in use. */
export function succeeded(throttle: Throttle, limits: ThrottleLimits, isFull: boolean, now: number): Throttle {
  const successes = throttle.successes + 1;
  const { limit, ceiling, probeAt } = throttle;
  if (limit >= limits.max || successes < limit || !isFull) return { ...throttle, successes };
  if (ceiling === null || limit < ceiling)
    return { ...throttle, limit: limit + 1, successes: 0, cause: 'growth after successes', causeAt: now };
  if (now < probeAt) return { ...throttle, successes };
  return {
    ...throttle,
    limit: limit + 1,
    successes: 0,
    ceiling: limit + 1 >= limits.max ? null : limit + 1,
    probeAt: now + PROBE_MS,
    cause: 'one more tried after a quiet while',
    causeAt: now,
  };
}

/** The remote asked for less. */
export function pushedBack(throttle: Throttle, reply: string, now: number): Throttle {
  const probeAt = now + PROBE_MS;
  if (throttle.halvedAt !== null && now - throttle.halvedAt < HALVING_PAUSE_MS)
    return { ...throttle, successes: 0, probeAt };
  const limit = Math.max(1, Math.floor(throttle.limit / 2));
  const ceiling = Math.max(1, throttle.limit - 1);
  return { limit, successes: 0, halvedAt: now, ceiling, probeAt, cause: reply.slice(0, 200), causeAt: now };
}
