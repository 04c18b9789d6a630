/** Builds a draft from its parts: required members, limits over several of them, and the size of the mail. */
import { Problem, type ProblemCode, invalid, missing } from '../../base/problem.ts';
import { addressKey, type Mailbox, parseMailbox } from '../../mail/address.ts';
import { encodedSize, textFromHtml, writeHead, type MimeContent, type Attachment } from '../../mail/mime-write.ts';
import { MOST_HEADERS, mergeHeaders, type HeaderPair, checkHeaders } from './header-rule.ts';
import { MOST_METADATA_KEYS, MOST_TAGS, type SendLimits, MOST_REPLY_TO } from './send-limits.ts';
import { checkExpiry, checkSendAt, checkTime } from './send-time.ts';
import { hasUnsubscribeLink, withLinkInBody, type Unsubscribe, checkUnsubscribe } from './unsubscribe.ts';
import type { BodyFacts } from '../../mail/body-facts.ts';
import { type SimulatedOutcome, type BulkEntry, ONE_RECIPIENT } from './send-schema.ts';
import type { z } from 'zod';
import { decodeAttachments } from './attachment.ts';

/** Bytes of all keys and values of `metadata`, in UTF-8. */
const METADATA_MOST_BYTES = 10 * 1024;

/** A content, and what is known of its size in the mail, however many messages share it. */
export interface SizedContent {
  readonly content: MessageContent;
  /** The body has the unsubscribe link. */
  readonly hasLink: boolean;
  /** Never less than its size; from the lengths alone. */
  readonly bound: number;
  /** Never less either, and within some percent; measured if the first is not enough to know. */
  measured?: number;
}

/** Returns the content. Throws `missing_content` without html and text. */
export function contentOf(parts: Parts, prefix: string): SizedContent {
  const { html, text } = parts.body ?? { html: null, text: null };
  if (html === null && text === null) {
    throw new Problem('missing_content', 'The message has no content: give it `html` or `text`.', {
      field: `${prefix}html`,
    });
  }
  const autoText = html !== null && text === null && parts.autoText !== false;
  const content = { html, text, autoText, attachments: parts.attachments ?? [] };
  const hasLink = [hasUnsubscribeLink(html, `${prefix}html`), hasUnsubscribeLink(text, `${prefix}text`)].includes(true);
  return { content, hasLink, bound: boundOf(content) };
}

/** Most messages have none of most lists: they share these, which saves memory in a bulk send. */
const NONE: readonly never[] = Object.freeze([]);
const NOTHING: Readonly<Record<string, never>> = Object.freeze({});

/** Builds the draft. Throws the first fault; `prefix` is the place of the message: `''` or `recipients[3].`. */
export function draftOf(parts: Parts, sized: SizedContent, rules: SendRules, prefix: string): MessageDraft {
  const { now } = rules;
  const { content } = sized;
  const sendAt = parts.sendAt !== null && parts.sendAt > now ? parts.sendAt : null;
  const draft: MessageDraft = {
    from: required(parts.from, `${prefix}from`),
    to: required(parts.to, `${prefix}to`),
    cc: parts.cc ?? NONE,
    bcc: parts.bcc ?? NONE,
    replyTo: parts.replyTo ?? NONE,
    subject: required(parts.subject, `${prefix}subject`),
    content,
    headers: parts.headers ?? NONE,
    tags: parts.tags ?? NONE,
    metadata: parts.metadata ?? NOTHING,
    sendAt,
    expiresAt: parts.expiresAt,
    stream: parts.stream,
    trackOpens: parts.trackOpens,
    trackClicks: parts.trackClicks,
    unsubscribe: sized.hasLink ? withLinkInBody(parts.unsubscribe, `${prefix}unsubscribe`) : parts.unsubscribe,
    onSuppressed: parts.onSuppressed ?? 'accept',
    test: parts.test === false ? null : parts.test,
  };
  checkCounts(draft, rules.limits.recipients, prefix);
  if (parts.metadata !== null) checkMetadata(parts.metadata, `${prefix}metadata`);
  if (draft.expiresAt !== null) checkExpiry(draft.expiresAt, sendAt ?? now, `${prefix}expires_at`);
  checkSize(draft, sized, rules, prefix);
  return draft;
}

