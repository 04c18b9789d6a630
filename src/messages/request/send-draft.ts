/** The result of checking a send request: a draft for each message. Only checks that need the database remain. */
import type { Problem } from '../../base/problem.ts';
import type { Mailbox } from '../../mail/address.ts';
import type { BodyFacts } from '../../mail/body-facts.ts';
import type { MimeContent } from '../../mail/mime-write.ts';
import type { HeaderPair } from './header-rule.ts';
import type { SendLimits } from './send-limits.ts';
import type { SimulatedOutcome } from './send-schema.ts';
import type { Unsubscribe } from './unsubscribe.ts';

/** The circumstances of a check. */
export type Files = ReadonlyMap<string, Buffer | string>;

export interface SendRules {
  /** Milliseconds since the epoch. */
  now: number;
  /** True if local parts may have non-ASCII characters. */
  smtputf8: boolean;
  limits: SendLimits;
  /** Entries of a bulk send that are already refused, by their index. */
  refused?: ReadonlyMap<number, Problem>;
  /** Large files, decoded, or what is wrong with their base64, by the texts that stand for them in `content`. */
  files?: Files;
}

/**
 * The content of a mail. Bulk entries that override nothing of it share the same object, so that it is stored once: compare by
 * identity.
 */
export interface MessageContent extends MimeContent {
  /** True if a text part is derived from the html. */
  autoText: boolean;
}

/** A complete mail, submitted by SMTP. */
export interface MessageSource {
  /** The message's id, which its header contains already. */
  id: string;
  rfcMessageId: string;
  /** Header and body as they are sent, without DKIM signatures. */
  bytes: Buffer;
  /** Facts of the body that were found while the mail was read; null if it was not read. */
  facts: BodyFacts | null;
  /** The envelope's recipients with the header field that names them; the first one gives the message its status. */
  recipients: readonly { type: 'to' | 'cc' | 'bcc'; mailbox: Mailbox }[];
  /** The address for a failure notice, or null. */
  noticeTo: string | null;
}

export interface MessageDraft {
  from: Mailbox;
  to: Mailbox;
  cc: readonly Mailbox[];
  bcc: readonly Mailbox[];
  replyTo: readonly Mailbox[];
  subject: string;
  content: MessageContent;
  template?: { id: string; version: number };
  /** A complete mail, sent unchanged; the members above only describe it. */
  source?: MessageSource;
  /** RFC 8689: true for REQUIRETLS, false for `TLS-Required: No` in a submitted mail; if absent, the headers decide. */
  requireTls?: boolean | null;
  headers: readonly HeaderPair[];
  tags: readonly string[];
  metadata: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch, in the future; null means now. */
  sendAt: number | null;
  /** Milliseconds since the epoch, after the time of sending; null means the service's own limit. */
  expiresAt: number | null;
  /** A well-formed slug, which need not exist; null means the default stream. */
  stream: string | null;
  /** Null means the setting of the domain, then of the account. */
  trackOpens: boolean | null;
  trackClicks: boolean | null;
  /** Null means the default for the type of the stream. */
  unsubscribe: Unsubscribe | false | null;
  onSuppressed: 'accept' | 'reject';
  /** Set for a simulated send, with its outcome (null: the recipient's address decides). */
  test: { outcome: SimulatedOutcome | null } | null;
}

/** One entry of the bulk form: a message, or the problem that refuses it. */
export type BulkEntryDraft =
  /** `own`: the members of the entry that override shared ones and could refuse it. */
  | { kind: 'ok'; index: number; draft: MessageDraft; own?: readonly string[] }
  /** `to` as it was sent, for the answer; null if it was not a string. */
  | { kind: 'rejected'; index: number; to: string | null; problem: Problem };

/** The draft of the bulk form. At least one entry is ok; with `onError: 'abort'` all are. */
export interface BulkDraft {
  kind: 'bulk';
  onError: 'skip' | 'abort';
  allowDuplicates: boolean;
  /** One for each entry, in the order of the request. */
  entries: BulkEntryDraft[];
}

export type SendDraft = { kind: 'single'; draft: MessageDraft } | BulkDraft;
