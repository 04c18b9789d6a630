/**
 * A mail as a program submitted it: RFC 6409 section 8 and RFC 5321 sections 2.3.8 and 4.5.3.1. Its body is sent as it is, apart from
 * lines over 998 octets. Its header says one thing to all readers: it is in ASCII, and each field that RFC 5322 allows once is there once.
 *
 *   readSubmitted      octets -> header and body to send, and what the header says
 *   finishSubmitted    the fields that only the service knows put before it
 *   renewSubmitted     the same mail once more, as a new one
 */
import { isAscii, isUtf8 } from 'node:buffer';
import addressparser from 'nodemailer/lib/addressparser';
import { buildHeaderValue, parseHeaderValue } from 'nodemailer/lib/mime-funcs';
import { addressKey, DOT_ATOM, parseMailbox, type Mailbox, type ParsedMailbox } from './address.ts';
import { survey, withCrlf, type BodyFacts, type Survey } from './body-facts.ts';
import { decodeCharset, decodeWords } from './charset.ts';
import { readContentType } from './content-type.ts';
import {
  addressHeader,
  dateTime,
  endOfHead,
  fold,
  headerLine,
  parseHeaders,
  withoutControls,
  type HeaderField,
} from './header.ts';
import { relaxedBodyHash } from './dkim/canonicalize.ts';
import { changeParts, isSealed, repairLongLines, valueOf } from './re-encode.ts';

/** A member of `X-Posthorn-<name>`, in lower case, with its values in their order, decoded: mail programs encode words in any field. */
export type SubmissionOptions = ReadonlyMap<string, readonly string[]>;

export interface SubmittedMail {
  kind: 'mail';
  /** The fields to send, each ended by CRLF, without the empty line. */
  head: string;
  body: Buffer;
  facts: BodyFacts;
  from: Mailbox;
  /** Sender, which is not in `head`: whether it may be sent is not known here. */
  sender: Mailbox | null;
  subject: string;
  replyTo: Mailbox[];
  /** Keys (addressKey) of the addresses in To and Cc. */
  to: ReadonlySet<string>;
  cc: ReadonlySet<string>;
  /** With angle brackets, or null if it has none that is a msg-id. */
  messageId: string | null;
  hasDate: boolean;
  /** `TLS-Required: No` (RFC 8689 section 5). */
  waivesTls: boolean;
  /** It is signed or encrypted as a whole: its body may not be changed. */
  isSealed: boolean;
  options: SubmissionOptions;
}

/** `text` begins with its enhanced status code (RFC 3463). */
export interface RefusedMail {
  kind: 'refused';
  text: string;
}

/** A mail with more hops is in a loop (RFC 5321 section 6.3). */
const MOST_RECEIVED = 50;
const LARGEST_HEAD = 512 * 1024;
const OPTION = /^x-posthorn-(.*)$/;
const LONGEST_OPTION = 40;
/** We add this field to each mail that we send. A mail that is passed on to us by submission still has it, and it is not an option there. */
const MARK = 'delivery';
/** Header fields that are not sent on: Bcc, the options that the mail has for us, and what a server says of a mail, as we would seem to. */
const DROPPED =
  /^(?:(?:resent-)?bcc|return-path|received-spf|(?:arc-|x-original-)?authentication-results|arc-(?:message-signature|seal)|feedback-id|x-message-id|x-(?:posthorn|mailgun)-.*)$/;
/** Fields that occur once: RFC 5322 section 3.6, RFC 2045, RFC 2369. Of those in `LISTS` several are one list of addresses. */
const ONCE =
  /^(?:from|sender|reply-to|to|cc|subject|date|message-id|in-reply-to|references|mime-version|content-(?:type|transfer-encoding|id|description|disposition)|list-[a-z-]+)$/;
