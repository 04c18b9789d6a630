/** Decides when a deferred delivery is tried again, and when it is given up. */
import { wordingOf } from '../../base/phrase.ts';
import type { MailRule } from '../../config/mail-rules.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../base/time.ts';

export interface RetryRule {
  /** Waits between attempts in ms; the last one repeats. */
  schedule: readonly number[];
  /** Time until a message is given up, in ms from its send_at or acceptance. */
  maxAge: number;
  /** Rules for some of the mail: the first one that matches and says it counts. */
  rules: readonly MailRule[];
}

/** The rule as far as the acceptance of a mail needs it. */
export type AgeRule = Pick<RetryRule, 'maxAge' | 'rules'>;

/** A mail, as far as rules tell it from others. */
export interface RuledMail {
  account: string;
  domain: string;
  stream: string;
}

const matches = ({ match: { account, domain, stream } }: MailRule, mail: RuledMail): boolean =>
  (account === undefined || account === mail.account) &&
  (domain === undefined || domain === mail.domain) &&
  (stream === undefined || stream === mail.stream);

const ruledFor = <Name extends 'retry' | 'maxAge'>(
  rules: RetryRule['rules'],
  mail: RuledMail,
  name: Name,
): MailRule[Name] => rules.find((rule) => rule[name] !== undefined && matches(rule, mail))?.[name];

/** Returns the waits between the attempts of this mail, in ms. */
export const scheduleFor = ({ schedule, rules }: Pick<RetryRule, 'schedule' | 'rules'>, mail: RuledMail) => ({
  schedule: ruledFor(rules, mail, 'retry') ?? schedule,
});

/** Returns the longest wait of any mail, in ms. */
export const longestWait = ({ schedule, rules }: RetryRule): number =>
  Math.max(...schedule, ...rules.flatMap(({ retry = [] }) => retry));

/** Share of random variation in each wait: mail that was deferred at once must not come back at once. */
const JITTER = 0.2;

export interface RetryHint {
  /** The server refuses unknown senders once; the next attempt will probably pass. */
  greylisting: boolean;
  /** The pause that the reply asks for in ms, or null. */
  askedMs: number | null;
}

/** Limits of a requested pause: a shorter one would be impatient, a longer one would keep the mail too long. */
const LEAST_ASKED_MS = 30_000;
const MOST_ASKED_MS = 6 * HOUR_MS;
/** A greylist accepts a sender after 1 minute or 5, some only after an hour. */
const GREYLIST_FIRST_MS = 60_000;
const GREYLIST_SPREAD_MS = 30_000;
const GREYLIST_NEXT_MS = 5 * MINUTE_MS;
/** A server that asks for the same short pause again and again is obeyed this often, about an hour; then the schedule decides. */
const HINTED_TRIES = 12;

/** Returns the time of the next attempt after attempt number `attempt` (the first is 1) ended at `now`. `random` is in [0, 1). */
export function nextTryAt(
  rule: Pick<RetryRule, 'schedule'>,
  attempt: number,
  now: number,
  random: number,
  hint: RetryHint | null = null,
): number {
  const { schedule } = rule;
  const wait = schedule[Math.min(attempt, schedule.length) - 1] ?? 60_000;
  return Math.round(now + (hintedWait(hint, attempt, wait, random) ?? varied(wait, random)));
}

const varied = (wait: number, random: number): number => wait * (1 + JITTER * (2 * random - 1));

function hintedWait(hint: RetryHint | null, attempt: number, scheduled: number, random: number): number | null {
  if (hint === null) return null;
  const isObeyed = attempt <= HINTED_TRIES;
  if (hint.askedMs !== null) {
    const asked = Math.min(Math.max(hint.askedMs, LEAST_ASKED_MS), MOST_ASKED_MS);
    // Never earlier than requested: many servers start their pause again then.
    return (isObeyed ? asked : Math.max(asked, scheduled)) * (1 + JITTER * random);
  }
  if (!hint.greylisting || !isObeyed) return null;
  return attempt === 1 ? GREYLIST_FIRST_MS + GREYLIST_SPREAD_MS * random : varied(GREYLIST_NEXT_MS, random);
}

