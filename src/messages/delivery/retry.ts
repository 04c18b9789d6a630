/** When a deferred delivery is tried again, and when the queue gives up. */

export interface RetryRule {
  /** Waits between tries in ms; the last one repeats. */
  schedule: readonly number[];
  /** How long a message is tried, in ms from its send_at or acceptance. */
  maxAge: number;
}

/** Retries of mail deferred together must not come back together. */
const JITTER = 0.2;

/** What a refusal said about the next try. */
export interface RetryHint {
  /** The server refuses strangers once; the next try will probably pass. */
  greylisting: boolean;
  /** The pause its words ask for, in ms, or null. */
  askedMs: number | null;
}

/** A pause that is asked for is kept within these: less is impatience, more is none of their business. */
const LEAST_ASKED_MS = 30_000;
const MOST_ASKED_MS = 6 * 3_600_000;
/** A greylist lets a sender through after 1 minute, or 5, and some after an hour. */
const GREYLIST_FIRST_MS = 60_000;
const GREYLIST_SPREAD_MS = 30_000;
const GREYLIST_NEXT_MS = 5 * 60_000;
/** A server that says "in a minute" for ever is believed an hour or so, then asked by the schedule. */
const HINTED_TRIES = 12;

/** When to try again after attempt number `attempt` (the first is 1) ended at `now`; `random` is in [0, 1). */
export function nextTryAt(
  rule: Pick<RetryRule, 'schedule'>,
  attempt: number,
  now: number,
  random: number,
  hint: RetryHint | null = null,
): number {
  const { schedule } = rule;
  const wait = schedule[Math.min(attempt, schedule.length) - 1] ?? 60_000;
  return Math.round(now + (hintedWait(hint, attempt, wait, random) ?? varied(wait, random)));
}

const varied = (wait: number, random: number): number => wait * (1 + JITTER * (2 * random - 1));

function hintedWait(hint: RetryHint | null, attempt: number, scheduled: number, random: number): number | null {
  if (hint === null) return null;
  const isBelieved = attempt <= HINTED_TRIES;
  if (hint.askedMs !== null) {
    const asked = Math.min(Math.max(hint.askedMs, LEAST_ASKED_MS), MOST_ASKED_MS);
    // Never before the time: many begin to count anew then.
    return (isBelieved ? asked : Math.max(asked, scheduled)) * (1 + JITTER * random);
  }
  if (!hint.greylisting || !isBelieved) return null;
  return attempt === 1 ? GREYLIST_FIRST_MS + GREYLIST_SPREAD_MS * random : varied(GREYLIST_NEXT_MS, random);
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

/** A mailbox that has been full for a day is not read. */
const FULL_MS = 24 * 3_600_000;

/** Whether mail that was to be sent at `since` and finds the mailbox full at `now` is given up. */
export const staysFull = (since: number, now: number): boolean => now - since >= FULL_MS;
