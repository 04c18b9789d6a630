/**
 * How many mails a minute a lane sends, where somebody limits that: the operator, or a reply that asks for fewer in a time. The
 * pace that a reply asks for begins at half of what was sent, is halved again at the next complaint, and grows back by half
 * for each quiet minute until it limits nothing. Pure: time is handed in.
 */

export interface Pace {
  /** Mails a minute that replies have asked for, or null. */
  readonly perMinute: number | null;
  readonly changedAt: number;
  /** When the next mail may go. */
  readonly nextAt: number;
  /** Begin of the minute that is counted, what was begun in it, and in the one before. */
  readonly minute: number;
  readonly sent: number;
  readonly sentBefore: number;
}

const MINUTE_MS = 60_000;
/** After a halving the remote gets time to feel it before the next one. */
const HALVING_PAUSE_MS = 10_000;
const GROWTH = 1.5;
/** A pace of more than so many times what is sent limits nothing: it is forgotten. */
const FORGET_OVER = 2;

export const newPace = (now: number): Pace => ({
  perMinute: null,
  changedAt: now,
  nextAt: now,
  minute: now,
  sent: 0,
  sentBefore: 0,
});

/** A mail begins. `most` is the operator's limit, or null. */
export function begun(pace: Pace, most: number | null, now: number): Pace {
  const counted = turned(pace, now);
  const perMinute = limitOf(counted, most);
  if (perMinute === null) return { ...counted, sent: counted.sent + 1, nextAt: now };
  const gap = MINUTE_MS / perMinute;
  // A mail that begins a little late does not put off all that follow.
  return { ...counted, sent: counted.sent + 1, nextAt: Math.max(counted.nextAt, now - gap) + gap };
}

/** When the next mail may begin: now, or a time to come. */
export function readyAt(pace: Pace, most: number | null, now: number): number {
  return limitOf(pace, most) === null ? now : Math.max(now, pace.nextAt);
}

/** A reply asked for fewer mails in a time. */
export function slowed(pace: Pace, now: number): Pace {
  const counted = turned(pace, now);
  if (counted.perMinute !== null && now - counted.changedAt < HALVING_PAUSE_MS) return counted;
  const rate = counted.perMinute ?? Math.max(counted.sent, counted.sentBefore);
  const perMinute = Math.max(1, Math.floor(rate / 2));
  return { ...counted, perMinute, changedAt: now, nextAt: now + MINUTE_MS / perMinute };
}

/** A mail was accepted: after a quiet minute the pace is half as much again. */
export function quickened(pace: Pace, now: number): Pace {
  const { perMinute, changedAt } = pace;
  if (perMinute === null || now - changedAt < MINUTE_MS) return pace;
  const faster = Math.ceil(perMinute * GROWTH);
  const counted = turned(pace, now);
  const isFree = faster > FORGET_OVER * Math.max(counted.sent, counted.sentBefore, 1);
  return { ...counted, perMinute: isFree ? null : faster, changedAt: now };
}

function turned(pace: Pace, now: number): Pace {
  if (now < pace.minute + MINUTE_MS) return pace;
  const isNext = now < pace.minute + 2 * MINUTE_MS;
  return { ...pace, minute: now, sentBefore: isNext ? pace.sent : 0, sent: 0 };
}

const limitOf = ({ perMinute }: Pace, most: number | null): number | null =>
  perMinute === null ? most : Math.min(perMinute, most ?? Infinity);
