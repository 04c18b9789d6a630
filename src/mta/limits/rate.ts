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
/** A receiver that takes many mails a minute is left alone for the time of so many. */
const PAUSE_MAILS = 30;
const LEAST_PAUSE_MS = 1_000;
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
const USED_AT_FIRST = 0.6;
const KNOWN_LESS = 0.75;
/** How fast a number comes back that went well before. */
const RETURN_MS = 10_000;
const RETURN_FACTOR = 1.5;
/** The factors of the first, second ... growth without a refusal between, and how long each number is tried. */
const GROWTH = [1.1, 1.25, 1.5, 2] as const;
/** The same after the first refusal of all: a receiver that lets few mails through at once may take many in a minute. */
const GROWTH_AT_FIRST = [2] as const;
const GROWTH_AT_FIRST_MS = 3_000;
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
    : Math.max(LEAST_PAUSE_MS, Math.min(FIRST_PAUSE_MS, (PAUSE_MAILS * MINUTE_MS) / (before ?? 1)));
  // One mail more than the last minute had was refused: what that minute had is the number.
  const isProbe = isAgain && isFirst(limit) && before !== null;
  const learnt = Math.round((isProbe ? before - 1 : lastMinute) * MARGIN);
  const isFull = before === null || isProbe || lastMinute >= before / 2;
  const known = before === null ? learnt : Math.min(learnt, before - 1);
  const perMinute = before === null ? firstNumber(lastMinute) : isFull ? known : Math.floor(before / 2);
  const least = before === null ? 1 : Math.max(1, Math.floor(before / 2));
  return {
    ...limit,
    perMinute: Math.max(least, perMinute),
    knownPerMinute: before === null ? null : isFull && lastMinute > 0 ? Math.max(least, perMinute) : lessKnown(limit),
    until: now + pause,
    step: -1,
    since: before === null ? now : limit.since,
    changedAt: now,
    refusedAt: now,
    cause: shortCause(reply),
    evidence: null,
  };
}

/** A number that is refused again though little of it was used is not known so well any more. */
function lessKnown({ perMinute, knownPerMinute: known }: Limit): number | null {
  if (perMinute === null || (known !== null && perMinute < known)) return known;
  return Math.ceil(perMinute * KNOWN_LESS);
}

/**
 * Returns the number after the first refusal of all: one mail more than the last minute had. It goes after the pause, and tells a receiver whose
 * minute is over by then, or that takes a mail every now and then, from one that takes so many in a minute.
 */
const firstNumber = (lastMinute: number): number => (lastMinute === 0 ? COLD_PER_MINUTE : lastMinute + 1);

/**
 * Returns the limit after an accepted mail, which `acceptedWithin` counts among those of so many ms, of a minute if that is not said; null if the
 * limit is forgotten.
 */
export function taken(limit: Limit, acceptedWithin: (ms?: number) => number, now: number): Limit | null {
  const { perMinute, knownPerMinute: known } = limit;
  if (perMinute === null) return limit;
  const first = limit.step === -1 ? { ...limit, step: 0 } : limit;
  const age = now - limit.changedAt;
  if (known !== null && perMinute < known) {
    if (age < RETURN_MS) return first;
    return { ...first, perMinute: Math.min(known, Math.ceil(perMinute * RETURN_FACTOR)), changedAt: now };
  }
  if (age < growsAfter(first) || !isUsed(limit, acceptedWithin, age)) return first;
  const factors = isFirst(limit) ? GROWTH_AT_FIRST : GROWTH;
  const grown = Math.ceil(perMinute * (factors[Math.min(first.step, factors.length - 1)] ?? 2));
  return grown > FORGET_OVER
    ? null
    : { ...first, perMinute: grown, knownPerMinute: null, changedAt: now, step: first.step + 1 };
}

/** Returns whether the number limits. At first it grows so fast that the last minute says nothing: then what went since it last grew counts. */
const isUsed = (limit: Limit, acceptedWithin: (ms?: number) => number, age: number): boolean =>
  isFirst(limit)
    ? acceptedWithin(age) >= (limit.perMinute ?? 0) * (age / MINUTE_MS) * USED_AT_FIRST
    : acceptedWithin() >= (limit.perMinute ?? 0) * USED;

/** A small number grows by a whole mail, so it waits until about twenty were accepted: else many tries are refused. */
function growsAfter(limit: Limit): number {
  const { perMinute, step } = limit;
  if (isFirst(limit)) return GROWTH_AT_FIRST_MS;
  return step > 0 ? NEXT_GROWTH_MS : FIRST_GROWTH_MS * Math.min(2, Math.max(1, 20 / (perMinute ?? 20)));
}

const isFirst = ({ since, refusedAt }: Limit): boolean => since === refusedAt;
