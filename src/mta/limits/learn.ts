/**
 * What an answer teaches: a pure function from the limits that are known of a lane (a site from one source), one answer and the time to the
 * limits that are others now. The subject of an answer says what it is about (docs/delivery.md, "What a reply teaches"), and config/limits.yaml
 * how many of a kind close that, and for how long.
 *
 * A limit is about as little as the answers allow: in the lane of an operator, which serves many organisations, about one recipient domain, until
 * three of them get such answers with nothing accepted between; of the senders about one account, until several are refused; of sites about one,
 * until three name the same public list. When a limit is over one mail tries: if it is refused in the same way the next time is longer.
 */
import { MINUTE_MS } from '../../base/time.ts';
import type { AnswerRule, AnswerRules } from '../../config/limit-rules.ts';
import type { Outcome, Subject } from '../../messages/delivery/delivery.ts';
import type { PlaceLimits } from '../../messages/limits/book.ts';
import {
  covers,
  EVERYWHERE,
  isClosing,
  keyOf,
  newLimit,
  shortCause,
  type About,
  type Evidence,
  type Limit,
  type LimitKind,
  type MailKey,
} from '../../messages/limits/limit.ts';
import { publicListIn } from '../attempt/subject.ts';

/** A lane, as far as answers to its mail depend on it. */
export interface LaneFacts extends Pick<About, 'site' | 'source'> {
  /** It is an operator's, and serves many organisations. */
  readonly isShared: boolean;
  /** It leads to a smarthost: its route says what TLS all of its mail needs. */
  readonly isRelay: boolean;
  readonly connections: ConnectionLimits;
  /** All of its connections are in use. */
  readonly isFull: boolean;
  /** Another source may send the mail now. */
  readonly hasOtherSource: boolean;
  /** The recipient domains that asked for less since the last accepted mail. */
  readonly asking: readonly string[];
  readonly acceptedAt: number;
  /** Counts the mails accepted in the last minute, or within so many ms, of one recipient domain or of all. */
  lastMinute(domain: string | null, ms?: number): number;
}

/** The limits of the lane, and those of its source at every site: by their keys, and those that may cover mail to a domain. */
type KnownLimits = Pick<PlaceLimits, 'get' | 'of'>;

export interface Lesson {
  /** Limits and evidence that are others now. */
  readonly changed: readonly Limit[];
  /** Those that are over. */
  readonly ended: readonly Limit[];
  /** A permanent refusal of us comes back as one to wait for. */
  readonly outcome: Outcome;
  readonly asking: readonly string[];
  /** The answer asks one recipient domain of an operator for less. */
  readonly isOneDomains: boolean;
}

/** While one mail finds out whether a limit is over, the others are looked at again after so long, in ms. */
export const PROBE_LOOK_MS = 2_000;
/** Members (recipient domains of an operator, sites) that must give such answers for the limit to be about all of them. */
const MEMBERS = 3;
/** Refusals in a row, of several accounts, that close for all accounts; of each at most so many count, so that none alone stops the others. */
const ENOUGH_OF_ACCOUNTS = 10;
const MOST_OF_ACCOUNT = 5;
const LATELY_MS = 10 * MINUTE_MS;
/** A mail that another source may send is tried again after so long, in ms. */
const OTHER_SOURCE_MS = 1_000;

const asksForLess: ReadonlySet<Subject> = new Set(['rate', 'load', 'connections']);
const none: readonly never[] = [];

export function learn(
  known: KnownLimits,
  lane: LaneFacts,
  mail: MailKey,
  outcome: Outcome,
  rules: AnswerRules,
  now: number,
): Lesson {
  return new Teaching(known, lane, mail, rules, now).from(outcome);
}

