/**
 * Checks the members of one message one by one: of a single request, of the shared part of a bulk send, or of an entry. Rules
 * over several members are checked when the draft is built (message-draft.ts).
 */
import type { z } from 'zod';

import { Problem, type ProblemCode } from '../../base/problem.ts';
import { parseMailbox, type Mailbox } from '../../mail/address.ts';
import type { Attachment } from '../../mail/mime-write.ts';
import { decodeAttachments } from './attachment.ts';
import { ONE_RECIPIENT } from './foreign-names.ts';
import { MOST_HEADERS, checkHeaders } from './header-rule.ts';
import { MOST_METADATA_KEYS, MOST_REPLY_TO, MOST_TAGS } from './send-limits.ts';
import type { BulkEntry } from './send-schema.ts';
import type { MessageDraft, SendRules } from './send-draft.ts';
import { checkSendAt, checkTime } from './send-time.ts';
import { checkUnsubscribe } from './unsubscribe.ts';

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
    throw new Problem('invalid_field', `\`${field}\` cannot have a member \`__proto__\`.`, {
      field: `${field}.__proto__`,
    });
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
  throw new Problem('invalid_field', `\`${field}\` is in the list already. Leave it out.`, { field });
}

function testOf(test: WireMessage['test']): Parts['test'] {
  if (test == null) return null;
  if (typeof test === 'boolean') return test ? { outcome: null } : false;
  return { outcome: test.outcome };
}
