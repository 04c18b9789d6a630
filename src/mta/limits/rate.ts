/**
 * The mails a minute that a receiver takes. Its limit is what it accepted: when it refuses one more, that is as many as it accepted in the last
 * minute. One refusal halves the number at most, and what went well before comes back within seconds; beyond that the number grows while all of
 * it is used. So a receiver that counts in windows of any kind gets what it takes, and a limit that was lifted is found soon. Pure.
 */
import { MINUTE_MS } from '../../base/time.ts';
import { shortCause, type Limit } from '../../messages/limits/limit.ts';

/** Refusals of mails that were under way at the same time count once, if they come within this many ms. */
const TOGETHER_MS = 2_000;
const FIRST_PAUSE_MS = 5_000;
/** A limit that was lifted is found within two minutes. */
const LONGEST_PAUSE_MS = 100_000;
/** The share of the accepted mails that becomes the number: the receiver's minute is not ours. */
const MARGIN = 0.97;
/** The number if a receiver refuses before it has accepted anything; pauses keep the tries rare until it accepts. */
const COLD_PER_MINUTE = 6;
/** A number beyond this is forgotten. */
const FORGET_OVER = 12_000;
/** A number that is used to less than this share does not limit. */
const USED = 0.8;
/** How fast a number comes back that went well before. */
const RETURN_MS = 10_000;
const RETURN_FACTOR = 1.5;
/** The factors of the first, second ... growth without a refusal between, and how long each number is tried. */
const GROWTH = [1.1, 1.25, 1.5, 2] as const;
/** The same after the first refusal of all: a receiver that lets few mails through at once may take many in a minute. */
const GROWTH_AT_FIRST = [1.5, 2] as const;
const FIRST_GROWTH_MS = MINUTE_MS;
const NEXT_GROWTH_MS = 30_000;

/** Returns the limit after a refusal of one more mail; the same one if that refusal is of mail that was under way at the last. */
export function slowed(
  limit: Limit,
  { reply, startedAt, lastMinute }: { reply: string; startedAt: number; lastMinute: number },
  now: number,
): Limit {
  if (limit.refusedAt > 0 && (startedAt <= limit.refusedAt || now - limit.refusedAt < TOGETHER_MS)) return limit;
  const { perMinute: before } = limit;
  // Nothing was accepted since the last refusal: it is too early still.
  const isAgain = limit.refusedAt > 0 && limit.step === -1;
  const pause = isAgain
    ? Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, 2 * (limit.until - limit.refusedAt)))
    : FIRST_PAUSE_MS;
  const learnt = Math.round(lastMinute * MARGIN);
  const isFull = before === null || lastMinute >= before / 2;
  const known = before === null ? learnt : Math.min(learnt, before - 1);
  const perMinute = lastMinute === 0 && before === null ? COLD_PER_MINUTE : isFull ? known : Math.floor(before / 2);
  const least = before === null ? 1 : Math.max(1, Math.floor(before / 2));
  return {
    ...limit,
    perMinute: Math.max(least, perMinute),
    knownPerMinute: isFull && lastMinute > 0 ? Math.max(least, perMinute) : (limit.knownPerMinute ?? before),
    until: now + pause,
    step: -1,
    since: before === null ? now : limit.since,
    changedAt: now,
    refusedAt: now,
    cause: shortCause(reply),
    evidence: null,
  };
}

/** Returns the limit after an accepted mail, which `lastMinute` counts; null if the limit is forgotten. */
export function taken(limit: Limit, lastMinute: number, now: number): Limit | null {
  const { perMinute, knownPerMinute: known } = limit;
  if (perMinute === null) return limit;
  const first = limit.step === -1 ? { ...limit, step: 0 } : limit;
  const age = now - limit.changedAt;
  if (known !== null && perMinute < known) {
    if (age < RETURN_MS) return first;
    return { ...first, perMinute: Math.min(known, Math.ceil(perMinute * RETURN_FACTOR)), changedAt: now };
  }
  if (age < growsAfter(first) || lastMinute < perMinute * USED) return first;
  const factors = isFirst(limit) ? GROWTH_AT_FIRST : GROWTH;
  const grown = Math.ceil(perMinute * (factors[Math.min(first.step, factors.length - 1)] ?? 2));
  return grown > FORGET_OVER
    ? null
    : { ...first, perMinute: grown, knownPerMinute: null, changedAt: now, step: first.step + 1 };
}

/** A small number grows by a whole mail, so it waits until about twenty were accepted: else many tries are refused. */
function growsAfter(limit: Limit): number {
  const { perMinute, step } = limit;
  return step > 0 || isFirst(limit)
    ? NEXT_GROWTH_MS
    : FIRST_GROWTH_MS * Math.min(2, Math.max(1, 20 / (perMinute ?? 20)));
}

const isFirst = ({ since, refusedAt }: Limit): boolean => since === refusedAt;