/** Halves the connections of a lane by a shaping rule, or closes it, or one recipient domain in it, for a time. */
export function ruled(
  known: KnownLimits,
  { site, source }: Pick<LaneFacts, 'site' | 'source'>,
  action: { kind: 'slow' } | { kind: 'pause'; ms: number; domain: string | null },
  cause: string,
  now: number,
): Limit | null {
  const about = { site, source, domain: action.kind === 'pause' ? action.domain : null, account: null };
  if (action.kind === 'pause') {
    const before = known.get(keyOf({ ...about, kind: 'rule' })) ?? newLimit('rule', about, now);
    const until = Math.max(before.until, now + action.ms);
    return { ...before, until, step: 0, changedAt: now, cause: shortCause(cause), evidence: null };
  }
  const connections = known.get(keyOf({ ...about, kind: 'connections' }));
  return connections === undefined ? null : halved(connections, cause, now, 'rule');
}

/** Returns what an outcome is about. One without an answer of the other side is about the host, whose connection broke or was never there. */
export function subjectOfOutcome(outcome: Outcome): Subject {
  if (outcome.kind === 'deferred' && outcome.grounds === undefined && outcome.verdict.reason === 'tls_required')
    return 'tls';
  if (outcome.kind === 'deferred' || outcome.kind === 'refused') return outcome.grounds?.about ?? 'host';
  return outcome.kind === 'failed' ? 'ourselves' : 'host';
}

/** Returns whether an answer is about one mail, recipient or organisation: the server is well. */
export const isAboutOne = (about: Subject): boolean =>
  about === 'recipient' || about === 'message' || about === 'domain';

class Teaching {
  private readonly known: KnownLimits;
  private readonly lane: LaneFacts;
  private readonly mail: MailKey;
  private readonly rules: AnswerRules;
  private readonly now: number;
  private readonly changed: Limit[] = [];

  constructor(known: KnownLimits, lane: LaneFacts, mail: MailKey, rules: AnswerRules, now: number) {
    this.known = known;
    this.lane = lane;
    this.mail = mail;
    this.rules = rules;
    this.now = now;
  }

  from(outcome: Outcome): Lesson {
    const { lane, mail } = this;
    if (outcome.kind === 'accepted') return this.accepted(outcome);
    const about = subjectOfOutcome(outcome);
    if (isAboutOne(about)) this.grow();
    const isAsking = asksForLess.has(about);
    const asking =
      isAsking && !lane.asking.includes(mail.domain)
        ? [...lane.asking.slice(0, MEMBERS - 1), mail.domain]
        : lane.asking;
    const isOneDomains = isAsking && lane.isShared && asking.length < MEMBERS;
    if (isAsking) this.slow(about, outcome, !isOneDomains);
    const result = about in this.rules ? this.close(about as AnswerKind, outcome) : outcome;
    return { changed: this.changed, ended: none, outcome: result, asking, isOneDomains };
  }

  private accepted(outcome: Outcome): Lesson {
    const { mail, now, lane } = this;
    this.grow();
    const ended: Limit[] = [];
    for (const limit of this.known.of(mail.domain)) {
      if (limit.kind === 'rate') {
        const next = taken(limit, (ms) => lane.lastMinute(limit.domain, ms), now);
        if (next === null) ended.push(limit);
        else if (next !== limit) this.changed.push(next);
        // A shaping rule's pause lasts as long as the rule says.
      } else if (isClosing(limit) && limit.kind !== 'rule' && covers(limit, mail)) ended.push(limit);
    }
    return { changed: this.changed, ended, outcome, asking: none, isOneDomains: false };
  }

  private grow(): void {
    const limit = this.find('connections', {});
    if (limit === undefined) return;
    const next = grown(limit, this.lane.connections, this.lane.isFull, this.now);
    if (next !== limit) this.changed.push(next);
  }

  /** The receiver asks for less: of one recipient domain of an operator, or of all mail. */
  private slow(about: Subject, { facts }: Outcome, isForAll: boolean): void {
    const { now, lane, mail } = this;
    const reply = facts.smtpReply ?? '';
    if (about === 'rate') {
      const domains = lane.isShared ? [mail.domain, ...(isForAll ? [null] : [])] : [null];
      for (const domain of domains) {
        const limit = this.find('rate', { domain }) ?? newLimit('rate', this.about({ domain }), now);
        const next = slowed(
          limit,
          { reply, startedAt: facts.startedAt, acceptedWithin: (ms) => lane.lastMinute(domain, ms) },
          now,
        );
        if (next !== limit) this.changed.push(next);
      }
    } else if (isForAll) {
      const limit = this.find('connections', {});
      if (limit !== undefined) this.changed.push(halved(limit, reply, now));
    }
  }

