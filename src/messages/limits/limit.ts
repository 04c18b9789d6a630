/**
 * A limit says: this mail may not go there now, or only so fast, because of a cause. What receivers answer, the rules of an operator, the start of
 * a lane, and what an operator sets by hand are all limits; mta/limits/learn.ts makes and ends those that answers teach, and allowance.ts says
 * what they allow. Times are in ms since the epoch.
 */
import type { Subject } from '../delivery/delivery.ts';

/** The subject of the answers that made it; `rule` for a shaping rule; by hand, `hold` keeps mail back, and `limit` has numbers; `count` is a number of mails in an hour or a day (counts.ts), which has no row. */
export type LimitKind =
  | Extract<Subject, 'sender' | 'block_list' | 'load' | 'tls' | 'rate' | 'connections'>
  | 'rule'
  | 'hold'
  | 'limit'
  | 'count';

/** The subject of a limit; null means all. */
export interface About {
  /** A site; `EVERYWHERE` is every site. */
  readonly site: string;
  /** The stored name of a source (`systemSource` for the system's address); `ANY_SOURCE` is all. */
  readonly source: string;
  readonly domain: string | null;
  readonly account: string | null;
}

/** Answers that count towards a limit which does not stand yet. */
export interface Evidence {
  readonly count: number;
  /** The recipient domains that they were given for, or the sites that gave them. */
  readonly members: readonly string[];
  /** How many were given to each account. */
  readonly accounts: Readonly<Record<string, number>>;
}

/** Things that a person can name beside the site, the source, the domain and the account; null is all. */
export interface OfMail {
  /** The slug of a stream of the account. */
  readonly stream: string | null;
  readonly message: string | null;
  readonly batch: string | null;
  readonly key: string | null;
}

/** How many mails may go in an hour or a day. */
export interface Quota {
  /** The name of the rule, or the id of the limit that is set by hand. */
  readonly rule: string;
  /** Its name in sentences. */
  readonly name: string;
  /** The operator of the mail hosts that it is about; absent for any. */
  readonly operator?: string | undefined;
  readonly of: 'hour' | 'day';
  /** Null for a warm-up, whose number grows. */
  readonly most: number | null;
  /** Mail that differs in one of these is counted apart. */
  readonly each: readonly ('source' | 'site' | 'domain' | 'account' | 'stream')[];
}

export interface Limit extends About, OfMail {
  /** Null for what is not set by hand: its key names it. */
  readonly id: string | null;
  readonly kind: LimitKind;
  readonly by: 'receiver' | 'rule' | 'start' | 'operator';
  /** Connections; null does not limit them. */
  readonly connections: number | null;
  /** The connections that were accepted when one more was too many; null while none was. */
  readonly ceiling: number | null;
  readonly perMinute: number | null;
  /** The mails a minute that went well before the last refusals; null if there is none. */
  readonly knownPerMinute: number | null;
  /** Set by hand only: counts.ts makes a `count` of each. */
  readonly perHour: number | null;
  readonly perDay: number | null;
  /** Nothing goes before then. Of a number of connections: one more may be tried from then on. Set by hand: its end, or 0 if it has to be ended. */
  readonly until: number;
  /** How often in a row it closed again, or how often its number has grown since the last refusal. */
  readonly step: number;
  readonly since: number;
  readonly changedAt: number;
  /** When the receiver last refused. */
  readonly refusedAt: number;
  /** The other side's words, or the person's note. */
  readonly cause: string;
  /** The person who set it, as the audit names them; null if none has, or an older version set it. */
  readonly actor: string | null;
  /** False if mail that is accepted after `since` goes. */
  readonly catchesNew: boolean;
  /** Of a `count`; else null. */
  readonly quota: Quota | null;
  /** Null if the limit stands. */
  readonly evidence: Evidence | null;
}

export const EVERYWHERE = '';
/** Every source. No source has this name. */
export const ANY_SOURCE = '*';

/** The mail that an answer is about, or that asks whether it may go. */
export interface MailKey {
  readonly account: string;
  readonly domain: string;
  /** Known if a limit tells streams apart. */
  readonly stream?: string | undefined;
}

/** Kinds that close what they are about; one mail tries when the time is over. */
export type ClosingKind = Exclude<LimitKind, 'rate' | 'connections' | 'hold' | 'limit' | 'count'>;
export const closingKinds: readonly ClosingKind[] = ['block_list', 'sender', 'load', 'tls', 'rule'];
const closing: ReadonlySet<LimitKind> = new Set(closingKinds);
export const isClosing = ({ kind }: Pick<Limit, 'kind'>): boolean => closing.has(kind);

export const keyOf = ({
  kind,
  site,
  source,
  domain,
  account,
  id = null,
}: About & Pick<Limit, 'kind'> & Partial<Pick<Limit, 'id'>>): string =>
  id ?? `${kind} ${site} ${source} ${domain ?? '*'} ${account ?? '*'}`;

