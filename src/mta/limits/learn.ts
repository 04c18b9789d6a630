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
import { publicListIn } from '../attempt/subject.ts';
import { grown, halved, type ConnectionLimits } from './connections.ts';
import {
  closingKinds,
  keyOf,
  newLimit,
  shortCause,
  type About,
  type ClosingKind,
  type Evidence,
  type Limit,
  type LimitKind,
  type MailKey,
} from '../../messages/limits/limit.ts';
import { slowed, taken } from './rate.ts';

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

/** The limits of the lane, and those of its source at every site, by their keys. */
export interface KnownLimits {
  get(key: string): Limit | undefined;
  readonly size: number;
}

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
/** Every site. */
const EVERYWHERE = '';

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
    // A new lane has a limit of connections only.
    if (this.known.size > 1) {
      for (const domain of [null, mail.domain]) {
        const rate = this.find('rate', { domain });
        if (rate === undefined) continue;
        const next = taken(rate, (ms) => lane.lastMinute(domain, ms), now);
        if (next === null) ended.push(rate);
        else if (next !== rate) this.changed.push(next);
      }
      for (const kind of closingKinds)
        for (const scope of this.scopesOf(kind, mail.account)) ended.push(...this.endable(kind, scope));
      ended.push(...this.endable('block_list', { site: EVERYWHERE }));
    }
    return { changed: this.changed, ended, outcome, asking: none, isOneDomains: false };
  }

  /** A shaping rule's pause lasts as long as the rule says. */
  private endable(kind: LimitKind, scope: Partial<About>): Limit[] {
    const found = this.find(kind, scope);
    return found === undefined || kind === 'rule' ? [] : [found];
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
        const next = slowed(limit, { reply, startedAt: facts.startedAt, lastMinute: lane.lastMinute(domain) }, now);
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
  private scopesOf(kind: ClosingKind, account: string | null): Scope[] {
    const { domain } = this.mail;
    if (kind === 'rule') return [{ account: null, domain: null }];
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
    return this.known.get(keyOf({ ...this.about(scope), kind }));
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
