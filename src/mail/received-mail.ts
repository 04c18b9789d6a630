/**
 * Reads a mail that came to a domain that receives: what programs get of it. By mailparser, which may take long over a hostile mail: it
 * works off the main loop with a time limit (`messages/store/mail-viewer.ts`). All that it returns is bounded.
 */
import { simpleParser, type AddressObject, type ParsedMail } from 'mailparser';
import { isMarkedAutoReply } from './auto-reply.ts';
import { signaturesOf, type Signature } from './dkim/verify.ts';
import type { HeaderField } from './header.ts';
import { fieldOf, fieldsOf, readHead } from './mime-read.ts';
import { replyText } from './reply-text.ts';

interface Mailbox {
  email: string;
  name: string | null;
}

export interface ReceivedMail {
  /** Null unless the mail has one From field with one address. */
  from: Mailbox | null;
  to: Mailbox[];
  cc: Mailbox[];
  reply_to: Mailbox[];
  subject: string;
  /** Milliseconds since the epoch. */
  date: number | null;
  message_id: string | null;
  in_reply_to: string | null;
  references: string[];
  text: string | null;
  html: string | null;
  reply_text: string | null;
  truncated: boolean;
  attachments: { index: number; filename: string; content_type: string; size: number; content_id: string | null }[];
  spam_headers: Record<string, string>;
  auto_submitted: string | null;
  signatures: Signature[];
  /** The mark of a copy of ours in a mail that it brings, if it is genuine. */
  copy: string | null;
}

/** Bytes of text and html each. */
export const MOST_BODY = 256 * 1024;
const MOST_ADDRESSES = 50;
const MOST_REFERENCES = 20;
const MOST_FILES = 100;
const MOST_SPAM_FIELDS = 20;
const LONGEST = { address: 320, name: 200, subject: 1000, id: 998, label: 255, field: 500 };
const MESSAGE_ID = /<[^<>\s]{1,996}>/g;
const LONGEST_HEAD = 64 * 1024;
/** The beginning, in which a forwarded copy of ours is looked for. */
const SEARCHED = 512 * 1024;

const options = { skipHtmlToText: true, skipTextToHtml: true, skipTextLinks: true, keepCidLinks: true };

/** `now` is in seconds. Throws if mailparser gives up. */
export async function readReceivedMail(bytes: Buffer, now: number): Promise<ReceivedMail> {
  const octets = bytes.toString('latin1');
  const headers = readHead(octets.slice(0, LONGEST_HEAD).replaceAll('\r\n', '\n'));
  const mail = await parse(bytes);
  const text = cutText(mail.text);
  const html = cutText(mail.html);
  const ids = [mail.references ?? []].flat().flatMap(idsIn);
  const { length: authors } = fieldsOf(headers, new Set(['from']));
  const [from = null, ...others] = mailboxes(mail.from);
  return {
    from: authors === 1 && others.length === 0 ? from : null,
    to: mailboxes(mail.to),
    cc: mailboxes(mail.cc),
    reply_to: mailboxes(mail.replyTo),
    subject: clean(mail.subject ?? '', LONGEST.subject),
    date: timeOf(mail.date),
    message_id: idsIn(mail.messageId)[0] ?? null,
    in_reply_to: idsIn(mail.inReplyTo)[0] ?? null,
    references: ids.slice(-MOST_REFERENCES),
    text: text.value,
    html: html.value,
    reply_text: replyText(text.value, html.value),
    truncated: text.isCut || html.isCut,
    attachments: mail.attachments.slice(0, MOST_FILES).map((file, index) => ({
      index,
      filename: clean(file.filename ?? '', LONGEST.label),
      content_type: clean(file.contentType, LONGEST.label),
      size: file.size,
      content_id: file.cid === undefined ? null : clean(file.cid, LONGEST.label),
    })),
    spam_headers: spamFields(headers),
    auto_submitted: automationOf(headers),
    signatures: signaturesOf(octets, now),
    copy: /^X-Posthorn-Delivery:[ \t]{0,10}([0-9a-z]{43})\s/im.exec(octets.slice(0, SEARCHED))?.[1] ?? null,
  };
}

/** Returns the octets of a file of the mail, or null if it has no such file. */
export async function readAttachment(bytes: Buffer, index: number): Promise<Uint8Array | null> {
  const mail = await parse(bytes);
  return mail.attachments.slice(0, MOST_FILES)[index]?.content ?? null;
}

/** A delivery status and a mail inside the mail are files, not text. */
const parse = (bytes: Buffer): Promise<ParsedMail> =>
  simpleParser(bytes, { ...options, keepDeliveryStatus: true, ignoreEmbedded: true } as Parameters<
    typeof simpleParser
  >[1]);

/** A database may take no NUL in a text. */
const clean = (text: string, longest: number): string => text.slice(0, longest).replaceAll('\u0000', '\ufffd');

function cutText(text: string | false | undefined): { value: string | null; isCut: boolean } {
  if (text === undefined || text === false || text === '') return { value: null, isCut: false };
  const bytes = Buffer.from(text.replaceAll('\u0000', '\ufffd'));
  // A character that is cut in two becomes U+FFFD.
  const value = bytes
    .subarray(0, MOST_BODY)
    .toString()
    .replace(/\ufffd$/, '');
  return bytes.length <= MOST_BODY ? { value: bytes.toString(), isCut: false } : { value, isCut: true };
}

function mailboxes(field: AddressObject | AddressObject[] | undefined): Mailbox[] {
  const found = [field ?? []].flat().flatMap(({ value }) => value.flatMap((one) => one.group ?? [one]));
  return found.slice(0, MOST_ADDRESSES).flatMap(({ address, name }) => {
    if (address === undefined || address === '') return [];
    return [{ email: clean(address, LONGEST.address), name: name === '' ? null : clean(name, LONGEST.name) }];
  });
}

const idsIn = (text: string | undefined): string[] =>
  [...(text ?? '').slice(0, 100 * LONGEST.id).matchAll(MESSAGE_ID)].map(([id]) => clean(id, LONGEST.id));

const timeOf = (date: Date | undefined): number | null => {
  const at = date?.getTime() ?? NaN;
  return at >= 0 && at < 8.64e15 ? at : null;
};

function spamFields(headers: readonly HeaderField[]): Record<string, string> {
  const found = headers
    .map(({ name, value }) => [name.toLowerCase(), clean(value.trim(), LONGEST.field)] as const)
    .filter(([name]) => /^x-.{0,40}(?:spam|virus)/.test(name));
  return Object.fromEntries(found.slice(0, MOST_SPAM_FIELDS));
}

function automationOf(headers: readonly HeaderField[]): string | null {
  const [said] = /^auto-[a-z]{1,20}/.exec(fieldOf(headers, 'auto-submitted')?.trim().toLowerCase() ?? '') ?? [];
  return said ?? (isMarkedAutoReply(headers) ? 'auto-replied' : null);
}
