/** Decides when a failed request is tried again: after network faults, 429 and 5xx, never after another 4xx. */
import { ApiError, NetworkError } from './errors.ts';

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;
/**
 * The longest Retry-After that is waited for; a longer one is reported to the caller at once, since a used-up quota may take a
 * day.
 */
export const LONGEST_RETRY_AFTER_S = 120;
/** Random spread, so that clients refused at the same time do not come back at the same time. */
const SPREAD_MS = 500;

/**
 * Returns the milliseconds to wait before the next try, or null for no further try. `failures`: failed tries, from 1; `random`:
 * from 0 to 1. Never shorter than Retry-After; without it the wait doubles each time, between half and the whole.
 */
export function waitAfter(error: unknown, failures: number, random: number): number | null {
  if (error instanceof NetworkError) return backoff(failures, random);
  if (!(error instanceof ApiError) || (error.status !== 429 && error.status < 500)) return null;
  const { retryAfter } = error;
  if (retryAfter === null) return backoff(failures, random);
  return retryAfter > LONGEST_RETRY_AFTER_S ? null : retryAfter * 1000 + random * SPREAD_MS;
}

function backoff(failures: number, random: number): number {
  const most = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1));
  return most * (0.5 + random / 2);
}
