/**
 * How long a verified domain keeps sending after it lost a required DNS record. Pure.
 *
 * The first check that finds a required record missing or wrong begins a countdown. Only a check that still finds it so after the
 * countdown has ended makes the domain `failed`, from which mail is refused. DNS trouble never begins or ends anything.
 *
 * Records that come and go are one failure: the countdown goes on where it was, and people are told once, until all records have been
 * found for a whole day. What counts is the time between checks: while the server did not run, and over a jump of its clock, the
 * countdown moves on by a few hours at most.
 */
import type { DomainRow } from '../storage/tables.ts';

/** What of the required records is known now. */
export type Required = 'ok' | 'not_ok' | 'unclear';

/** The columns of a domain that a check decides about. */
export type Standing = Pick<DomainRow, 'status' | 'failing_since' | 'found_again_at' | 'refused_at' | 'told_at'>;

/** So long a domain that was never verified is `pending`; after it, `failed`. It is verified whenever its records appear. */
const PENDING_MS = 72 * 60 * 60_000;
/** So long all required records have to be found until a failure is over, and the next one has a countdown of its own. */
export const STEADY_MS = 24 * 60 * 60_000;
/** What a countdown moves on between two checks at most. They are half an hour apart where nothing is wrong with the server. */
export const MOST_UNSEEN_MS = 6 * 60 * 60_000;

const NO_FAILURE = { failing_since: null, found_again_at: null, refused_at: null, told_at: null };

/** What a domain is after a check. `graceMs`: setting `domains.grace`. */
export function standingAfter(
  row: Standing & Pick<DomainRow, 'trusted' | 'created_at' | 'checked_at'>,
  required: Required,
  { now, graceMs }: { now: number; graceMs: number },
): Standing {
  if (row.trusted === 1) return { ...NO_FAILURE, status: 'verified' };
  const { status, found_again_at, told_at } = row;
  const before = { status, failing_since: sinceOn(row, now), found_again_at, refused_at: row.refused_at, told_at };
  switch (required) {
    case 'ok':
      return afterFound(before, now);
    case 'unclear':
      return isCountingDown(before) ? { ...before, refused_at: before.failing_since + graceMs } : before;
    case 'not_ok':
      if (status === 'verified') return afterLost(before, now, graceMs);
      return { ...before, found_again_at: null, status: isAwaited(row, now) ? 'pending' : 'failed' };
  }
}

/** A verified domain that a required record of is missing. */
export function isCountingDown<S extends Pick<Standing, 'status' | 'failing_since' | 'found_again_at'>>(
  standing: S,
): standing is S & { failing_since: number } {
  const { status, failing_since, found_again_at } = standing;
  return status === 'verified' && failing_since !== null && found_again_at === null;
}

const isAwaited = ({ status, created_at }: Pick<DomainRow, 'status' | 'created_at'>, now: number): boolean =>
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

/** The begin of the failure, moved on by what the time since the last check was too long, or back where the clock was set back. */
function sinceOn(
  { failing_since, checked_at }: Pick<DomainRow, 'failing_since' | 'checked_at'>,
  now: number,
): number | null {
  if (failing_since === null || checked_at === null) return failing_since;
  const passed = now - checked_at;
  return failing_since + passed - Math.min(Math.max(passed, 0), MOST_UNSEEN_MS);
}