/** Returns whether a limit of the mail's site and source covers this mail. */
export const covers = ({ domain, account, stream }: Limit, mail: MailKey): boolean =>
  (domain === null || domain === mail.domain) &&
  (account === null || account === mail.account) &&
  (stream === null || stream === mail.stream);

/** Returns whether it covers all mail of its site and source. */
export const isWhole = ({ domain, account, stream, quota }: Limit): boolean =>
  domain === null &&
  account === null &&
  stream === null &&
  (quota === null || quota.each.every((one) => one === 'source' || one === 'site'));

/** The properties of a mail that a hold can name. */
export interface MailFacts {
  accountId: string;
  stream: string;
  fromDomain: string;
  domain: string;
  messageId: string;
  batchId: string | null;
  keyId: string | null;
  createdAt: number;
}

/** Returns whether a hold that names no site and no source covers this mail. */
export const holds = (limit: Limit, mail: MailFacts): boolean =>
  [
    [limit.message, mail.messageId],
    [limit.batch, mail.batchId],
    [limit.key, mail.keyId],
    [limit.account, mail.accountId],
    [limit.stream, mail.stream],
    [limit.domain, mail.domain],
  ].every(([named, own]) => named === null || named === own) &&
  (limit.catchesNew || mail.createdAt <= limit.since);

const partMembers = ['site', 'source', 'domain', 'account', 'stream', 'key', 'batch', 'message'] as const;

/** Returns whether both are about the same mail. */
export const isOfPart = (one: About & OfMail, part: About & OfMail): boolean =>
  partMembers.every((name) => one[name] === part[name]);

/** Returns whether what is set by hand has not ended by itself. */
export const isInForce = ({ by, until }: Limit, now: number): boolean =>
  by !== 'operator' || until === 0 || until > now;

/** Returns the site and the source that the name of a lane names; null is every source. */
export function placeOfLane(lane: string): { site: string; source: string | null } {
  const slash = lane.lastIndexOf('/');
  return slash < 0 ? { site: lane, source: null } : { site: lane.slice(0, slash), source: lane.slice(slash + 1) };
}

/** Returns the subject of a limit that is set by hand, in the words of commands: its narrowest member and, if several are named, all of them. */
export function scopeOf(limit: Limit): { scope: LimitScope; target: string } {
  const [first, ...others] = namedIn(limit);
  if (first === undefined) return { scope: 'all', target: 'mail' };
  const [scope, target] = first;
  const more = others.map((one) => one.join(' ')).join(', ');
  return { scope, target: more === '' ? target : `${target} (${more})` };
}

/** Returns the subject of a limit that is set by hand in words, such as `the lane mx.example.net`. */
export const scopeText = (limit: Limit): string => {
  const { scope, target } = scopeOf(limit);
  return `${scope === 'all' ? 'all' : `the ${scope}`} ${target}`;
};

export const limitScopes = ['message', 'batch', 'key', 'stream', 'account', 'domain', 'lane', 'source', 'all'] as const;
export type LimitScope = (typeof limitScopes)[number];

function namedIn({ message, batch, key, stream, account, domain, site, source }: Limit): [LimitScope, string][] {
  const lane = site === EVERYWHERE ? null : source === ANY_SOURCE ? site : `${site}/${source}`;
  const members: [LimitScope, string | null][] = [
    ['message', message],
    ['batch', batch],
    ['key', key],
    ['stream', stream],
    // The account of a stream or message is known with it.
    ['account', stream === null && message === null ? account : null],
    ['domain', domain],
    ['lane', lane],
    ['source', lane === null && source !== ANY_SOURCE ? source : null],
  ];
  return members.filter((one): one is [LimitScope, string] => one[1] !== null);
}

/** Returns whether it has an effect: it is more than evidence. */
export const stands = ({ evidence }: Limit): boolean => evidence === null;

export const ofAnyMail: OfMail = { stream: null, message: null, batch: null, key: null };

const CAUSE_CHARACTERS = 500;

/** Returns a limit of this kind that limits nothing yet. */
export const newLimit = (kind: LimitKind, about: About, now: number): Limit => ({
  ...about,
  ...ofAnyMail,
  id: null,
  kind,
  by: kind === 'rule' ? 'rule' : 'receiver',
  connections: null,
  ceiling: null,
  perMinute: null,
  knownPerMinute: null,
  perHour: null,
  perDay: null,
  until: 0,
  step: -1,
  since: now,
  changedAt: now,
  refusedAt: 0,
  cause: '',
  actor: null,
  catchesNew: true,
  quota: null,
  evidence: { count: 0, members: [], accounts: {} },
});

export const shortCause = (reply: string): string => reply.slice(0, CAUSE_CHARACTERS);
