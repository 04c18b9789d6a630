/**
 * Rests: mail of a lane waits because the receiver gives the same kind of answer again and again, with nothing accepted between:
 *
 *   - `load`: the server as a whole cannot take mail now (4.3.x, "busy").
 *   - `sender`: it refuses mail from us (our address, our authentication, relaying, "likely spam"). Such answers are
 *     permanent, so without a rest a whole backlog would bounce for what is wrong with one setting.
 *   - `rate`: one organisation behind an operator's hosts takes only so much in a time, while the others take theirs.
 *   - `tls`: the hosts do not have the TLS that a policy asks for. That is about the recipient domain whose policy it is, or about
 *     all mail for a smarthost, whose route asks for it.
 *
 * A rest is about as little as the answers allow: of a lane that serves many organisations, one recipient domain, until three of
 * them answer so; of the senders, the account that they were given to, until several get them in a row. When a rest is over one
 * mail tries: if it is refused in the same way the next rest is longer. Pure: time is handed in, in ms.
 */
import { MINUTE_MS } from '../../base/time.ts';

export type RestKind = 'load' | 'sender' | 'tls' | 'rate';

/** The part of a lane that rests. Null means all accounts or domains. */
export interface Scope {
  account: string | null;
  domain: string | null;
}

export interface Rest extends Scope {
  kind: RestKind;
  /** The answer that began the rest, and when it came. */
  cause: string;
  since: number;
  until: number;
  /** The number of this rest in a row, and of the last one that was logged. */
  step: number;
  loggedStep: number;
  /** A mail is in hand to find out whether the rest is over. */
  isProbing: boolean;
}

/** The account and the domain of one mail. */
export interface MailKey {
  account: string;
  domain: string;
}

/** The part of a lane that a refusal is about; with `account` null, a refusal is the same for all accounts. */
type Refused = Scope & Pick<MailKey, 'domain'>;

/** Answers in a row about one part of a lane. */
interface Streak {
  /** How many were not about one account only. */
  count: number;
  domains: Set<string>;
  /** Of a streak about all accounts: how many of the answers to each one count. */
  accounts: Map<string, number>;
}

/** Answers in a row that begin a rest. */
const ENOUGH: Readonly<Record<RestKind, number>> = { load: 10, sender: 5, tls: 3, rate: 1 };
/** The same where a mail was accepted within `LATELY_MS`: a receiver that judges each mail refuses some in a row by chance. */
const ENOUGH_BESIDE_SUCCESS: Readonly<Record<RestKind, number>> = { load: 10, sender: 20, tls: 3, rate: 1 };
const LATELY_MS = 10 * MINUTE_MS;
/** Refused senders in a row, of several accounts and with no mail accepted between, that begin a rest for all accounts. */
const ENOUGH_OF_ACCOUNTS = 10;
/** At most this many of `ENOUGH_OF_ACCOUNTS` count for one account, so that no account alone stops the others. */
const MOST_OF_ACCOUNT = 5;
/** Domains of an operator's lane that must get such answers for them to be about all of it. */
export const DOMAINS = 3;
const PAUSES: Readonly<Record<RestKind, readonly number[]>> = {
  load: [1, 2, 4, 8, 15].map((minutes) => minutes * MINUTE_MS),
  sender: [2, 4, 8, 16, 32, 60].map((minutes) => minutes * MINUTE_MS),
  tls: [1, 2, 4, 8, 15].map((minutes) => minutes * MINUTE_MS),
  rate: [0.5, 1, 2, 4, 8].map((minutes) => minutes * MINUTE_MS),
};
const kinds: readonly RestKind[] = ['load', 'sender', 'tls', 'rate'];
/** Parts of one lane that are kept; the ones met longest ago are forgotten first. */
const MOST_PARTS = 1000;

export interface LaneKind {
  /** The lane serves many organisations (an operator's), so answers about one domain do not hold for all. */
  isShared(): boolean;
  /** The lane is a smarthost's: its route says what TLS all of its mail needs. */
  isRelay(): boolean;
}

export class Rests {
  private readonly lane: LaneKind;
  /** The part met longest ago first. Made where they are needed: there are thousands of lanes, and nearly all have nothing here. */
  private streaks: Map<string, Streak> | null = null;
  private rests: Map<string, Rest> | null = null;
  private acceptedAt = -Infinity;

  constructor(lane: LaneKind) {
    this.lane = lane;
  }

  /** Counts such an answer. Returns the rest that it begins (`isNew`) or prolongs, or that exists already; null for none. */
  refused(kind: RestKind, mail: Refused, reply: string, now: number): { rest: Rest; isNew: boolean } | null {
    const { account } = mail;
    let begun: Rest | null = null;
    for (const scope of this.scopesOf(kind, mail)) {
      const key = keyOf(kind, scope);
      const existing = this.rests?.get(key);
      // A mail that was under way when the rest began says nothing new; one that tries after it prolongs the rest.
      if (existing !== undefined) {
        const next = now < existing.until ? existing : this.rest(kind, scope, reply, now);
        return { rest: next, isNew: false };
      }
      const isOfAccounts = kind === 'sender' && account !== null && scope.account === null;
      const streak = this.streak(key, mail.domain);
      const count = isOfAccounts ? countOfAccounts(streak, account) : ++streak.count;
      const isWide = scope.domain === null && this.lane.isShared();
      const enough = isOfAccounts ? ENOUGH_OF_ACCOUNTS : this.enough(kind, mail, now);
      if (begun === null && count >= enough && (!isWide || streak.domains.size >= DOMAINS))
        begun = this.rest(kind, scope, reply, now);
    }
    return begun === null ? null : { rest: begun, isNew: true };
  }

