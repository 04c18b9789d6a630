/**
 * How many connections a lane may have: a few to begin with, one more for each stretch of successes, half after a reply that
 * asks for less. Pure: time and happenings are handed in. Each change says why, for the operator.
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
  /** When and why the limit last changed. */
  readonly cause: string;
  readonly causeAt: number;
}

/** After a halving the remote gets time to feel it before the next one. */
const HALVING_PAUSE_MS = 10_000;

export const newThrottle = (limits: ThrottleLimits, now: number): Throttle => ({
  limit: limits.initial,
  successes: 0,
  halvedAt: null,
  cause: 'start',
  causeAt: now,
});

/** A message was accepted: after as many as there are connections, one connection more. */
export function succeeded(throttle: Throttle, limits: ThrottleLimits, now: number): Throttle {
  const successes = throttle.successes + 1;
  if (throttle.limit >= limits.max || successes < throttle.limit) return { ...throttle, successes };
  return { ...throttle, limit: throttle.limit + 1, successes: 0, cause: 'growth after successes', causeAt: now };
}

/** The remote asked for less. */
export function pushedBack(throttle: Throttle, reply: string, now: number): Throttle {
  if (throttle.halvedAt !== null && now - throttle.halvedAt < HALVING_PAUSE_MS) return { ...throttle, successes: 0 };
  const limit = Math.max(1, Math.floor(throttle.limit / 2));
  return { limit, successes: 0, halvedAt: now, cause: reply.slice(0, 200), causeAt: now };
}

/** Whether a reply asks for fewer connections or messages: 421, or a temporary refusal that speaks of rate. */
export function asksForLess(code: number | null, enhanced: string | null, text: string, reason: string): boolean {
  if (code === 421) return true;
  if (code === null || code >= 500 || code < 400) return false;
  if (/gr[ae]y-?list/i.test(text)) return false;
  return reason === 'rate_limited' || (enhanced?.startsWith('4.7.') ?? false);
}