  /** Counts an answer that closes something if there are more of it. */
  private close(kind: AnswerKind, outcome: Outcome): Outcome {
    const { now, lane } = this;
    const reply = outcome.facts.smtpReply ?? '';
    // A demand for TLS is the same whichever account sends.
    const isForAll = 'verdict' in outcome && outcome.verdict.reason === 'tls_required';
    const found = this.closed(kind, this.scopesOf(kind, isForAll ? null : this.mail.account), reply);
    const everywhere = kind === 'block_list' && found !== null ? this.closedEverywhere(reply) : null;
    const limit = everywhere ?? found?.limit ?? null;
    if (kind !== 'sender' && kind !== 'block_list') return outcome;
    if (outcome.kind === 'refused' && kind === 'block_list' && lane.hasOtherSource)
      return { ...outcome, kind: 'deferred', retryAt: now + OTHER_SOURCE_MS };
    if (limit === null) return outcome;
    // Mail that was not refused yet tries before it: it falls due when the limit is over.
    const retryAt = Math.max(limit.until, now) + PROBE_LOOK_MS;
    if (outcome.kind === 'deferred') return { ...outcome, retryAt: Math.max(outcome.retryAt, retryAt) };
    return found?.isNew === true || outcome.kind !== 'refused' ? outcome : { ...outcome, kind: 'deferred', retryAt };
  }

  /** Returns the limit that such an answer begins (`isNew`) or prolongs, or that stands already; null for none. */
  private closed(kind: AnswerKind, scopes: readonly Scope[], reply: string): { limit: Limit; isNew: boolean } | null {
    const { now } = this;
    let begun: Limit | null = null;
    for (const scope of scopes) {
      const limit = this.find(kind, scope) ?? newLimit(kind, this.about(scope), now);
      // A mail that was under way when the limit began says nothing new; one that tries after it prolongs the limit.
      if (limit.evidence === null) {
        const next = now < limit.until ? limit : this.again(limit, this.rules[kind], reply);
        return { limit: next, isNew: false };
      }
      const isOfAccounts =
        kind === 'sender' &&
        this.mail.account !== '' &&
        scope.account === null &&
        scopes.some(({ account }) => account !== null);
      const evidence = counted(limit.evidence, this.mail, isOfAccounts);
      const isWide = scope.domain === null && this.lane.isShared;
      const enough = isOfAccounts ? ENOUGH_OF_ACCOUNTS : this.enough(kind);
      if (evidence.count >= enough && (!isWide || evidence.members.length >= MEMBERS))
        begun = this.again({ ...limit, since: now }, this.rules[kind], reply);
      else this.changed.push({ ...limit, evidence });
    }
    return begun === null ? null : { limit: begun, isNew: true };
  }

  /** Several sites that name the same public list close the source at every site. */
  private closedEverywhere(reply: string): Limit | null {
    const { now, lane } = this;
    const list = publicListIn(reply);
    if (list === null) return null;
    const about = { site: EVERYWHERE };
    const limit = this.find('block_list', about) ?? newLimit('block_list', this.about(about), now);
    if (limit.evidence === null) return now < limit.until ? limit : this.again(limit, this.rules.block_list, reply);
    const before = limit.cause === list ? limit.evidence.members : [];
    const members = before.includes(lane.site) ? before : [...before, lane.site];
    if (members.length >= MEMBERS) return this.again({ ...limit, since: now }, this.rules.block_list, reply);
    this.changed.push({ ...limit, cause: list, evidence: { ...limit.evidence, members } });
    return null;
  }

  /** Closes it, for longer each time in a row. */
  private again(limit: Limit, { close }: AnswerRule, reply: string): Limit {
    const step = limit.step + 1;
    const until = this.now + (close[Math.min(step, close.length - 1)] ?? MINUTE_MS);
    const next = {
      ...limit,
      step,
      until,
      changedAt: this.now,
      refusedAt: this.now,
      cause: shortCause(reply),
      evidence: null,
    };
    this.changed.push(next);
    return next;
  }