const LISTS = /^(?:reply-to|to|cc)$/;
/** RFC 5322 sections 3.3 and 4.3. */
const DATE =
  /^(?:[a-z]{3}\s*,\s*)?\d{1,2}\s+(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\s+\d{2,4}\s+\d{1,2}:\d{2}(?::\d{2})?\s+(?:[+-]\d{4}|[a-z]{1,5})(?:\s*\(.*\))?$/i;

/** Reads a submitted mail; a bare CR or LF becomes CRLF, as in inbound/data-mode.ts. Takes time in proportion to its size. */
export function readSubmitted(bytes: Buffer): SubmittedMail | RefusedMail {
  if (bytes.includes(0)) return refused('5.6.0 the mail has NUL octets');
  const given = split(withLastCrlf(bytes));
  const hasBareEnd = given.found.bareEnds + survey(given.head).bareEnds > 0;
  const { head: headBytes, body, found } = hasBareEnd ? split(withLastCrlf(withCrlf(bytes))) : given;
  if (headBytes.length > LARGEST_HEAD) return refused('5.6.0 the header is too large');
  const head = inForm(textOfHead(headBytes));
  if (head === null)
    return refused('5.6.0 a line of the header is not a field: is there an empty line before the body?');
  return readFields(parseHeaders(head), body, found);
}

/** Splits a mail at the empty line, and says what its body has. */
function split(bytes: Buffer): { head: Buffer; body: Buffer; found: Survey } {
  const end = endOfHead(bytes);
  const body = bytes.subarray(Math.min(bytes.length, end + 2));
  return { head: bytes.subarray(0, end), body, found: survey(body) };
}

/**
 * Returns the header as text, which is sent as UTF-8 (RFC 6532). A line that is not UTF-8 is in the charset of the mail's text, as programs that
 * leave out encoded words write it, without one in windows-1252. The other lines stay as they are.
 */
function textOfHead(head: Buffer): string {
  if (isUtf8(head)) return head.toString('utf8');
  const octets = head.toString('latin1');
  const charset = readContentType(valueOf(parseHeaders(octets), 'content-type')).params.get('charset') ?? '';
  const known = /^utf-?\d/i.test(charset) ? null : charset;
  return octets
    .split('\r\n')
    .map((line) => {
      const bytes = Buffer.from(line, 'latin1');
      return isUtf8(bytes) ? bytes.toString('utf8') : decodeCharset(line, known);
    })
    .join('\r\n');
}

/** RFC 5322 section 2.2; spaces before the colon are of section 4.5, which is to be read and not to be written. */
const FIELD = /^([!-9;-~]{1,126})[ \t]*:/;
/** The line that mailbox files put before a mail (RFC 4155), and some programs leave there. */
const MBOX_LINE = /^>?From /;

/**
 * Returns the header as it may be sent, or null if a line of it is not a field. Such a line ends the header for one reader and not for the next: what
 * follows it (Bcc, a text without the empty line) would be shown to some and lost to others.
 */
function inForm(head: string): string | null {
  const lines = head.split('\r\n');
  const first = lines[0] ?? '';
  if (MBOX_LINE.test(first) && !FIELD.test(first)) lines.shift();
  const isFolded = (line: string): boolean => line.startsWith(' ') || line.startsWith('\t');
  if (lines[0] !== undefined && isFolded(lines[0])) return null;
  if (lines.some((line) => line !== '' && !isFolded(line) && !FIELD.test(line))) return null;
  return lines.map((line) => line.replace(FIELD, '$1:')).join('\r\n');
}

function readFields(given: readonly HeaderField[], whole: Buffer, found: Survey): SubmittedMail | RefusedMail {
  if (given.filter(({ name }) => name.toLowerCase() === 'received').length > MOST_RECEIVED)
    return refused('5.4.6 too many hops: the mail is in a loop');
  const fields = onceEach(given.filter(isKept));
  if (typeof fields === 'string') return refused(`5.6.0 the mail has several ${fields} that differ`);
  const named = (name: string): string | null => valueOf(fields, name);
  const from = mailboxOf(named('from') ?? '');
  if (named('from') === null) return refused('5.6.0 the mail has no From');
  if (from.kind === 'bad') return refused(`5.6.0 From must hold one address: ${from.why}`);
  const sender = mailboxOf(named('sender') ?? '');
  const kept = fields
    .filter(({ name }) => name.toLowerCase() !== 'sender')
    .map((field) => written(field, from.mailbox));
  if (kept.some(hasLongLines))
    return refused(
      `5.6.0 a line of the header is longer than ${String(LONGEST_LINE)} octets and has no space to fold it at`,
    );
  const body = withPlainParts(fields, whole);
  const { hasLongLine } = body === whole ? found : survey(body);
  const repaired = hasLongLine ? repairLongLines(kept, body) : { fields: kept, body };
  if (repaired === null)
    return refused(
      '5.6.0 a line is too long and cannot be repaired: the mail is signed or encrypted, or its parts cannot be told apart',
    );
  const keysOf = (name: string): ReadonlySet<string> =>
    new Set(listOf(named(name) ?? '').map(({ address }) => addressKey(address)));
  const head = repaired.fields.map(rawOf).join('');
  return {
    kind: 'mail',
    head,
    body: repaired.body,
    facts: {
      bodyHash: relaxedBodyHash(repaired.body, repaired.body === whole ? found : survey(repaired.body)),
      eightBit: !isAscii(repaired.body) || !IS_ASCII.test(head),
    },
    from: from.mailbox,
    sender: sender.kind === 'ok' ? sender.mailbox : null,
    subject: withoutControls(decodeWords(named('subject') ?? '')).slice(0, LONGEST_LINE),
    replyTo: listOf(named('reply-to') ?? ''),
    to: keysOf('to'),
    cc: keysOf('cc'),
    messageId: named('message-id'),
    hasDate: named('date') !== null,
    waivesTls: named('tls-required')?.trim().toLowerCase() === 'no',
    isSealed: isSealed(readContentType(named('content-type')).type),
    options: optionsOf(given),
  };
}

/** Returns whether the mail keeps a field: a date or an id that readers cannot read has one of ours in its place. */
function isKept({ name, value }: HeaderField): boolean {
  const lower = name.toLowerCase();
  if (lower === 'message-id') return isMessageId(value);
  return lower === 'date' ? DATE.test(value) : !DROPPED.test(lower);
}

/** RFC 5322 section 3.6.4. */
function isMessageId(value: string): boolean {
  const [, left = '', right = ''] = /^<([^@<>\s]{1,495})@([^@<>\s]{1,495})>$/.exec(value) ?? [];
  return DOT_ATOM.test(left) && (DOT_ATOM.test(right) || /^\[[!-Z^-~]*\]$/.test(right));
}

/**
 * Returns the fields with one of each that may occur once: lists of addresses are joined, equal repetitions left out. Returns the name of one that
 * has two values: receivers refuse such mail, or differ in which they show.
 */
function onceEach(fields: readonly HeaderField[]): HeaderField[] | string {
  const values = new Map<string, Set<string>>();
  const firsts = fields.filter(({ name, value }) => {
    const lower = name.toLowerCase();
    const before = values.get(lower);
    if (before === undefined && ONCE.test(lower)) values.set(lower, new Set([value]));
    before?.add(value);
    return before === undefined;
  });
  const isSeveral = ({ name }: HeaderField): boolean => (values.get(name.toLowerCase())?.size ?? 0) > 1;
  const twice = firsts.find((field) => isSeveral(field) && !LISTS.test(field.name.toLowerCase()));
  if (twice !== undefined) return twice.name;
  return firsts.map((field) => {
    if (!isSeveral(field)) return field;
    const { name } = field;
    const list = [...(values.get(name.toLowerCase()) ?? [])].filter((value) => value !== '');
    return { name, value: list.join(', '), raw: `${name}: ${list.join(',\r\n ')}\r\n` };
  });
}

/** Returns a field as it is sent. From is new: readers that differ about it would see another address than the one that was checked. */
const written = (field: HeaderField, from: Mailbox): HeaderField =>
  folded(field.name.toLowerCase() === 'from' ? { ...field, raw: addressHeader('From', [from]) } : inAscii(field));

const IS_ASCII = /^[\x00-\x7f]*$/;
/** Fields of addresses, in which encoded words may only be names (RFC 2047 section 5). */
const ADDRESSES = /^(?:(?:resent-)?(?:from|sender|reply-to|to|cc)|disposition-notification-to)$/i;
const URLS = /^list-(?:unsubscribe|subscribe|help|archive|post|owner)$/i;
const PARAMETERS = /^content-(?:type|disposition)$/i;

/**
 * Returns a field in ASCII, with encoded words or parameters of RFC 2231. Raw octets need SMTPUTF8 (RFC 6531), which many receivers lack, and DKIM
 * verifiers read them differently. An address beyond ASCII stays, and so does a boundary, which the body repeats.
 */
function inAscii(field: HeaderField): HeaderField {
  const { name, value, raw } = field;
  if (IS_ASCII.test(raw)) return field;
  if (PARAMETERS.test(name)) {
    if (value.length > LONGEST_PARAMETERS || /^multipart\//i.test(value)) return field;
    return { ...field, raw: fold(name, buildHeaderValue(parseHeaderValue(value)).split(/(?<=;) /)) };
  }
  if (URLS.test(name))
    return { ...field, raw: fold(name, value.replace(/[^\x00-\x7f]+/g, encodeURIComponent).split(/(?<! ) /)) };
  if (!ADDRESSES.test(name)) return { ...field, raw: headerLine(name, decodeWords(value)) };
  return { ...field, raw: addressHeader(name, listOf(value)) || `${name}: undisclosed-recipients:;\r\n` };
}

const LONGEST_PARAMETERS = 2000;
const DEEPEST = 20;
/** Fields in the header of a part that have texts for people. */
const OF_PARTS = /^content-(?:type|disposition|description)$/i;

/** Returns the body with the headers of its parts in ASCII, such as names of files. Signed parts and mails inside stay as they are. */
function withPlainParts(fields: readonly HeaderField[], body: Buffer, depth = 0): Buffer {
  const { type, params } = readContentType(valueOf(fields, 'content-type'));
  const boundary = params.get('boundary') ?? '';
  const isFit = !type.startsWith('multipart/') || isSealed(type) || depth > DEEPEST || isAscii(body);
  if (isFit || boundary === '') return body;
  const changed = changeParts(body, boundary, (part) => {
    const end = endOfHead(part);
    const head = isAscii(part) ? null : inForm(textOfHead(part.subarray(0, end)));
    if (head === null) return part;
    const own = parseHeaders(head).map((field) => (OF_PARTS.test(field.name) ? inAscii(field) : field));
    return Buffer.concat([Buffer.from(own.map(rawOf).join('')), withPlainParts(own, part.subarray(end), depth + 1)]);
  });
  return changed ?? body;
}

const LONGEST_LINE = 998;

const isTooLong = (line: string): boolean => Buffer.byteLength(line) > LONGEST_LINE;
const hasLongLines = ({ raw }: HeaderField): boolean => raw.split('\r\n').some(isTooLong);

/** Folds a field with too long a line at its spaces (RFC 5322 section 2.2.3): programs write all recipients or References in one. Long words stay. */
const folded = (field: HeaderField): HeaderField =>
  hasLongLines(field) ? { ...field, raw: fold(field.name, field.value.replaceAll('\t', ' ').split(/(?<! ) /)) } : field;

const refused = (text: string): RefusedMail => ({ kind: 'refused', text });

function optionsOf(fields: readonly HeaderField[]): SubmissionOptions {
  const options = new Map<string, string[]>();
  for (const { name, value } of fields) {
    const [, option] = OPTION.exec(name.toLowerCase()) ?? [];
    if (option === undefined || option === MARK) continue;
    const member = option.slice(0, LONGEST_OPTION);
    options.set(member, [...(options.get(member) ?? []), withoutControls(decodeWords(value))]);
  }
  return options;
}

const LONGEST_MAILBOX = 1000;

/**
 * Reads the one mailbox of a field. Around it there may be comments, whose text is a name for want of another, and a group; a comma may follow it
 * (RFC 5322 sections 3.2.2, 3.4 and 4.4). Text that might be a second address is refused.
 */
function mailboxOf(value: string): ParsedMailbox {
  const text = value.replaceAll('\t', ' ');
  const parsed = parseMailbox(text, { smtputf8: true });
  if (parsed.kind === 'ok') return { kind: 'ok', mailbox: withName(parsed.mailbox, parsed.mailbox.name) };
  const [one, ...others] = text.length > LONGEST_MAILBOX ? [] : addressparser(text, { flatten: true });
  if (one === undefined || others.length > 0 || one.name.includes('@')) return parsed;
  const inner = parseMailbox(one.address, { smtputf8: true });
  return inner.kind === 'ok' ? { kind: 'ok', mailbox: withName(inner.mailbox, one.name) } : parsed;
}

const withName = (mailbox: Mailbox, name: string | null): Mailbox => ({
  ...mailbox,
  name: withoutControls(decodeWords(name ?? '')) || null,
});

/** Reads a list of addresses. What is not a mailbox is left out, since the envelope names the recipients. */
const listOf = (value: string): Mailbox[] =>
  addressparser(value, { flatten: true }).flatMap(({ address, name }) => {
    const parsed = parseMailbox(address, { smtputf8: true });
    return parsed.kind === 'ok' ? [withName(parsed.mailbox, name)] : [];
  });

/** The fields that the service adds to the mail. */
export interface Stamp {
  received: string;
  /** For mail that has none: with angle brackets. */
  messageId: string;
  /** For mail that has none. */
  date: Date;
  /** The mailbox of Sender, or null for none. */
  sender: Mailbox | null;
}

/** Returns the octets to keep and send: RFC 5321 section 4.4 puts Received in front. */
export function finishSubmitted(mail: SubmittedMail, stamp: Stamp): Buffer {
  const date = mail.hasDate ? '' : `Date: ${dateTime(stamp.date)}\r\n`;
  const messageId = mail.messageId === null ? `Message-ID: ${stamp.messageId}\r\n` : '';
  const sender = stamp.sender === null ? '' : addressHeader('Sender', [stamp.sender]);
  const head = Buffer.from(`Received: ${stamp.received}\r\n${date}${messageId}${sender}${mail.head}\r\n`);
  const { buffer, byteOffset, length } = mail.body;
  if (length < LEAST_IN_PLACE || head.length > byteOffset) return Buffer.concat([head, mail.body]);
  const whole = Buffer.from(buffer, byteOffset - head.length, head.length + length);
  head.copy(whole);
  return whole;
}

/** Smaller bodies may be in memory that Node.js shares between buffers. */
const LEAST_IN_PLACE = 16 * 1024;
/** Octets before a mail with which its header can grow in its place. */
export const ROOM_FOR_HEAD = 2048;

/** Makes another mail of finishSubmitted's result: mailboxes drop one with a Message-ID that they have. Received stays: it says where and when. */
export function renewSubmitted(whole: Buffer, { messageId, date }: Pick<Stamp, 'messageId' | 'date'>): Buffer {
  const end = endOfHead(whole);
  const fields = parseHeaders(whole.subarray(0, end));
  const others = fields.filter(({ name }) => !['message-id', 'date'].includes(name.toLowerCase()));
  const received = others.filter(({ name }) => name.toLowerCase() === 'received');
  const rest = others.filter((field) => !received.includes(field));
  const fresh = `Date: ${dateTime(date)}\r\nMessage-ID: ${messageId}\r\n`;
  const head = `${received.map(rawOf).join('')}${fresh}${rest.map(rawOf).join('')}`;
  return Buffer.concat([Buffer.from(head), whole.subarray(end)]);
}

const rawOf = ({ raw }: HeaderField): string => raw;

const withLastCrlf = (bytes: Buffer): Buffer =>
  bytes.length === 0 || bytes.at(-1) === LF ? bytes : Buffer.concat([bytes, Buffer.from('\r\n')]);

const LF = 0x0a;