/** Merges an entry's parts over the shared ones: headers and metadata merge, tags add up, all else replaces. */
export function mergeParts(shared: Parts, own: Parts): Parts {
  return {
    from: own.from ?? shared.from,
    to: own.to,
    cc: own.cc,
    bcc: own.bcc,
    replyTo: own.replyTo ?? shared.replyTo,
    subject: own.subject ?? shared.subject,
    body: own.body ?? shared.body,
    autoText: own.autoText ?? shared.autoText,
    attachments: own.attachments ?? shared.attachments,
    headers: merged(shared.headers, own.headers, mergeHeaders),
    tags: merged(shared.tags, own.tags, (a, b) => [...new Set([...a, ...b])]),
    metadata: merged(shared.metadata, own.metadata, (a, b) => ({ ...a, ...b })),
    sendAt: own.sendAt ?? shared.sendAt,
    expiresAt: own.expiresAt ?? shared.expiresAt,
    stream: own.stream ?? shared.stream,
    trackOpens: own.trackOpens ?? shared.trackOpens,
    trackClicks: own.trackClicks ?? shared.trackClicks,
    unsubscribe: own.unsubscribe ?? shared.unsubscribe,
    onSuppressed: own.onSuppressed ?? shared.onSuppressed,
    test: own.test ?? shared.test,
  };
}

const merged = <T>(shared: T | null, own: T | null, merge: (shared: T, own: T) => T): T | null =>
  shared === null || own === null ? (own ?? shared) : merge(shared, own);

function required<T>(value: T | null, field: string): T {
  if (value !== null) return value;
  throw missing(field, `\`${field}\` is missing.`);
}

function checkCounts(draft: MessageDraft, mostRecipients: number, prefix: string): void {
  refuseOver(draft.tags.length, MOST_TAGS, `${prefix}tags`);
  refuseOver(draft.headers.length, MOST_HEADERS, `${prefix}headers`);
  if (draft.cc.length + draft.bcc.length < mostRecipients || distinct(draft) <= mostRecipients) return;
  const why = `A message can have at most ${String(mostRecipients)} recipients in \`to\`, \`cc\` and \`bcc\`.`;
  throw new Problem('too_many_recipients', why, {
    field: `${prefix}${draft.cc.length >= draft.bcc.length ? 'cc' : 'bcc'}`,
  });
}

const distinct = (draft: MessageDraft): number =>
  new Set([draft.to, ...draft.cc, ...draft.bcc].map((mailbox) => addressKey(mailbox.address))).size;

function refuseOver(count: number, most: number, field: string): void {
  if (count > most)
    throw new Problem('too_many_items', `\`${field}\` must have at most ${String(most)} entries.`, { field });
}

function checkMetadata(metadata: Readonly<Record<string, string>>, field: string): void {
  let keys = 0;
  let bytes = 0;
  for (const [key, value] of Object.entries(metadata)) {
    keys += 1;
    bytes += key.length + Buffer.byteLength(value);
  }
  if (keys <= MOST_METADATA_KEYS && bytes <= METADATA_MOST_BYTES) return;
  const why = keys > MOST_METADATA_KEYS ? `${String(MOST_METADATA_KEYS)} keys` : `${String(METADATA_MOST_BYTES)} bytes`;
  throw invalid(field, `\`${field}\` must have at most ${why}.`);
}

/**
 * A UTF-16 unit has at most three bytes of UTF-8, a byte at most three characters of quoted-printable, plus soft line breaks. A derived text
 * part is shorter than its html.
 */
function boundOf({ html, text, autoText, attachments }: MessageContent): number {
  const characters = (html?.length ?? 0) * (autoText ? 2 : 1) + (text?.length ?? 0);
  return characters * 10 + encodedSize({ html: null, text: null, attachments }) + 1000;
}

/** Looks at every character, which takes a millisecond for 100 KB. A text part is derived only if that decides. */
const measure = (content: MessageContent): number =>
  encodedSize(content) + (content.autoText ? encodedSize({ html: null, text: content.html, attachments: [] }) : 0);

/** Bytes that the service adds: Received and DKIM fields, ids, list headers. */
const OWN_HEADERS = 4 * 1024;
/** Larger than any header we accept: 50 fields, 50 recipients. */
const LARGEST_HEAD = 2 * 1024 * 1024;

