/**
 * How many mails a minute a lane sends, where somebody limits that: the operator, or a receiver that refuses more.
 *
 * What a receiver allows is read from what it accepted: when it refuses one more, that is as many as it took in the last minute.
 * The lane then keeps to that many in any minute, spread evenly, so that a receiver of 60 a minute gets 60 a minute. A refusal
 * with nothing accepted in between pauses the lane, longer each time. A pace that is used whole and meets no refusal grows by a
 * tenth after a minute, and by more each time that goes well. Pure: time is handed in, in ms.
 */

export interface Pace {
  /** Mails a minute that the receiver's answers allow, or null. */
  readonly perMinute: number | null;
  /** The answer that it comes from, and when that was given. */
  readonly cause: string;
  readonly changedAt: number;
  /** When the next mail may go. */
  readonly nextAt: number;
  /** When the receiver last refused, and how often in a row with nothing accepted between. */
  readonly refusedAt: number;
  readonly refusals: number;
  /** How often it has grown since. */
  readonly grown: number;
  /** Mails accepted in each of the last 60 seconds, by second of the minute, and the second that each count is of. */
  readonly accepted: Uint32Array;
  readonly seconds: Float64Array;
  /** Mails under way. */
  readonly inFlight: number;
}

const MINUTE_MS = 60_000;
const SECONDS = 60;
/** Refusals of mails that were under way together say one thing. */
const TOGETHER_MS = 2_000;
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60_000;
/** How much the pace grows the first, second ... time without a refusal between: a limit that was lifted is found out soon. */
const GROWTH = [1.1, 1.1, 1.25, 1.5, 2] as const;
/** A pace that is used to less than this is not what limits the lane. */
const USED = 0.8;
/** A little less than what was accepted, since the receiver's minute is not ours. */
const MARGIN = 0.97;
/** Where a receiver refuses before it has accepted anything. Its pauses keep the tries rare until it accepts. */
const COLD_PER_MINUTE = 6;
/** Beyond this a pace limits nothing worth keeping. */
const FORGET_OVER = 12_000;

export const newPace = (now: number): Pace => ({
  perMinute: null,
  cause: '',
  changedAt: now,
  nextAt: now,
  refusedAt: -Infinity,
  refusals: 0,
  grown: 0,
  accepted: new Uint32Array(SECONDS),
  seconds: new Float64Array(SECONDS),
  inFlight: 0,
});

/** A mail begins. `most` is the operator's limit, or null. */
export function begun(pace: Pace, most: number | null, now: number): Pace {
  const perMinute = limitOf(pace, most);
  const inFlight = pace.inFlight + 1;
  if (perMinute === null) return { ...pace, inFlight, nextAt: now };
  const gap = MINUTE_MS / perMinute;
  // A mail that begins a little late does not put off all that follow.
  return { ...pace, inFlight, nextAt: Math.max(pace.nextAt, now - gap) + gap };
}

/** It was not begun after all. */
export function putBack(pace: Pace, most: number | null): Pace {
  const perMinute = limitOf(pace, most);
  const inFlight = Math.max(0, pace.inFlight - 1);
  return perMinute === null
    ? { ...pace, inFlight }
    : { ...pace, inFlight, nextAt: pace.nextAt - MINUTE_MS / perMinute };
}

/** It ended without a word about rate. */
export const ended = (pace: Pace): Pace => ({ ...pace, inFlight: Math.max(0, pace.inFlight - 1) });

/** When the next mail may begin: now, or a time to come. */
export function readyAt(pace: Pace, most: number | null, now: number): number {
  if (limitOf(pace, most) === null) return now;
  const { perMinute } = pace;
  if (perMinute === null || lastMinute(pace, now) + pace.inFlight < perMinute) return Math.max(now, pace.nextAt);
  return Math.max(now, pace.nextAt, oldestLeaves(pace, now));
}

