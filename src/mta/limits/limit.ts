/**
 * A limit says: this mail may not go there now, or only so fast, because of a cause. What receivers answer, the rules of an operator and the
 * start of a lane are all limits; learn.ts makes and ends them, allowance.ts says what they allow. Times are in ms since the epoch.
 */
import type { Subject } from '../../messages/delivery/delivery.ts';

/** The subject of the answers that made it; `rule` for a shaping rule. */
export type LimitKind = Extract<Subject, 'sender' | 'block_list' | 'load' | 'tls' | 'rate' | 'connections'> | 'rule';

/** The subject of a limit; null means all. */
export interface About {
  /** A site; the empty name is every site. */
  readonly site: string;
  /** The stored name of a source (`systemSource` for the system's address). */
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

export interface Limit extends About {
  readonly kind: LimitKind;
  readonly by: 'receiver' | 'rule' | 'start';
  /** Connections; null does not limit them. */
  readonly connections: number | null;
  /** The connections that were accepted when one more was too many; null while none was. */
  readonly ceiling: number | null;
  readonly perMinute: number | null;
  /** The mails a minute that went well before the last refusals; null if there is none. */
  readonly knownPerMinute: number | null;
  /** Nothing goes before then. Of a number of connections: one more may be tried from then on. */
  readonly until: number;
  /** How often in a row it closed again, or how often its number has grown since the last refusal. */
  readonly step: number;
  readonly since: number;
  readonly changedAt: number;
  /** When the receiver last refused. */
  readonly refusedAt: number;
  /** The other side's words. */
  readonly cause: string;
  /** Null if the limit stands. */
  readonly evidence: Evidence | null;
}

/** The mail that an answer is about, or that asks whether it may go. */
export interface MailKey {
  readonly account: string;
  readonly domain: string;
}

/** Kinds that close what they are about; one mail tries when the time is over. */
export type ClosingKind = Exclude<LimitKind, 'rate' | 'connections'>;
export const closingKinds: readonly ClosingKind[] = ['block_list', 'sender', 'load', 'tls', 'rule'];
export const isClosing = ({ kind }: Pick<Limit, 'kind'>): boolean => kind !== 'rate' && kind !== 'connections';

export const keyOf = ({ kind, site, source, domain, account }: About & Pick<Limit, 'kind'>): string =>
  `${kind} ${site} ${source} ${domain ?? '*'} ${account ?? '*'}`;

/** Returns whether a limit of the mail's site and source covers this mail. */
export const covers = ({ domain, account }: Limit, mail: MailKey): boolean =>
  (domain === null || domain === mail.domain) && (account === null || account === mail.account);

/** Returns whether it covers all mail of its site and source. */
export const isWhole = ({ domain, account }: Limit): boolean => domain === null && account === null;

/** Returns whether it has an effect: it is more than evidence. */
export const stands = ({ evidence }: Limit): boolean => evidence === null;

const CAUSE_CHARACTERS = 500;

/** Returns a limit of this kind that limits nothing yet. */
export const newLimit = (kind: LimitKind, about: About, now: number): Limit => ({
  ...about,
  kind,
  by: kind === 'rule' ? 'rule' : 'receiver',
  connections: null,
  ceiling: null,
  perMinute: null,
  knownPerMinute: null,
  until: 0,
  step: -1,
  since: now,
  changedAt: now,
  refusedAt: 0,
  cause: '',
  evidence: { count: 0, members: [], accounts: {} },
});

export const shortCause = (reply: string): string => reply.slice(0, CAUSE_CHARACTERS);