/** Throws `message_too_large`. The exact size is computed only near the limit. */
function checkSize(draft: MessageDraft, sized: SizedContent, rules: SendRules, prefix: string): void {
  const most = rules.limits.messageBytes;
  if (sized.bound + LARGEST_HEAD <= most) return;
  const { content } = sized;
  const contentBytes = (sized.measured ??= measure(content));
  if (contentBytes + LARGEST_HEAD <= most) return;
  const head =
    writeHead({ ...draft, to: [draft.to], extra: draft.headers, date: new Date(rules.now), messageId: '' }).length +
    OWN_HEADERS;
  if (contentBytes + head <= most || exactBytes(content) + head <= most) return;
  const part = content.attachments.length > 0 ? 'attachments' : content.html !== null ? 'html' : 'text';
  const why = `The encoded message would be larger than ${String(most)} bytes. Send less, or a link.`;
  throw new Problem('message_too_large', why, { field: prefix + part });
}

const exactBytes = (content: MessageContent): number =>
  encodedSize(content.autoText && content.html !== null ? { ...content, text: textFromHtml(content.html) } : content);

export interface SendRules {
  /** Milliseconds since the epoch. */
  now: number;
  /** True if local parts may have non-ASCII characters. */
  smtputf8: boolean;
  limits: SendLimits;
  /** Entries of a bulk send that are already refused, by their index. */
  refused?: ReadonlyMap<number, Problem>;
  /** Large files, decoded, or what is wrong with their base64, by the texts that stand for them in `content`. */
  files?: ReadonlyMap<string, Buffer | string>;
}

/** The content of a mail. Bulk entries that override nothing of it share the same object, so that it is stored once: compare by identity. */
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

type Same = Exclude<keyof MessageDraft, 'content' | 'template' | 'source' | 'requireTls' | 'sendAt' | 'test'>;

/** The checked members of one message; null means not given. */
export interface Parts extends Readonly<{ [Name in Same]: MessageDraft[Name] | null }> {
  /** Html and text are one group: giving one of them replaces both. */
  body: { html: string | null; text: string | null } | null;
  autoText: boolean | null;
  attachments: readonly Attachment[] | null;
  /** May be slightly in the past, which means now. */
  sendAt: number | null;
  /** False overrides a shared default, null does not. */
  test: MessageDraft['test'] | false;
}

/** A message of a request, after the schema check. */
export type WireMessage = Omit<z.infer<typeof BulkEntry>, 'to'> & { to?: string | null | undefined };

/** Checks the members in declared order. `prefix` is their place: `''` or `recipients[3].`. */
export function partsOf(wire: WireMessage, rules: SendRules, prefix: string): Parts {
  return {
    from: mailboxOf(wire.from, rules, `${prefix}from`, 'invalid_sender'),
    to: mailboxOf(wire.to, rules, `${prefix}to`, 'invalid_recipient'),
    cc: mailboxesOf(wire.cc, rules, `${prefix}cc`, 'invalid_recipient'),
    bcc: mailboxesOf(wire.bcc, rules, `${prefix}bcc`, 'invalid_recipient'),
    replyTo: mailboxesOf(wire.reply_to, rules, `${prefix}reply_to`, 'invalid_address'),
    subject: wire.subject?.toWellFormed() ?? null,
    body: bodyOf(wire, rules, prefix),
    autoText: wire.auto_text ?? null,
    headers: wire.headers == null ? null : checkHeaders(wire.headers, (name) => `${prefix}headers.${name}`),
    attachments: attachmentsOf(wire, rules, prefix),
    tags: wire.tags == null ? null : checkTags(wire.tags, prefix),
    metadata: wire.metadata ?? null,
    sendAt: wire.send_at == null ? null : checkSendAt(wire.send_at, rules.now, `${prefix}send_at`),
    expiresAt: wire.expires_at == null ? null : checkTime(wire.expires_at, `${prefix}expires_at`),
    stream: wire.stream ?? null,
    trackOpens: wire.track_opens ?? null,
    trackClicks: wire.track_clicks ?? null,
    unsubscribe: wire.unsubscribe == null ? null : checkUnsubscribe(wire.unsubscribe, `${prefix}unsubscribe`),
    onSuppressed: wire.on_suppressed ?? null,
    test: testOf(wire.test),
  };
}

/**
 * Refuses lists that are too long before their entries are read: a request can hold a hundred thousand. Copies are counted as
 * different addresses later; four times their limit leaves room for doubles.
 */