  /** Counts an accepted mail; returns the rests that it ends. */
  accepted(mail: MailKey, now: number): Rest[] {
    this.acceptedAt = now;
    if (this.streaks === null && this.rests === null) return [];
    for (const kind of kinds) for (const scope of this.scopesOf(kind, mail)) this.streaks?.delete(keyOf(kind, scope));
    const over = this.touching(mail);
    for (const one of over) this.rests?.delete(keyOf(one.kind, one));
    return over;
  }

  /** True where nothing rests and no refusals are counted towards a rest. */
  get isEmpty(): boolean {
    return (this.streaks?.size ?? 0) === 0 && (this.rests?.size ?? 0) === 0;
  }

  /** Returns the rest that this mail waits for, or null. */
  of(mail: MailKey, now: number): Rest | null {
    return this.touching(mail).find((one) => now < one.until || one.isProbing) ?? null;
  }

  /** Notes that a worker has taken the mail; where a rest is over, it is the one that probes. */
  begin(mail: MailKey, now: number): void {
    for (const one of this.touching(mail)) if (now >= one.until) one.isProbing = true;
  }

  /** Notes that the mail ended without an answer about the rest. */
  ended(mail: MailKey): void {
    for (const one of this.touching(mail)) one.isProbing = false;
  }

  /** Ends the rests of this domain (null: all) on an operator's request; one mail tries. */
  tryNow(domain: string | null, now: number): number {
    let ended = 0;
    for (const one of this.list()) {
      if (domain !== null && one.domain !== null && one.domain !== domain) continue;
      one.until = Math.min(one.until, now);
      one.isProbing = false;
      ended++;
    }
    return ended;
  }

  list(): readonly Rest[] {
    return this.rests === null ? [] : [...this.rests.values()];
  }

  /** Moves all times by `ms`, by which the clock was set. */
  shift(ms: number): void {
    this.acceptedAt += ms;
    for (const one of this.list()) {
      one.since += ms;
      one.until += ms;
    }
  }

  /** Returns the parts of the lane that the mail belongs to, the narrowest first. */
  private scopesOf(kind: RestKind, { account, domain }: Refused): Scope[] {
    if (kind === 'rate') return [{ account: null, domain }];
    if (kind === 'tls') return [{ account: null, domain: this.lane.isRelay() ? null : domain }];
    const accounts = kind === 'sender' && account !== null ? [account, null] : [null];
    const domains = this.lane.isShared() ? [domain, null] : [null];
    return accounts.flatMap((one) => domains.map((other) => ({ account: one, domain: other })));
  }

  private enough(kind: RestKind, { account }: Refused, now: number): number {
    // An answer that is the same for all accounts was not given by a judgement of one mail.
    const isByChance = account !== null && now - this.acceptedAt < LATELY_MS;
    return (isByChance ? ENOUGH_BESIDE_SUCCESS : ENOUGH)[kind];
  }

  /** Returns the streak of a part of the lane, with the domain of one more answer. */
  private streak(key: string, domain: string): Streak {
    const streaks = (this.streaks ??= new Map<string, Streak>());
    const streak: Streak = streaks.get(key) ?? { count: 0, domains: new Set(), accounts: new Map() };
    remember(streaks, key, streak);
    if (streak.domains.size < DOMAINS) streak.domains.add(domain);
    return streak;
  }

  private rest(kind: RestKind, scope: Scope, cause: string, now: number): Rest {
    const key = keyOf(kind, scope);
    const rests = (this.rests ??= new Map<string, Rest>());
    const before = rests.get(key);
    const step = before === undefined ? 0 : before.step + 1;
    const pauses = PAUSES[kind];
    const pause = pauses[Math.min(step, pauses.length - 1)] ?? MINUTE_MS;
    const since = before?.since ?? now;
    const next: Rest = {
      kind,
      ...scope,
      cause: cause.slice(0, 500),
      since,
      until: now + pause,
      step,
      loggedStep: before?.loggedStep ?? -1,
      isProbing: false,
    };
    remember(rests, key, next);
    return next;
  }

  private touching(mail: MailKey): Rest[] {
    const { rests } = this;
    if (rests === null || rests.size === 0) return [];
    return kinds.flatMap((kind) => this.scopesOf(kind, mail).flatMap((scope) => rests.get(keyOf(kind, scope)) ?? []));
  }
}

/** Counts an answer to one of several accounts; returns how many count for all of them. */
function countOfAccounts({ accounts }: Streak, account: string): number {
  const count = [...accounts.values()].reduce((sum, one) => sum + one, 0);
  const own = accounts.get(account) ?? 0;
  if (own >= MOST_OF_ACCOUNT || count >= ENOUGH_OF_ACCOUNTS) return count;
  accounts.set(account, own + 1);
  return count + 1;
}

/** Puts the entry to the end, and forgets the first one where there are too many. */
function remember<Entry>(entries: Map<string, Entry>, key: string, entry: Entry): void {
  entries.delete(key);
  entries.set(key, entry);
  if (entries.size <= MOST_PARTS) return;
  for (const first of entries.keys()) {
    entries.delete(first);
    return;
  }
}

const keyOf = (kind: RestKind, { account, domain }: Scope): string => `${kind} ${account ?? '*'} ${domain ?? '*'}`;
