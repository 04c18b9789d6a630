/** Builds a draft from its parts: required members, limits over several of them, and the size of the mail. */
import { Problem } from '../../base/problem.ts';
import { addressKey } from '../../mail/address.ts';
import { encodedSize, textFromHtml, writeHead } from '../../mail/mime-write.ts';
import { MOST_HEADERS, mergeHeaders } from './header-rule.ts';
import type { MessageContent, MessageDraft, SendRules } from './send-draft.ts';
import type { Parts } from './send-parts.ts';
import { MOST_METADATA_KEYS, MOST_TAGS } from './send-limits.ts';
import { checkExpiry } from './send-time.ts';
import { hasUnsubscribeLink } from './unsubscribe-link.ts';
import { withLinkInBody } from './unsubscribe.ts';

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
  throw new Problem('missing_field', `\`${field}\` is missing.`, { field });
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
  throw new Problem('invalid_field', `\`${field}\` must have at most ${why}.`, { field });
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
