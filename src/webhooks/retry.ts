/** Decides when a failed call is tried again, and when an endpoint that only fails is given up. Pure. */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time.ts';

/** Waits after the first, the second, ... attempt: ten attempts within about 75.6 hours. */
export const RETRY_WAITS_MS: readonly number[] = [
  5000,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];
const JITTER = 0.1;
const LONGEST_RETRY_AFTER_MS = DAY_MS;
/** Rest of an endpoint that answers 429 and does not say for how long. */
const SHORT_REST_MS = 5000;
/** No call is ever due later than this from now, but if the clock was set back since. */
export const LONGEST_WAIT_MS = Math.max(...RETRY_WAITS_MS, LONGEST_RETRY_AFTER_MS) * (1 + JITTER);

/** An endpoint is struggling after this many failures without a success between them: then it is called one call at a time. */
export const STRUGGLING_FAILURES = 10;
/** New events are tried at most this often, too: what waits stays in the log instead of failing one by one. */
export const PROBE_EVERY_MS = MINUTE_MS;

const WARN_AFTER_MS = DAY_MS;
const DISABLE_AFTER_MS = 5 * DAY_MS;
const DISABLE_FAILURES = 10;

/** Returns when the next attempt is due after `attempts`; null after the last. `random` is in [0, 1). At least Retry-After is waited, up to a day. */
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

/**
 * Returns for how long an endpoint gets no call at all after this answer, or null: 429 and Retry-After are about the caller, not about the
 * event of the call (RFC 6585 section 4, RFC 9110 section 10.2.3).
 */
export function restAfter(answer: { statusCode: number | null; retryAfterMs: number | null }): number | null {
  const asked = answer.retryAfterMs ?? (answer.statusCode === 429 ? SHORT_REST_MS : null);
  return asked === null ? null : Math.min(asked, LONGEST_RETRY_AFTER_MS);
}

/** Returns the header's value in milliseconds from now (RFC 9110 section 10.2.3: seconds or a date), or null without a valid one. */
export function retryAfterMs(given: string | undefined, now: number): number | null {
  // White space around a value is not part of it (RFC 9110 section 5.5).
  const header = given?.trim();
  if (header === undefined || header.length > 40) return null;
  if (/^\d+$/.test(header)) return Number(header) * 1000;
  const date = /^[A-Z][a-z]{2}, /.test(header) ? Date.parse(header) : NaN;
  return Number.isNaN(date) ? null : Math.max(0, date - now);
}

export interface Health {
  /** Since the last success. */
  failures: number;
  /** When the first of them was. */
  failing_since: number | null;
  warned_at: number | null;
}

export type Verdict = 'fine' | 'warn' | 'disable';

/** Decides about an endpoint from the first failure after its last success on, so that one with little traffic is not given up for one bad hour. */
export function verdictOn({ failures, failing_since: since, warned_at: warned }: Health, now: number): Verdict {
  if (since === null) return 'fine';
  if (failures >= DISABLE_FAILURES && now - since >= DISABLE_AFTER_MS) return 'disable';
  return now - since >= WARN_AFTER_MS && (warned === null || warned < since) ? 'warn' : 'fine';
}
