/**
 * The parts of one message, each checked by itself: what a single request, the shared part of a bulk send or one of
 * its entries gives. What needs several parts at once is checked when a draft is put together (send-request.ts).
 */
import type { z } from 'zod';

import { Problem } from '../../base/problem.ts';
import type { ProblemCode } from '../../base/problem.ts';
import { parseMailbox } from '../../mail/address.ts';
import type { Mailbox } from '../../mail/address.ts';
import type { Attachment } from '../../mail/mime-write.ts';
import { decodeAttachments } from './attachment.ts';
import { ONE_RECIPIENT } from './foreign-names.ts';
import { MOST_HEADERS, checkHeaders } from './header-rule.ts';
import type { HeaderPair } from './header-rule.ts';
import { MOST_METADATA_KEYS, MOST_REPLY_TO, MOST_TAGS } from './send-limits.ts';
import type { BulkEntry, SimulatedOutcome } from './send-schema.ts';
import type { SendRules } from './send-draft.ts';
import { checkSendAt, checkTime } from './send-time.ts';
import { checkUnsubscribe, type Unsubscribe } from './unsubscribe.ts';

/** Null is: not given. */
export interface Parts {
  from: Mailbox | null;
  to: Mailbox | null;
  cc: readonly Mailbox[] | null;
  bcc: readonly Mailbox[] | null;
  replyTo: readonly Mailbox[] | null;
  subject: string | null;
  /** One group: giving either of them replaces both. */
  body: { html: string | null; text: string | null } | null;
  autoText: boolean | null;
  attachments: readonly Attachment[] | null;
  headers: readonly HeaderPair[] | null;
  tags: readonly string[] | null;
  metadata: Readonly<Record<string, string>> | null;
  /** May lie a little in the past: that is now. */
  sendAt: number | null;
  expiresAt: number | null;
  stream: string | null;
  trackOpens: boolean | null;
  trackClicks: boolean | null;
  /** False is: off, whatever the stream's default. */
  unsubscribe: Unsubscribe | false | null;
  onSuppressed: 'accept' | 'reject' | null;
  /** False overrides a shared default, null does not. */
  test: { outcome: SimulatedOutcome | null } | false | null;
}

/** A message as it stands in a request, its members' types and patterns checked. */
export type WireMessage = Omit<z.infer<typeof BulkEntry>, 'to'> & { to?: string | null | undefined };

/** Checks a message's members one by one, in declared order. `prefix` is where they stand: `''` or `recipients[3].`. */
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
 * Refuses lists that are too long before any of their entries is looked at: a request may hold a hundred thousand of
 * them. Copies are counted as distinct addresses later; four times their limit leaves room for doubles.
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
  // Zod passes over a member of this name, and an object could lose it on its way into the database.
  if (Object.hasOwn(value, '__proto__')) {
    throw new Problem('invalid_field', `\`${field}\` cannot have a member \`__proto__\`.`, {
      field: `${field}.__proto__`,
    });
  }
  const length = Array.isArray(value) ? value.length : Object.keys(value).length;
  if (length <= most) return;
  throw new Problem(code, `\`${field}\` must have at most ${String(most)} entries.`, { field });
}

/** Addresses in one text, as a header has them. */
const SEVERAL = /@[^,;@]{1,255}[,;][^@]{0,255}@/;

function mailboxOf(
  text: string | null | undefined,
  rules: SendRules,
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

/** An empty body is none. */
function bodyText(text: string | null | undefined, most: number, field: string): string | null {
  if (text == null || text === '') return null;
  // A UTF-16 unit is at most three bytes: most texts need not be measured.
  if (text.length * 3 > most && Buffer.byteLength(text) > most) {
    throw new Problem('field_too_long', `\`${field}\` must have at most ${String(most)} bytes.`, { field });
  }
  return text.toWellFormed();
}

const attachmentsOf = (wire: WireMessage, rules: SendRules, prefix: string): Attachment[] | null =>
  wire.attachments == null
    ? null
    : decodeAttachments(
        wire.attachments,
        rules.limits,
        (index, member) => `${prefix}attachments[${String(index)}].${member}`,
      );

function checkTags(tags: readonly string[], prefix: string): readonly string[] {
  const double = tags.findIndex((tag, index) => tags.indexOf(tag) !== index);
  if (double === -1) return tags;
  const field = `${prefix}tags[${String(double)}]`;
  throw new Problem('invalid_field', `\`${field}\` is in the list already. Leave it out.`, { field });
}

function testOf(test: WireMessage['test']): Parts['test'] {
  if (test == null) return null;
  if (typeof test === 'boolean') return test ? { outcome: null } : false;
  return { outcome: test.outcome };
}
