/**
 * A mail as a program submitted it: RFC 6409 section 8 and RFC 5321 sections 2.3.8 and 4.5.3.1. It is sent as it is; it is changed
 * only as transport demands: CRLF line ends, no line over 998 octets, no Bcc, none of our own option fields.
 *
 *   readSubmitted      octets -> header and body to send, and what the header says
 *   finishSubmitted    the fields that only the service knows put before it
 *   renewSubmitted     the same mail once more, as a new one
 */
import { isUtf8 } from 'node:buffer';
import addressparser from 'nodemailer/lib/addressparser';
import { addressKey, parseMailbox, type Mailbox, type ParsedMailbox } from './address.ts';
import { decodeCharset, decodeWords } from './charset.ts';
import { readContentType } from './content-type.ts';
import { parseHeaders, withoutControls, type HeaderField } from './header.ts';
import { dateTime } from './message-head.ts';
import { hasLongLine, isSealed, repairLongLines, valueOf, withCrlf } from './re-encode.ts';

/** A member of `X-Posthorn-<name>`, in lower case, with its values in their order, decoded: mail programs encode words in any field. */
export type SubmissionOptions = ReadonlyMap<string, readonly string[]>;

export interface SubmittedMail {
  kind: 'mail';
  /** The fields to send, each ended by CRLF, without the empty line. */
  head: string;
  body: Buffer;
  from: Mailbox;
  subject: string;
  replyTo: Mailbox[];
  /** Keys (addressKey) of the addresses in To and Cc. */
  to: ReadonlySet<string>;
  cc: ReadonlySet<string>;
  /** With angle brackets, or null where it has none yet. */
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
/** Header fields that are not sent on: Bcc, Return-Path, and the options that the mail has for us. */
const DROPPED = /^(?:bcc|resent-bcc|return-path|x-posthorn-.*)$/;

/** Reads a submitted mail. Takes time in proportion to its size: large ones are read in a thread (inbound/submission-worker.ts). */
export function readSubmitted(bytes: Buffer): SubmittedMail | RefusedMail {
  if (bytes.includes(0)) return refused('5.6.0 the mail has NUL octets');
  const whole = withLastCrlf(withCrlf(bytes));
  const end = endOfHead(whole);
  if (end > LARGEST_HEAD) return refused('5.6.0 the header is too large');
  const headBytes = whole.subarray(0, end);
  const head = inForm(textOfHead(headBytes));
  if (head === null)
    return refused('5.6.0 a line of the header is not a field: is there an empty line before the body?');
  const fields = parseHeaders(head);
  const body = whole.subarray(Math.min(whole.length, end + 2));
  return readFields(fields, body);
}

/**
 * Returns the header as text, which is sent as UTF-8 (RFC 6532). A line that is not UTF-8 is in the charset of the mail's text: programs
 * that leave out encoded words write both alike. Without one it is read as windows-1252. The other lines stay as they are.
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
const FIELD = /^([!-9;-~]+)[ \t]*:/;
/** The line that mailbox files put before a mail (RFC 4155), and some programs leave there. */
const MBOX_LINE = /^>?From /;

/**
 * Returns the header as it may be sent, or null where a line of it is not a field. Such a line ends the header for one reader and is passed
 * over by the next: what follows it (Bcc, a text without the empty line before it) would be shown to some and lost to others.
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

function readFields(fields: readonly HeaderField[], body: Buffer): SubmittedMail | RefusedMail {
  const named = (name: string): HeaderField[] => fields.filter((field) => field.name.toLowerCase() === name);
  if (named('received').length > MOST_RECEIVED) return refused('5.4.6 too many hops: the mail is in a loop');
  const from = senderOf(named('from'));
  if (typeof from === 'string') return refused(from);
  const messageId = /<[^<>\s]{1,990}>/.exec(named('message-id')[0]?.value ?? '')?.[0] ?? null;
  // A second Message-ID beside one that cannot be read would have the mail refused: Gmail wants exactly one.
  const isKept = (name: string): boolean => !DROPPED.test(name) && (messageId !== null || name !== 'message-id');
  const kept = fields.filter(({ name }) => isKept(name.toLowerCase())).map(folded);
  if (kept.some(hasLongLines))
    return refused(
      `5.6.0 a line of the header is longer than ${String(LONGEST_LINE)} octets and has no space to fold it at`,
    );
  const whole = hasLongLine(body) ? repairLongLines(kept, body) : { fields: kept, body };
  if (whole === null)
    return refused(
      '5.6.0 a line is too long and cannot be repaired: the mail is signed or encrypted, or its parts cannot be told apart',
    );
  return {
    kind: 'mail',
    head: whole.fields.map(({ raw }) => raw).join(''),
    body: whole.body,
    from,
    subject: withoutControls(decodeWords(named('subject')[0]?.value ?? '')).slice(0, LONGEST_LINE),
    replyTo: mailboxesOf(named('reply-to')),
    to: new Set(mailboxesOf(named('to')).map(({ address }) => addressKey(address))),
    cc: new Set(mailboxesOf(named('cc')).map(({ address }) => addressKey(address))),
    messageId,
    hasDate: named('date').length > 0,
    waivesTls: named('tls-required').some(({ value }) => value.trim().toLowerCase() === 'no'),
    isSealed: isSealed(readContentType(valueOf(fields, 'content-type')).type),
    options: optionsOf(fields),
  };
}

const LONGEST_LINE = 998;

const isTooLong = (line: string): boolean => Buffer.byteLength(line) > LONGEST_LINE;
const hasLongLines = ({ raw }: HeaderField): boolean => raw.split('\r\n').some(isTooLong);

/** Before the spaces that are between two words. */
const BETWEEN_WORDS = /(?<=[^ \t])(?=[ \t]+[^ \t])/;

/**
 * Folds lines that are too long where they have spaces, so that unfolding gives the field back (RFC 5322 section 2.2.3): programs write all
 * recipients, or all References of a long thread, in one line. A word that is too long by itself stays.
 */
const folded = (field: HeaderField): HeaderField =>
  hasLongLines(field) ? { ...field, raw: field.raw.split('\r\n').flatMap(linesOf).join('\r\n') } : field;

function linesOf(text: string): string[] {
  if (!isTooLong(text)) return [text];
  const lines: string[] = [];
  let line = '';
  let octets = 0;
  for (const word of text.split(BETWEEN_WORDS)) {
    const more = Buffer.byteLength(word);
    if (line !== '' && octets + more > LONGEST_LINE) {
      lines.push(line);
      line = '';
      octets = 0;
    }
    line += word;
    octets += more;
  }
  return [...lines, line];
}

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

/** Returns the one mailbox of From, or the refusal. */
function senderOf(fields: readonly HeaderField[]): Mailbox | string {
  const [field, ...others] = fields;
  if (field === undefined) return '5.6.0 the mail has no From';
  if (others.length > 0) return '5.6.0 From must hold one address, and the mail has several From';
  const parsed = mailboxOf(field.value);
  if (parsed.kind === 'bad') return `5.6.0 From must hold one address: ${parsed.why}`;
  const { name } = parsed.mailbox;
  return { ...parsed.mailbox, name: name === null ? null : withoutControls(decodeWords(name)) };
}

/** `root@example.com (Cron Daemon)`. A comment that might be taken for an address, or for the end of one, is left where it is. */
const WITH_COMMENT = /^((?:"(?:[^"\\]|\\.)*"|[^"()])*)\(([^"()<>@\\]*)\)\s*$/;

/** Reads a mailbox of a header, where a line may be folded with a tab and a comment may follow (RFC 5322 section 3.2.2). */
function mailboxOf(value: string): ParsedMailbox {
  const text = value.replaceAll('\t', ' ');
  const [, before, comment = ''] = WITH_COMMENT.exec(text) ?? [];
  const parsed = parseMailbox(before ?? text, { smtputf8: true });
  if (parsed.kind === 'bad' || parsed.mailbox.name !== null) return parsed;
  return { kind: 'ok', mailbox: { ...parsed.mailbox, name: comment.trim() || null } };
}

/** Returns the addresses that can be read; others are left out, since the envelope names the recipients. */
function mailboxesOf(fields: readonly HeaderField[]): Mailbox[] {
  const MOST_READ = 64 * 1024;
  return fields.flatMap(({ value }) =>
    addressparser(value.slice(0, MOST_READ), { flatten: true }).flatMap(({ address }) => {
      const parsed = parseMailbox(address, { smtputf8: true });
      return parsed.kind === 'ok' ? [parsed.mailbox] : [];
    }),
  );
}

/** The fields that the service adds to the mail. */
export interface Stamp {
  /** The value of the Received field. */
  received: string;
  /** For mail that has none: with angle brackets. */
  messageId: string;
  /** For mail that has none. */
  date: Date;
}

/** Returns the octets to keep and send: RFC 5321 section 4.4 puts Received in front. */
export function finishSubmitted(mail: SubmittedMail, stamp: Stamp): Buffer {
  const date = mail.hasDate ? '' : `Date: ${dateTime(stamp.date)}\r\n`;
  const messageId = mail.messageId === null ? `Message-ID: ${stamp.messageId}\r\n` : '';
  const head = `Received: ${stamp.received}\r\n${date}${messageId}${mail.head}\r\n`;
  return Buffer.concat([Buffer.from(head), mail.body]);
}

/**
 * Turns the result of finishSubmitted into a separate mail: mailboxes drop a second mail with a Message-ID that they have. All else stays
 * unchanged, Received too: it says where the mail was submitted, and when.
 */
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

/** Returns the index of the empty line, or the end where there is none. */
function endOfHead(bytes: Buffer): number {
  if (bytes.toString('latin1', 0, 2) === '\r\n') return 0;
  const at = bytes.indexOf('\r\n\r\n');
  return at < 0 ? bytes.length : at + 2;
}

/** Returns the mail with a line end at its end. */
const withLastCrlf = (bytes: Buffer): Buffer =>
  bytes.length === 0 || bytes.at(-1) === LF ? bytes : Buffer.concat([bytes, Buffer.from('\r\n')]);

const LF = 0x0a;
