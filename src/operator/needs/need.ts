/** The type of an item that a person should look at, and the facts that its rules read. */
import { pluralize } from '../../base/pluralize.ts';
import { DAY_MS } from '../../base/time.ts';
import type { Key, Webhook } from '../../client/types.ts';
import type { DomainRecord } from '../../domains/domain-record.ts';
import type { HeldMail, holdRecord } from '../holds.ts';

export interface Need {
  object: 'need';
  kind: string;
  /** `red`: mail is refused or stands still; `amber`: it is slow, or will stand still; `grey`: it goes on by itself. */
  level: 'red' | 'amber' | 'grey';
  /** The cause in a few words, without a full stop; the message says it whole. */
  title: string;
  /** Whole sentences: what is the case, and what it means. */
  message: string;
  /** Recipients whose mail is concerned now. */
  mails: number;
  since: string | null;
  /** When it ends by itself, is tried again, or gets worse; null if nothing is planned. */
  until: string | null;
  /** Where to act: a page of the dashboard, and a command. */
  action: { label: string; href: string; command: string };
  /** A recipient domain whose mail can be tried now, or null. */
  try_domain: string | null;
}

/** Deferred mail of one lane with one kind of answer. */
export interface Deferred {
  lane: string;
  domain: string;
  /** The code that the receiver gives the cause, such as `TSS04`, or its SMTP code. */
  code: string;
  waiting: number;
  reply: string;
}

/** Facts about the server, which members that are not administrators do not see. */
export interface ServerFacts {
  held: readonly HeldMail[];
  /** Holds and limits that a person has set. */
  set: readonly ReturnType<typeof holdRecord>[];
  /** The lane of each recipient domain that mail waits for. */
  domains: readonly { domain: string; lane: string; waiting: number }[];
  blocks: readonly {
    source: string | null;
    /** The node that the source is at, if there are several. */
    node: string | null;
    site: string;
    since: string;
    until: string;
    reply: string;
  }[];
  /** Recipient domains for which DNS does not answer, with how many recipients wait for it. */
  dnsTrouble: readonly { domain: string; waiting: number; message: string; since: string | null }[];
  /** Routes of the settings by domain. */
  routes: Readonly<Record<string, { kind: string }>>;
  /** Ports for mail that could not be opened. Here and below `node` names the node concerned, if there are several. */
  closedPorts: readonly {
    node: string | null;
    name: string;
    port: number;
    error: string | null;
    since: string | null;
  }[];
  /** The ends of the certificates of the listeners. */
  certificates: readonly { node: string | null; file: string; until: number }[];
  /** Findings of the doctor about disk, backups, settings, nodes and lost keys that are not ok. */
  findings: readonly { node: string | null; check: string; status: 'warning' | 'failed'; why: string }[];
  listed: readonly { ip: string; list: string }[];
}

/** Facts about one account. */
export interface AccountFacts {
  id: string;
  name: string;
  domains: readonly DomainRecord[];
  webhooks: readonly Pick<
    Webhook,
    'id' | 'url' | 'status' | 'disabled_reason' | 'failing_since' | 'last_success_at' | 'last_failure_at'
  >[];
  keys: readonly Pick<Key, 'id' | 'name' | 'mode' | 'created_at' | 'expires_at' | 'revoked_at'>[];
  deferred: readonly Deferred[];
}

export interface NeedFacts {
  now: number;
  server: ServerFacts | null;
  /** Their names are told if there are several. */
  accounts: readonly AccountFacts[];
}

type Given = Pick<Need, 'kind' | 'level' | 'message' | 'action'> & Partial<Need>;

/** Returns the words that name the node of an item, for the beginning of its message. */
export const atNode = (node: string | null): string => (node === null ? '' : `On the node ${node}: `);

/** Returns the first sentence without its end. A dot within a name or a number ends no sentence. */
const firstSentence = (message: string): string => /^.*?(?=[.;](?:\s|$)|$)/s.exec(message)?.[0] ?? message;

/** Returns a name as a sentence begins: `Outlook` for the lane `outlook`; the name of a host stays as it is. */
export const capital = (name: string): string =>
  name.includes('.') ? name : name.replace(/^./, (first) => first.toUpperCase());

/** Makes an item; what is not given has its plainest value. */
export const need = (given: Given): Need => ({
  object: 'need',
  title: firstSentence(given.message),
  mails: 0,
  since: null,
  until: null,
  try_domain: null,
  ...given,
});

/** One kind of item: returns those that the facts hold. */
export type Rule<Of> = (of: Of, facts: NeedFacts) => readonly Need[];

/** Certificates and keys that end within this time, in ms, are shown to people. */
export const SOON_MS = 14 * DAY_MS;

export const uri = encodeURIComponent;
export const waits = (n: number): string =>
  n === 0 ? '' : ` ${pluralize(n, 'recipient')} ${n === 1 ? 'waits' : 'wait'} for it.`;
