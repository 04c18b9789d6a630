/** When a deferred delivery is tried again, and when the queue gives up. */

export interface RetryRule {
  /** Waits between tries in ms; the last one repeats. */
  schedule: readonly number[];
  /** How long a message is tried, in ms from its send_at or acceptance. */
  maxAge: number;
}

/** Retries of mail deferred together must not come back together. */
const JITTER = 0.2;

/** When to try again after attempt number `attempt` (the first is 1) ended at `now`; `random` is in [0, 1). */
export function nextTryAt(rule: Pick<RetryRule, 'schedule'>, attempt: number, now: number, random: number): number {
  const { schedule } = rule;
  const wait = schedule[Math.min(attempt, schedule.length) - 1] ?? 60_000;
  return Math.round(now + wait * (1 + JITTER * (2 * random - 1)));
}

/** When a message is given up: its own expires_at, or the queue's age limit counted from when it was to be sent. */
export function giveUpAt(
  rule: Pick<RetryRule, 'maxAge'>,
  acceptedAt: number,
  sendAt: number | null,
  expiresAt: number | null,
): number {
  const limit = Math.max(acceptedAt, sendAt ?? 0) + rule.maxAge;
  return expiresAt === null ? limit : Math.min(limit, expiresAt);
}

/** A missing domain may be a slip in somebody's zone, so one answer is not enough: three, over at least 20 minutes. */
const NO_DOMAIN_ANSWERS = 3;
const NO_DOMAIN_SPAN_MS = 20 * 60_000;

/** Whether this answer, one of `count` in a row since `since`, is the one that settles that the domain does not exist. */
export function domainIsGone(count: number, since: number, now: number): boolean {
  return count >= NO_DOMAIN_ANSWERS && now - since >= NO_DOMAIN_SPAN_MS;
}