  private enough(kind: AnswerKind): number {
    const { after, besideSuccess = after } = this.rules[kind];
    return this.now - this.lane.acceptedAt < LATELY_MS ? besideSuccess : after;
  }

  /** Returns what an answer of a kind can be about, the narrowest first. `account` is null for one that is the same for all accounts. */
  private scopesOf(kind: AnswerKind, account: string | null): Scope[] {
    const { domain } = this.mail;
    if (kind === 'tls') return [{ account: null, domain: this.lane.isRelay ? null : domain }];
    const accounts = kind === 'sender' && account !== null ? [account, null] : [null];
    const domains = this.lane.isShared ? [domain, null] : [null];
    return accounts.flatMap((one) => domains.map((other) => ({ account: one, domain: other })));
  }

  private about(scope: Partial<About>): About {
    const { site, source } = this.lane;
    return { site, source, domain: null, account: null, ...scope };
  }

  private find(kind: LimitKind, scope: Partial<About>): Limit | undefined {
    return this.known.get(keyOf({ kind, ...this.about(scope) }));
  }
}

type AnswerKind = keyof AnswerRules;
type Scope = Pick<About, 'account' | 'domain'>;

/** Returns the evidence with one answer more. Of answers to all accounts (`isOfAccounts`), at most some of each account count. */
function counted(
  { count, members, accounts }: Evidence,
  { account, domain }: MailKey,
  isOfAccounts: boolean,
): Evidence {
  const own = accounts[account] ?? 0;
  const isCounted = !isOfAccounts || own < MOST_OF_ACCOUNT;
  return {
    count: isCounted ? count + 1 : count,
    members: members.includes(domain) || members.length >= MEMBERS ? members : [...members, domain],
    accounts: isOfAccounts && isCounted ? { ...accounts, [account]: own + 1 } : accounts,
  };
}

export interface ConnectionLimits {
  readonly initial: number;
  readonly max: number;
}

/** The time between two halvings, in ms, so that the receiver notices the first. */
const HALVING_PAUSE_MS = 10_000;
/** Without a complaint for this long, the ceiling may be one higher. */
const PROBE_MS = 30_000;

export const firstConnections = (about: About, { initial, max }: ConnectionLimits, now: number): Limit => ({
  ...newLimit('connections', about, now),
  by: 'start',
  connections: Math.min(initial, max),
  step: 0,
  cause: 'start',
  evidence: null,
});

/** Returns the limit after a mail that was accepted while all connections were in use (`isFull`), or not. */
function grown(limit: Limit, { max }: ConnectionLimits, isFull: boolean, now: number): Limit {
  const { connections: count, ceiling, until, step } = limit;
  if (count === null || count >= max) return limit;
  if (ceiling === null) return isFull ? changed(limit, Math.min(max, 2 * count), 'growth after successes', now) : limit;
  const successes = step + 1;
  if (successes < count || !isFull || (count >= ceiling && now < until)) return { ...limit, step: successes };
  if (count < ceiling) return changed(limit, count + 1, 'growth after successes', now);
  const next = changed(limit, count + 1, 'one more tried after a quiet while', now);
  // At the most that a lane may have, nothing of the receiver limits it any more.
  return count + 1 >= max
    ? { ...next, ceiling: null, by: 'start' }
    : { ...next, ceiling: count + 1, until: now + PROBE_MS };
}

/** Halves the connections, because the receiver asked for less. */
function halved(limit: Limit, reply: string, now: number, by: Limit['by'] = 'receiver'): Limit {
  const count = limit.connections ?? 1;
  const until = now + PROBE_MS;
  if (limit.refusedAt > 0 && now - limit.refusedAt < HALVING_PAUSE_MS) return { ...limit, step: 0, until };
  const less = changed(limit, Math.max(1, Math.floor(count / 2)), shortCause(reply), now);
  return { ...less, by, ceiling: Math.max(1, count - 1), until, refusedAt: now };
}

const changed = (limit: Limit, connections: number, cause: string, now: number): Limit => ({
  ...limit,
  connections,
  step: 0,
  cause,
  changedAt: now,
});

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
/** In the minute after that refusal, what was accepted in so many ms says more than the minute, in which the number was small at first. */
const EARLY_MS = 15_000;
const FIRST_GROWTH_MS = MINUTE_MS;
const NEXT_GROWTH_MS = 30_000;

