/** When a failed call is tried again, and when an endpoint that only fails is given up. Pure. */

const S = 1000;
const MIN = 60 * S;
const H = 60 * MIN;
const DAY = 24 * H;

/** Waits after the first, the second, ... attempt: ten attempts within about 75.6 hours. */
export const RETRY_WAITS_MS: readonly number[] = [
  5 * S,
  5 * MIN,
  30 * MIN,
  2 * H,
  5 * H,
  10 * H,
  14 * H,
  20 * H,
  24 * H,
];
const JITTER = 0.1;
const LONGEST_RETRY_AFTER_MS = 24 * H;
/** No call is ever due later than this from now, but where the clock was set back since. */
export const LONGEST_WAIT_MS = Math.max(...RETRY_WAITS_MS, LONGEST_RETRY_AFTER_MS) * (1 + JITTER);

/** An endpoint is struggling after so many failures without a success between them: then it is called one call at a time. */
export const STRUGGLING_FAILURES = 10;
/** And new events are tried at most this often: what waits stays in the log instead of failing one by one. */
export const PROBE_EVERY_MS = MIN;

const WARN_AFTER_MS = DAY;
const DISABLE_AFTER_MS = 5 * DAY;
const DISABLE_FAILURES = 10;

/**
 * When the next attempt is due after `attempts` made, or null where that was the last. `random` is in [0, 1). What the other
 * side asks for in Retry-After is waited for at least, up to a day.
 */
export function nextTryAt(
  attempts: number,
  now: number,
  { random, retryAfterMs = null }: { random: number; retryAfterMs?: number | null },
): number | null {
  const wait = RETRY_WAITS_MS[attempts - 1];
  if (wait === undefined) return null;
  const jittered = wait * (1 - JITTER + 2 * JITTER * random);
  return now + Math.round(Math.max(jittered, Math.min(retryAfterMs ?? 0, LONGEST_RETRY_AFTER_MS)));
}

/** Returns the header's value in milliseconds from now (RFC 9110 section 10.2.3: seconds or a date), or null without a valid one. */
export function retryAfterMs(header: string | undefined, now: number): number | null {
  if (header === undefined || header.length > 40) return null;
  if (/^\d{1,10}$/.test(header)) return Number(header) * S;
  const date = /^[A-Z][a-z]{2}, /.test(header) ? Date.parse(header) : NaN;
  return Number.isNaN(date) ? null : Math.max(0, date - now);
}

/** The failures in an endpoint's row. */
export interface Health {
  /** Since the last success. */
  failures: number;
  /** When the first of them was. */
  failing_since: number | null;
  warned_at: number | null;
}

export type Verdict = 'fine' | 'warn' | 'disable';

/** Counted from the first failure after the last success, so that an endpoint with little traffic is not given up for one bad hour. */
export function verdictOn({ failures, failing_since: since, warned_at: warned }: Health, now: number): Verdict {
  if (since === null) return 'fine';
  if (failures >= DISABLE_FAILURES && now - since >= DISABLE_AFTER_MS) return 'disable';
  return now - since >= WARN_AFTER_MS && (warned === null || warned < since) ? 'warn' : 'fine';
}