export function refuseLongLists(body: Readonly<Record<string, unknown>>, rules: SendRules, prefix: string): void {
  const copies = 4 * rules.limits.recipients;
  refuseLong(body['cc'], copies, 'too_many_recipients', `${prefix}cc`);
  refuseLong(body['bcc'], copies, 'too_many_recipients', `${prefix}bcc`);
  refuseLong(body['reply_to'], MOST_REPLY_TO, 'too_many_items', `${prefix}reply_to`);
  refuseLong(body['headers'], MOST_HEADERS, 'too_many_items', `${prefix}headers`);
  refuseLong(body['attachments'], rules.limits.attachments, 'too_many_items', `${prefix}attachments`);
  refuseLong(body['tags'], MOST_TAGS, 'too_many_items', `${prefix}tags`);
  refuseLong(body['metadata'], MOST_METADATA_KEYS, 'invalid_field', `${prefix}metadata`);
}

function refuseLong(value: unknown, most: number, code: ProblemCode, field: string): void {
  if (typeof value !== 'object' || value === null) return;
  // Zod ignores a member of this name, and an object could lose it on its way into the database.
  if (Object.hasOwn(value, '__proto__')) {
    throw invalid(`${field}.__proto__`, `\`${field}\` cannot have a member \`__proto__\`.`);
  }
  const length = Array.isArray(value) ? value.length : Object.keys(value).length;
  if (length <= most) return;
  throw new Problem(code, `\`${field}\` must have at most ${String(most)} entries.`, { field });
}

/** Several addresses in one text, as in a header. */
const SEVERAL = /@[^,;@]{1,255}[,;][^@]{0,255}@/;

/** Reads a mailbox as a caller wrote it. Throws a Problem that names the field. */
export function mailboxOf(
  text: string | null | undefined,
  rules: Pick<SendRules, 'smtputf8'>,
  field: string,
  code: ProblemCode,
): Mailbox | null {
  if (text == null) return null;
  const parsed = parseMailbox(text, rules);
  if (parsed.kind === 'ok') return parsed.mailbox;
  const hint = SEVERAL.test(text) ? ` ${/(?:^|\.)to$/.test(field) ? ONE_RECIPIENT : 'Give several as a list'}.` : '';
  throw new Problem(code, `\`${field}\` does not match the address format rule: ${parsed.why}.${hint}`, { field });
}

function mailboxesOf(
  value: string | string[] | null | undefined,
  rules: SendRules,
  field: string,
  code: ProblemCode,
): Mailbox[] | null {
  if (value == null) return null;
  const list = typeof value === 'string' ? [value] : value;
  const mailboxes: Mailbox[] = [];
  for (const [index, text] of list.entries()) {
    const mailbox = mailboxOf(text, rules, list === value ? `${field}[${String(index)}]` : field, code);
    if (mailbox !== null) mailboxes.push(mailbox);
  }
  return mailboxes;
}

function bodyOf(wire: WireMessage, rules: SendRules, prefix: string): Parts['body'] {
  if (wire.html == null && wire.text == null) return null;
  return {
    html: bodyText(wire.html, rules.limits.htmlBytes, `${prefix}html`),
    text: bodyText(wire.text, rules.limits.textBytes, `${prefix}text`),
  };
}

function bodyText(text: string | null | undefined, most: number, field: string): string | null {
  if (text == null || text === '') return null;
  // A UTF-16 unit has at most three bytes, so most texts need no measuring.
  if (text.length * 3 > most && Buffer.byteLength(text) > most) {
    throw new Problem('field_too_long', `\`${field}\` must have at most ${String(most)} bytes.`, { field });
  }
  return text.toWellFormed();
}

const attachmentsOf = (wire: WireMessage, rules: SendRules, prefix: string): Attachment[] | null =>
  wire.attachments == null
    ? null
    : decodeAttachments(wire.attachments, rules, (index, member) => `${prefix}attachments[${String(index)}].${member}`);

function checkTags(given: readonly string[], prefix: string): readonly string[] {
  const tags = given.map((tag) => tag.toWellFormed());
  const double = tags.findIndex((tag, index) => tags.indexOf(tag) !== index);
  if (double === -1) return tags;
  const field = `${prefix}tags[${String(double)}]`;
  throw invalid(field, `\`${field}\` is in the list already. Leave it out.`);
}

function testOf(test: WireMessage['test']): Parts['test'] {
  if (test == null) return null;
  if (typeof test === 'boolean') return test ? { outcome: null } : false;
  return { outcome: test.outcome };
}