/** Returns the limit after a refusal of one more mail; the same one if that mail was let go before the last refusal was known. */
export function slowed(
  limit: Limit,
  { reply, startedAt, acceptedWithin }: { reply: string; startedAt: number; acceptedWithin: (ms?: number) => number },
  now: number,
): Limit {
  if (limit.refusedAt > 0 && startedAt < limit.until) return limit;
  const { perMinute: before } = limit;
  const isEarly = before !== null && now - limit.since < MINUTE_MS;
  const lastMinute = Math.max(acceptedWithin(), isEarly ? acceptedWithin(EARLY_MS) * (MINUTE_MS / EARLY_MS) : 0);
  // Nothing was accepted since the last refusal: it is too early still.
  const isAgain = limit.refusedAt > 0 && limit.step === -1;
  const pause = isAgain
    ? Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, 2 * (limit.until - limit.refusedAt)))
    : Math.max(LEAST_PAUSE_MS, Math.min(FIRST_PAUSE_MS, (PAUSE_MAILS * MINUTE_MS) / (before ?? 1)));
  // One mail more than the last minute had was refused: what that minute had is the number.
  const isProbe = isAgain && isFirst(limit) && before !== null;
  const learnt = Math.round((isProbe ? before - 1 : lastMinute) * MARGIN);
  const isFull = before === null || isProbe || lastMinute >= before / 2;
  const least = Math.max(1, Math.floor((before ?? 0) / 2));
  const perMinute = before === null ? firstNumber(lastMinute) : isFull ? Math.min(learnt, before - 1) : least;
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

/** Returns the limit after an accepted mail, null if it is forgotten. `acceptedWithin` counts it with those of so many ms, by default of a minute. */
export function taken(limit: Limit, acceptedWithin: (ms?: number) => number, now: number): Limit | null {
  const { perMinute, knownPerMinute: known } = limit;
  if (perMinute === null) return limit;
  // It was under way when the last refusal came. The number after the first one is one more than with those.
  if (now < limit.until) return isFirst(limit) ? { ...limit, perMinute: perMinute + 1 } : limit;
  const first = limit.step === -1 ? { ...limit, step: 0 } : limit;
  const age = now - limit.changedAt;
  if (known !== null && perMinute < known) {
    if (age < RETURN_MS) return first;
    return { ...first, perMinute: Math.min(known, Math.ceil(perMinute * RETURN_FACTOR)), changedAt: now };
  }
  if (age < growsAfter(first) || !isUsed(limit, acceptedWithin, now)) return first;
  const factors = isFirst(limit) ? GROWTH_AT_FIRST : GROWTH;
  const grown = Math.ceil(perMinute * (factors[Math.min(first.step, factors.length - 1)] ?? 2));
  return grown > FORGET_OVER
    ? null
    : { ...first, perMinute: grown, knownPerMinute: null, changedAt: now, step: first.step + 1 };
}

/** Returns whether the number limits. At first it grows so fast that the last minute says nothing: then what went since it last grew counts. */
function isUsed(limit: Limit, acceptedWithin: (ms?: number) => number, now: number): boolean {
  if (!isFirst(limit)) return acceptedWithin() >= (limit.perMinute ?? 0) * USED;
  const age = Math.min(MINUTE_MS, now - limit.changedAt);
  return acceptedWithin(age) >= (limit.perMinute ?? 0) * (age / MINUTE_MS) * USED_AT_FIRST;
}

/** A small number grows by a whole mail, so it waits until about twenty were accepted: else many tries are refused. */
function growsAfter(limit: Limit): number {
  const { perMinute, step } = limit;
  if (isFirst(limit)) return GROWTH_AT_FIRST_MS;
  return step > 0 ? NEXT_GROWTH_MS : FIRST_GROWTH_MS * Math.min(2, Math.max(1, 20 / (perMinute ?? 20)));
}

const isFirst = ({ since, refusedAt }: Limit): boolean => since === refusedAt;
