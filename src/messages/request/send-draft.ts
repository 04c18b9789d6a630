/** What a checked send request comes to: a draft for each message, with nothing left to doubt but what the database knows. */
import type { Problem } from '../../base/problem.ts';
import type { Mailbox } from '../../mail/address.ts';
import type { MimeContent } from '../../mail/mime-write.ts';
import type { HeaderPair } from './header-rule.ts';
import type { SendLimits } from './send-limits.ts';
import type { SimulatedOutcome } from './send-schema.ts';
import type { Unsubscribe } from './unsubscribe.ts';

/** What a check needs to know beside the request. */
export interface SendRules {
  /** Milliseconds since the epoch. */
  now: number;
  /** Whether local parts may have other than ASCII characters. */
  smtputf8: boolean;
  limits: SendLimits;
  /** Entries of a bulk send that are refused already, by their index. */
  refused?: ReadonlyMap<number, Problem>;
}

/**
 * What a mail says. Bulk entries that override nothing of it have the very same object, so it can be stored once:
 * compare by identity.
 */
export interface MessageContent extends MimeContent {
  /** Whether a text part is to be derived from the html. */
  autoText: boolean;
}

/** A mail that was submitted whole. */
export interface MessageSource {
  /** The message's id, which its own header names already. */
  id: string;
  rfcMessageId: string;
  /** Header and body as they are sent, but for DKIM. */
  bytes: Buffer;
  /** The envelope's recipients with the field of the header that names them; the message's status is that of the first. */
  recipients: readonly { type: 'to' | 'cc' | 'bcc'; mailbox: Mailbox }[];
  /** Who gets a notice where it fails in the end, or null. */
  noticeTo: string | null;
}

/** One message to be accepted. */
export interface MessageDraft {
  from: Mailbox;
  to: Mailbox;
  cc: readonly Mailbox[];
  bcc: readonly Mailbox[];
  replyTo: readonly Mailbox[];
  subject: string;
  content: MessageContent;
  /** The version of a template that it was rendered from. */
  template?: { id: string; version: number };
  /** Mail that was submitted whole: sent as it is, and the members above only say what stands in it. */
  source?: MessageSource;
  /** RFC 8689: true for REQUIRETLS, false for `TLS-Required: No` in a submitted mail; where it is absent the headers say. */
  requireTls?: boolean | null;
  headers: readonly HeaderPair[];
  tags: readonly string[];
  metadata: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch, in the future; null is now. */
  sendAt: number | null;
  /** Milliseconds since the epoch, after the time of sending; null is the service's own limit. */
  expiresAt: number | null;
  /** A well-formed slug, which need not exist; null is the default stream. */
  stream: string | null;
  /** Null is: as the domain says, then the account. */
  trackOpens: boolean | null;
  trackClicks: boolean | null;
  /** Null is: as the type of the stream says. */
  unsubscribe: Unsubscribe | false | null;
  onSuppressed: 'accept' | 'reject';
  /** Whether the caller wants the send simulated, and to what it comes (null: as the recipient's address says). */
  test: { outcome: SimulatedOutcome | null } | null;
}

/** The single form. */
export interface SingleDraft {
  kind: 'single';
  draft: MessageDraft;
}

/** An entry of the bulk form: a message, or why it is none. */
export type BulkEntryDraft =
  /** `own`: which members with a fault that refuses the whole request are its own, not the shared ones. */
  | { kind: 'ok'; index: number; draft: MessageDraft; own?: readonly string[] }
  /** `to` as it was sent (null where that was no string), for the answer. */
  | { kind: 'rejected'; index: number; to: string | null; problem: Problem };

/** The bulk form. At least one entry is ok; with `onError: 'abort'` all are. */
export interface BulkDraft {
  kind: 'bulk';
  onError: 'skip' | 'abort';
  allowDuplicates: boolean;
  /** In the order of the request, one for each entry. */
  entries: BulkEntryDraft[];
}

export type SendDraft = SingleDraft | BulkDraft;