/** Returns when a message is given up: at its own expires_at, or at the queue's age limit counted from the time it was to be sent. */
export function giveUpAt(
  { maxAge, rules }: AgeRule,
  mail: RuledMail,
  acceptedAt: number,
  sendAt: number | null,
  expiresAt: number | null,
): number {
  const limit = Math.max(acceptedAt, sendAt ?? 0) + (ruledFor(rules, mail, 'maxAge') ?? maxAge);
  return expiresAt === null ? limit : Math.min(limit, expiresAt);
}

/** Mail whose time ran out before `startedAt` is tried until `until`; both in ms since the epoch. */
export interface ExtraTime {
  startedAt: number;
  until: number;
}

/** Longer than the longest wait of the schedule, so that each mail has two tries at least. */
const EXTRA_MS = 6 * HOUR_MS;

/** Returns the extra time of a program that has run without a gap since `startedAt`. */
export const extraTimeOf = (startedAt: number, { maxAge }: Pick<RetryRule, 'maxAge'>): ExtraTime => ({
  startedAt,
  until: startedAt + Math.min(EXTRA_MS, maxAge),
});

/**
 * Returns when a delivery is given up: later than at `giveUpAt` if that passed while the program did not run, but not after the sender's
 * own `expires_at`. So a server that was off for days does not give up at its start what waits.
 */
export const extendedGiveUpAt = (
  { giveUpAt, expiresAt }: { giveUpAt: number; expiresAt: number | null },
  { startedAt, until }: ExtraTime,
): number => (giveUpAt > startedAt ? giveUpAt : Math.max(giveUpAt, Math.min(until, expiresAt ?? Infinity)));

/** A missing domain may be a mistake in a zone that is corrected soon, so it takes three such answers over at least 20 minutes. */
const NO_DOMAIN_ANSWERS = 3;
const NO_DOMAIN_SPAN_MS = 20 * MINUTE_MS;

/** Returns whether a domain does not exist for good: `count` such answers in a row since `since`. */
export function domainIsGone(count: number, since: number, now: number): boolean {
  return count >= NO_DOMAIN_ANSWERS && now - since >= NO_DOMAIN_SPAN_MS;
}

/** A mailbox that has been full for a day is probably not read any more. */
const FULL_MS = DAY_MS;

/** Returns whether mail that first met a full mailbox at `since`, and meets it at `now`, is given up. */
export const staysFull = (since: number, now: number): boolean => now - since >= FULL_MS;

/** Words that ask for a pause, then a number. Only few words may come between them, so that other numbers do not match. */
const ASKED =
  / (?:again|retry|retrying|back|wait|delay|delayed|later|resend|reconnect|gr[ae]ylist(?:ed|ing)?|erneut|reessayer|intente|riprova)(?: (?:in|after|for|at|least|about|another|the|next|please|time|approximately|message|it|this|action|nach|dans|en|tra)){0,4} (?:(\d{1,2}) (\d{2}) (\d{2})|(\d{1,5}) ?([a-z]{1,10})) /;

const UNITS: readonly (readonly [words: RegExp, ms: number])[] = [
  [/^(?:s|secs?|seconds?|sekunden|secondes|segundos)$/, 1000],
  [/^(?:m|mins?|minutes?|minuten|minutos|minuti)$/, MINUTE_MS],
  [/^(?:h|hrs?|hours?|stunden|heures|horas)$/, HOUR_MS],
];

/** Returns the pause that the reply asks for in ms, or null. It may be absurd: retry.ts limits it. */
export function askedPause(text: string): number | null {
  const [, hours, minutes, seconds, count, unit] = ASKED.exec(wordingOf(text).words) ?? [];
  if (hours !== undefined) return ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000;
  const ms = unit === undefined ? undefined : UNITS.find(([words]) => words.test(unit))?.[1];
  return ms === undefined ? null : Number(count) * ms;
}
