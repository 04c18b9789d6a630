/**
 * The pace of a lane: how many mails a minute it sends, where the operator or a receiver limits that.
 *
 * The limit of a receiver is what it accepted: when it refuses one more, that is as many as it accepted in the last minute.
 * The lane then keeps to that many in any minute, spread evenly, so that a receiver of 60 a minute gets 60 a minute. A refusal
 * with nothing accepted in between pauses the lane, longer each time. A pace that is used whole and meets no refusal grows by a
 * tenth after a minute, and by more each time that goes well. Pure: time is handed in, in ms.
 */
import { MINUTE_MS } from '../../base/time.ts';
import type { LaneShares } from './lane-shares.ts';

export interface Pace {
  /** Mails a minute that the receiver's answers allow, or null. */
  readonly perMinute: number | null;
  /** The answer that set the pace, and when it came. */
  readonly cause: string;
  readonly changedAt: number;
  /** When the next mail may go. */
  readonly nextAt: number;
  /** When the receiver last refused, and how often in a row without an accepted mail. */
  readonly refusedAt: number;
  readonly refusals: number;
  /** How often the pace has grown since the last refusal. */
  readonly grown: number;
  /** The seconds of the last minute in which mails were accepted, oldest first. */
  readonly accepted: readonly AcceptedMails[];
  /** Mails under way. */
  readonly inFlight: number;
}

/** Mails that were accepted within one second, which is counted from the epoch. */
interface AcceptedMails {
  readonly second: number;
  mails: number;
}

const SECONDS = 60;
/** Refusals of mails that were under way at the same time count once, if they come within this many ms. */
const TOGETHER_MS = 2_000;
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60_000;
/** The factors of the first, second ... growth without a refusal between: a limit that was lifted is found out soon. */
const GROWTH = [1.1, 1.1, 1.25, 1.5, 2] as const;
/** A pace that is used to less than this share does not limit the lane. */
const USED = 0.8;
/** The share of the accepted mails that becomes the pace: a little less, since the receiver's minute is not ours. */
const MARGIN = 0.97;
/** The pace where a receiver refuses before it has accepted anything; the pauses keep the tries rare until it accepts. */
const COLD_PER_MINUTE = 6;
/** A pace beyond this number of mails a minute is forgotten. */
const FORGET_OVER = 12_000;

/** There are thousands of lanes, and most of them accept a mail now and then. */
const none: readonly AcceptedMails[] = [];

export const newPace = (now: number): Pace => ({
  perMinute: null,
  cause: '',
  changedAt: now,
  nextAt: now,
  refusedAt: -Infinity,
  refusals: 0,
  grown: 0,
  accepted: none,
  inFlight: 0,
});

/** Counts a mail that begins. `most` is the operator's limit, or null. */
export function begun(pace: Pace, most: number | null, now: number): Pace {
  const perMinute = limitOf(pace, most);
  const inFlight = pace.inFlight + 1;
  if (perMinute === null) return { ...pace, inFlight, nextAt: now };
  const gap = MINUTE_MS / perMinute;
  // A mail that begins a little late does not put off all that follow.
  return { ...pace, inFlight, nextAt: Math.max(pace.nextAt, now - gap) + gap };
}

/** Takes back `begun` for a mail that was not begun after all. */
export function putBack(pace: Pace, most: number | null): Pace {
  const perMinute = limitOf(pace, most);
  const inFlight = Math.max(0, pace.inFlight - 1);
  return perMinute === null
    ? { ...pace, inFlight }
    : { ...pace, inFlight, nextAt: pace.nextAt - MINUTE_MS / perMinute };
}

/** Notes that a mail ended without an answer about rate. */
export const ended = (pace: Pace): Pace => ({ ...pace, inFlight: Math.max(0, pace.inFlight - 1) });

/** Returns when the next mail may begin: now or later. */
export function readyAt(pace: Pace, most: number | null, now: number): number {
  if (limitOf(pace, most) === null) return now;
  const { perMinute } = pace;
  if (perMinute === null || lastMinute(pace, now) + pace.inFlight < perMinute) return Math.max(now, pace.nextAt);
  return Math.max(now, pace.nextAt, oldestLeaves(pace, now));
}

/** Notes that the receiver refused a mail because there were too many in a time. `startedAt`: when that mail began. */
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

/** Counts an accepted mail. A pace that was used whole for a minute grows. */
export function taken(before: Pace, now: number): Pace {
  const pace = { ...ended(before), accepted: counted(before.accepted, now) };
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

/** Forgets the pace on an operator's request; it is learnt again from the next refusal. */
export const forgotten = (pace: Pace, now: number): Pace => ({
  ...pace,
  perMinute: null,
  refusals: 0,
  grown: 0,
  changedAt: now,
  nextAt: now,
});

/** Moves all times by `ms`, by which the clock was set. */
export function shifted(pace: Pace, ms: number): Pace {
  const { changedAt, nextAt, refusedAt } = pace;
  const moved = { changedAt: changedAt + ms, nextAt: nextAt + ms, refusedAt: refusedAt + ms };
  return { ...pace, ...moved, accepted: none };
}

/** Counts a mail, in place within one second: the pace before is not used again. Drops what is older than a minute. */
function counted(accepted: readonly AcceptedMails[], now: number): readonly AcceptedMails[] {
  const second = Math.floor(now / 1000);
  const last = accepted.at(-1);
  if (last?.second === second) {
    last.mails++;
    return accepted;
  }
  return [...accepted.filter((one) => isOfLastMinute(one, now)), { second, mails: 1 }];
}

const isOfLastMinute = ({ second }: AcceptedMails, now: number): boolean => second > Math.floor(now / 1000) - SECONDS;

/** Mails accepted in the last 60 seconds. */
const lastMinute = ({ accepted }: Pace, now: number): number =>
  accepted.reduce((sum, one) => (isOfLastMinute(one, now) ? sum + one.mails : sum), 0);

/** Returns when the first mail of the last minute is a minute old; where only mails under way fill the pace, a second from now. */
function oldestLeaves({ accepted }: Pace, now: number): number {
  const oldest = accepted.find((one) => isOfLastMinute(one, now));
  return oldest === undefined ? now + 1000 : (oldest.second + SECONDS) * 1000 + 1000;
}

/** Returns the part of an operator's limit that this node may use: at least one mail a minute, so that none waits for ever. */
export const divided = (perMinute: number | null, shares: Pick<LaneShares, 'of'>, lane: string): number | null =>
  perMinute === null ? null : Math.max(1, perMinute * shares.of(lane).fraction);

const limitOf = ({ perMinute }: Pace, most: number | null): number | null =>
  perMinute === null ? most : Math.min(perMinute, most ?? Infinity);