/** The receiver refused a mail because there were too many in a time. `startedAt`: when that mail was begun. */
export function slowed(before: Pace, reply: string, startedAt: number, now: number): Pace {
  const pace = ended(before);
  if (startedAt <= pace.refusedAt || now - pace.refusedAt < TOGETHER_MS) return pace;
  const taken = lastMinute(pace, now);
  const refusals = pace.refusals + 1;
  const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (refusals - 1));
  const perMinute = Math.max(1, allowed(pace, taken));
  return {
    ...pace,
    perMinute,
    cause: reply.slice(0, 200),
    changedAt: now,
    refusedAt: now,
    refusals,
    grown: 0,
    nextAt: now + pause,
  };
}

function allowed({ perMinute }: Pace, taken: number): number {
  if (taken === 0) return Math.max(COLD_PER_MINUTE, Math.floor((perMinute ?? 0) / 2));
  const learnt = Math.round(taken * MARGIN);
  return perMinute === null || learnt < perMinute ? learnt : Math.floor(perMinute * 0.9);
}

/** A mail was accepted: it is counted, and a pace that was used whole for a minute grows. */
export function taken(before: Pace, now: number): Pace {
  const pace = ended(before);
  count(pace, now);
  if (pace.perMinute === null) return pace;
  const quiet = pace.refusals === 0 ? pace : { ...pace, refusals: 0 };
  if (now - pace.changedAt < growsAfter(pace) || lastMinute(pace, now) < pace.perMinute * USED) return quiet;
  const perMinute = Math.ceil(pace.perMinute * (GROWTH[Math.min(pace.grown, GROWTH.length - 1)] ?? 2));
  const grown = pace.grown + 1;
  return { ...quiet, perMinute: perMinute > FORGET_OVER ? null : perMinute, changedAt: now, grown };
}

/** A pace of few mails a minute grows by a whole one, so it waits until about twenty were accepted: else many tries are refused. */
const growsAfter = ({ perMinute, grown }: Pace): number =>
  MINUTE_MS * Math.max(1, 20 / (perMinute ?? 20) / (1 + 4 * grown));

/** Somebody wants to know now: what was learnt is forgotten, and learnt again from the next refusal. */
export const forgotten = (pace: Pace, now: number): Pace => ({
  ...pace,
  perMinute: null,
  refusals: 0,
  grown: 0,
  changedAt: now,
  nextAt: now,
});

/** The clock was set to another time, so many ms on. */
export function shifted(pace: Pace, ms: number): Pace {
  const { changedAt, nextAt, refusedAt } = pace;
  const moved = { changedAt: changedAt + ms, nextAt: nextAt + ms, refusedAt: refusedAt + ms };
  return { ...pace, ...moved, accepted: new Uint32Array(SECONDS), seconds: new Float64Array(SECONDS) };
}

/** Counts in place: this happens for every mail, and nobody keeps the pace from before. */
function count({ accepted, seconds }: Pace, now: number): void {
  const second = Math.floor(now / 1000);
  const at = second % SECONDS;
  accepted[at] = seconds[at] === second ? (accepted[at] ?? 0) + 1 : 1;
  seconds[at] = second;
}

/** Mails accepted in the last 60 seconds. */
function lastMinute({ accepted, seconds }: Pace, now: number): number {
  const from = Math.floor(now / 1000) - SECONDS;
  let sum = 0;
  for (let at = 0; at < SECONDS; at++) if ((seconds[at] ?? 0) > from) sum += accepted[at] ?? 0;
  return sum;
}

/** When the first of the last minute's mails is a minute old; where only mails under way fill the pace, a second from now. */
function oldestLeaves({ accepted, seconds }: Pace, now: number): number {
  const from = Math.floor(now / 1000) - SECONDS;
  let oldest = Infinity;
  for (let at = 0; at < SECONDS; at++) {
    const second = seconds[at] ?? 0;
    if (second > from && (accepted[at] ?? 0) > 0) oldest = Math.min(oldest, second);
  }
  return oldest === Infinity ? now + 1000 : (oldest + SECONDS) * 1000 + 1000;
}

const limitOf = ({ perMinute }: Pace, most: number | null): number | null =>
  perMinute === null ? most : Math.min(perMinute, most ?? Infinity);
