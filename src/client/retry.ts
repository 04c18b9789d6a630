/** When a failed request is tried again: after network faults, 429 and 5xx, never after another 4xx (the law's rule). */
import { ApiError, NetworkError } from './errors.ts';

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;
/** A service that wants to be left alone for longer than this is told to the caller at once: a used-up quota may take a day. */
export const LONGEST_RETRY_AFTER_S = 120;
/** So that clients refused together do not come back together. */
const SPREAD_MS = 500;

/**
 * Milliseconds to wait before the next try, or null where there must be none. `failures`: how many tries have failed, from 1;
 * `random`: from 0 to 1. Never earlier than Retry-After says; without it doubled each time, between half and the whole.
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
