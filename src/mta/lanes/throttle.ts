/**
 * The throttle of a lane: the connections it may have. It begins with a few, grows by one for each series of successes, and halves
 * after a reply that asks for less. The number that was too many is remembered: below it the lane grows back quickly, beyond it by
 * one connection after each quiet time, so that it settles under the receiver's limit and finds out when that is lifted. Pure:
 * time is handed in. Each change has a cause, for the operator.
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
  /** The connections that were accepted when one more was too many. Null while none was. */
  readonly ceiling: number | null;
  /** When one more than the ceiling is tried. */
  readonly probeAt: number;
  /** When and why the limit last changed. */
  readonly cause: string;
  readonly causeAt: number;
}

/** The part of a throttle that was learnt from a receiver, for the other nodes that send to it. */
export type Learnt = Pick<Throttle, 'limit' | 'ceiling' | 'halvedAt' | 'cause'>;

/** The time between two halvings, in ms, so that the receiver notices the first. */
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

/** Counts an accepted message. After as many as there are connections, and where all are in use (`isFull`), the limit grows by one. */
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

/** Halves the limit, because the receiver asked for less. */
export function pushedBack(throttle: Throttle, reply: string, now: number): Throttle {
  const probeAt = now + PROBE_MS;
  if (throttle.halvedAt !== null && now - throttle.halvedAt < HALVING_PAUSE_MS)
    return { ...throttle, successes: 0, probeAt };
  const limit = Math.max(1, Math.floor(throttle.limit / 2));
  const ceiling = Math.max(1, throttle.limit - 1);
  return { limit, successes: 0, halvedAt: now, ceiling, probeAt, cause: reply.slice(0, 200), causeAt: now };
}

/** Forgets the number of connections that was too many: the limit grows again with each success. */
export const lifted = (throttle: Throttle): Throttle => ({ ...throttle, ceiling: null });

/** Returns whether one node has learnt more than another: the later pushback counts, and after the same one the higher limit. */
export function isNewer(one: Learnt, other: Learnt): boolean {
  const [at, otherAt] = [one.halvedAt ?? -Infinity, other.halvedAt ?? -Infinity];
  return at > otherAt || (at === otherAt && one.limit > other.limit);
}

/** Takes over what another node has learnt. The next connection beyond the ceiling is tried by one of them, not by each. */
export const adopted = (throttle: Throttle, learnt: Learnt, { max }: ThrottleLimits, now: number): Throttle => ({
  ...throttle,
  ...learnt,
  limit: Math.max(1, Math.min(learnt.limit, max)),
  successes: 0,
  probeAt: now + PROBE_MS,
  causeAt: now,
});
