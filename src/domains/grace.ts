/**
 * Decides how long a verified domain keeps sending after it lost a required DNS record. Pure.
 *
 * The first check that finds a required record missing or wrong starts a countdown. Only a check that still finds it so after
 * the countdown makes the domain `failed`; then its mail is refused. DNS trouble starts and ends nothing.
 *
 * Records that come and go are one failure: the countdown continues, and members are told once, until all records have been
 * found for a whole day. The time between checks counts: while the server was down, or when its clock jumped, the countdown
 * advances by a few hours at most.
 */
import type { DomainRow } from '../storage/tables.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';

/** The state of all required records at a check. */
export type Required = 'ok' | 'not_ok' | 'unclear';

/** The columns of a domain that a check changes. */
export type Standing = Pick<DomainRow, 'status' | 'failing_since' | 'found_again_at' | 'refused_at' | 'told_at'>;

/** Time until a domain that was never verified changes from `pending` to `failed`. It is verified whenever its records appear. */
const PENDING_MS = 72 * HOUR_MS;
/** Time that all required records must be found until a failure is over; the next one then has its own countdown. */
export const STEADY_MS = DAY_MS;
/** The most that a countdown advances between two checks, which are half an hour apart while the server runs. */
export const MOST_UNSEEN_MS = 6 * HOUR_MS;

const NO_FAILURE = { failing_since: null, found_again_at: null, refused_at: null, told_at: null };

/** Returns the columns after a check. `graceMs`: setting `domains.grace`. */
export function standingAfter(
  row: Standing & Pick<DomainRow, 'trusted' | 'created_at' | 'checked_at'>,
  required: Required,
  { now, graceMs }: { now: number; graceMs: number },
): Standing {
  if (row.trusted === 1) return { ...NO_FAILURE, status: 'verified' };
  const { status, found_again_at, told_at } = row;
  const before = {
    status,
    failing_since: adjustedStart(row, now),
    found_again_at,
    refused_at: row.refused_at,
    told_at,
  };
  switch (required) {
    case 'ok':
      return afterFound(before, now);
    case 'unclear':
      return isCountingDown(before) ? { ...before, refused_at: before.failing_since + graceMs } : before;
    case 'not_ok':
      if (status === 'verified') return afterLost(before, now, graceMs);
      return { ...before, found_again_at: null, status: isStillPending(row, now) ? 'pending' : 'failed' };
  }
}

/** Returns whether it is a verified domain that lacks a required record. */
export function isCountingDown<S extends Pick<Standing, 'status' | 'failing_since' | 'found_again_at'>>(
  standing: S,
): standing is S & { failing_since: number } {
  const { status, failing_since, found_again_at } = standing;
  return status === 'verified' && failing_since !== null && found_again_at === null;
}

const isStillPending = ({ status, created_at }: Pick<DomainRow, 'status' | 'created_at'>, now: number): boolean =>
  status === 'pending' && now - created_at < PENDING_MS;

function afterFound(before: Standing, now: number): Standing {
  const { failing_since } = before;
  const found_again_at = Math.min(before.found_again_at ?? now, now);
  if (failing_since === null || now - found_again_at >= STEADY_MS) return { ...NO_FAILURE, status: 'verified' };
  return { ...before, status: 'verified', found_again_at, refused_at: null };
}

function afterLost(before: Standing, now: number, graceMs: number): Standing {
  const failing_since = before.failing_since ?? now;
  const endsAt = failing_since + graceMs;
  const isOver = endsAt <= now;
  return {
    ...before,
    status: isOver ? 'failed' : 'verified',
    failing_since,
    found_again_at: null,
    refused_at: isOver ? now : endsAt,
  };
}

/**
 * Returns the start of the failure, moved forward if the time since the last check was too long, or back if the clock was set
 * back.
 */
function adjustedStart(
  { failing_since, checked_at }: Pick<DomainRow, 'failing_since' | 'checked_at'>,
  now: number,
): number | null {
  if (failing_since === null || checked_at === null) return failing_since;
  const passed = now - checked_at;
  return failing_since + passed - Math.min(Math.max(passed, 0), MOST_UNSEEN_MS);
}
