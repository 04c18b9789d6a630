/**
 * Reads a mail that came to a domain that receives: what programs get of it, bounded (`readReceivedMail`), and what people see of any mail
 * (`readMailView`), with only mailparser's bounds (1,000 parts, 1 MiB of header in a part). It may take long over a hostile mail: it works off the
 * main loop with a time limit (`messages/store/mail-viewer.ts`). mailparser makes no html from text and no text from html here: with that, 2 MB of
 * `<div>` took a minute (`npm run bench -- packages`), and without it 0.2 s. Reports are read with `mime-read.ts`.
 */
import { simpleParser, type AddressObject, type ParsedMail } from 'mailparser';
import { isMarkedAutoReply } from './auto-reply.ts';
import { signaturesOf, type Signature } from './dkim/verify.ts';
import type { HeaderField } from './header.ts';
import { fieldOf, fieldsOf, readHead } from './mime-read.ts';
import { textFromHtml } from './text-from-html.ts';

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

export interface MailView {
  subject: string;
  /** Addresses as the mail has them, with encoded words decoded; empty without the field. */
  from: string;
  to: string;
  cc: string;
  /** RFC 3339, or null without a date that can be read. */
  date: string | null;
  /** Text parts, with those of a delivery status and of mails inside the mail. */
  text: string | null;
  /** From a stranger: show it in a sandboxed frame only. */
  html: string | null;
  /** The first 100. */
  attachments: FileView[];
}

export interface FileView {
  filename: string;
  content_type: string;
  content_id: string | null;
  disposition: 'attachment' | 'inline';
  /** Decoded bytes. */
  size: number;
}

/** Throws if mailparser gives up. */
export async function readMailView(bytes: Buffer): Promise<MailView> {
  const mail = await simpleParser(bytes, options);
  return {
    subject: mail.subject ?? '',
    from: addressText(mail.from),
    to: addressText(mail.to),
    cc: addressText(mail.cc),
    date: mail.date === undefined || Number.isNaN(mail.date.getTime()) ? null : mail.date.toISOString(),
    text: nonEmpty(mail.text),
    html: nonEmpty(mail.html),
    attachments: mail.attachments.slice(0, MOST_FILES).map((file) => ({
      filename: file.filename ?? '',
      content_type: file.contentType,
      content_id: file.cid ?? null,
      disposition: file.contentDisposition === 'inline' ? 'inline' : 'attachment',
      size: file.size,
    })),
  };
}

const addressText = (field: AddressObject | AddressObject[] | undefined): string =>
  [field ?? []]
    .flat()
    .map(({ text }) => text)
    .join(', ');

const nonEmpty = (text: string | false | undefined): string | null =>
  text === undefined || text === false || text === '' ? null : text;

// The text of an answer without quotations and signature, by the forms of Gmail, Outlook, Apple Mail and Thunderbird in ten languages.

/** Lines that an introduction such as `On ... wrote:` may be wrapped to, and its characters. */
const LINES_OF_INTRODUCTION = 4;
const LONGEST_INTRODUCTION = 400;
/** Lines in which the fields above an unmarked quotation stand. */
const LINES_OF_FIELDS = 8;
/** Beyond this, a line is prose. */
const LONGEST_MARK = 200;

/** Ends the introduction of a quotation, whose date or address comes before. */
const WROTE =
  /(?:\bwrote|\bschrieb(?: [^:]{1,200})?|\b(?:a )?écrit|\bescribió|\b(?:ha )?scritto|\bescreveu|\bschreef(?: [^:]{1,200})?|\bpisze|\bnapisał(?:\(a\)|a)?|\bskrev(?: [^:]{1,200})?|\bkirjoitti|писал(?:\(а\)|а)?|пишет|написал(?:\(а\)|а)?|写道|書きました|のメッセージ|작성)\s?[:：]$/iu;
/** The same without a word for it, as Gmail has it in Russian and Japanese: a date, and the address at the end. */
const NAMED = /\d.*<[^<>\s]+@[^<>\s]+>[:：]$/;
/** Begins an introduction. */
const BEGINS =
  /^(?:On|Am|Le|El|Il|Em|Op|W dniu|Dnia|Den|pe|пн|вт|ср|чт|пт|сб|вс|В|\p{L}{2,9}[.,]|\d|[^\n]{1,100}<[^<>\s]{3,100}>|在|于)/u;

const AUTHOR = /^\*?(?:From|Von|De|Da|Van|Od|Från|Fra|От|差出人|发件人|보낸 사람)\s?[:：]\*?\s?\S/i;
const DATE =
  /^\*?(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado(?: el| em)?|Fecha|Data|Inviato|Verzonden|Wysłano|Data wysłania|Skickat|Sendt|Отправлено|Дата|送信日時|日付|发送时间|보낸 날짜)\s?[:：]/i;
const DASHED = /^(?:[-_]{5,}|-{2,12} ?\p{L}[\p{L}' ]{5,40} ?-{2,12})$/u;

/** Begins a line that phones and web mail add. */
const ADDED =
  /^(?:Sent from (?:my |Outlook|Mail|Yahoo)|Get Outlook for|Von meinem .{1,40} gesendet|Gesendet (?:von|mit) |Outlook für .{1,20} (?:beziehen|herunterladen)|Envoyé (?:de mon|depuis|à partir)|Télécharger Outlook|Obtenez Outlook|Enviado (?:desde|do meu|via)|Obtener Outlook|Obter o Outlook|Inviato da|Ottieni Outlook|Verstuurd vanaf|Verzonden (?:vanaf|met)|Outlook voor .{1,20} downloaden|Wysłan[eo] z|Pobierz program Outlook|Skickat från|Отправлено (?:с|из)|iPhoneから送信|发自我的)/iu;

/** A tag of an element that may be taken out, or the beginning of a comment. Each search ends at the next `<`. */
const TAG = /<(?:!--|(\/?)(blockquote|div|pre|span)(?=[\s>])([^<>]*)>)/gi;
/** A quotation in plain text, which leaves its introduction to the rules for text. */
const MARK = '<p>&gt;</p>';
/** Begins what Outlook has above an unmarked quotation. */
const HEADER_BLOCK = /\bid=["']?(?:divRplyFwdMsg|appendonsend|mail-editor-reference-message-container)\b/i;
/** Introductions of Thunderbird, and signatures. */
const UNSAID = /\bclass=["']?[^"'>]{0,100}\b(?:moz-cite-prefix|moz-signature|gmail_signature)/i;
const YAHOO_QUOTED = /\bclass=["']?[^"'>]{0,100}\byahoo_quoted/i;
const GMAIL_QUOTED = /\bclass=["']?gmail_quote/i;
const BLOCKQUOTE = /<blockquote[\s>]/i;
/** Editors indent with such a blockquote, which has words of the author. */
const INDENTED = /border(?:-[a-z]{1,10})?\s{0,5}:\s{0,5}none/i;
const CITED = /\btype=["']?cite|\bclass=["']?[^"'>]{0,100}quote/i;
/** Characters of html that an introduction of Gmail may have. */
const LONGEST_INTRODUCTION_HTML = 2000;

/** Returns what the author wrote; null for a mail without text and html. */
export function replyText(text: string | null, html: string | null): string | null {
  if (text !== null) return withoutQuotation(text);
  return html === null ? null : withoutQuotation(textFromHtml(withMarks(html)));
}

/** Returns the html with a mark in the place of each quotation, and without what mail programs add. */
function withMarks(html: string): string {
  let out = '';
  let from = 0;
  let inside: { name: string; depth: number } | null = null;
  TAG.lastIndex = 0;
  for (let match = TAG.exec(html); match !== null; match = TAG.exec(html)) {
    const [tag, slash, written, attributes = ''] = match;
    if (written === undefined) {
      const end = html.indexOf('-->', match.index);
      if (end < 0) break;
      TAG.lastIndex = end;
      continue;
    }
    const name = written.toLowerCase();
    const after = match.index + tag.length;
    if (inside !== null) {
      if (inside.name === name) inside.depth += slash === '/' ? -1 : 1;
      if (inside.depth > 0) continue;
      inside = null;
      from = after;
    } else if (slash === '') {
      const found = partOf(name, attributes, html.slice(after, after + LONGEST_INTRODUCTION_HTML));
      if (found === null) continue;
      out += html.slice(from, match.index);
      if (found === 'rest') return out;
      if (found === 'quotation') out += MARK;
      if (typeof found === 'number') from = TAG.lastIndex = after + found;
      else inside = { name, depth: 1 };
    }
  }
  return inside === null ? out + html.slice(from) : out;
}

/** Returns what begins with this tag: a quotation, an element left out, the quoted rest, or an introduction of so many characters; else null. */
function partOf(name: string, attributes: string, next: string): 'quotation' | 'unsaid' | 'rest' | number | null {
  if (name === 'blockquote') return INDENTED.test(attributes) && !CITED.test(attributes) ? null : 'quotation';
  if (attributes === '') return null;
  if (HEADER_BLOCK.test(attributes)) return 'rest';
  if (YAHOO_QUOTED.test(attributes)) return 'quotation';
  if (UNSAID.test(attributes)) return 'unsaid';
  if (name !== 'div' || !GMAIL_QUOTED.test(attributes)) return null;
  // Without a blockquote it is a mail that is passed on.
  const introduction = next.search(BLOCKQUOTE);
  return introduction < 0 || next.slice(0, introduction).includes('-----') ? 'rest' : introduction;
}

function withoutQuotation(text: string): string {
  const lines = text.split(/\r?\n/);
  const kept: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = (lines[at] ?? '').trimEnd();
    if (line.startsWith('>')) continue;
    if (line === '--' || beginsFields(lines, at)) break;
    const after = endOfIntroduction(lines, at);
    if (after !== null) {
      // Marked lines are left out one by one, since there may be an answer below each; a quotation without marks goes on to the end.
      if (!isQuoted(lines, after)) break;
      at = after - 1;
    } else if (!ADDED.test(line.slice(0, LONGEST_MARK))) kept.push(line);
  }
  // Outlook draws a line above its fields.
  while (/^(?:|[-_]{5,500})$/.test(kept.at(-1) ?? 'x')) kept.pop();
  return kept
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}

/** Returns the place after an introduction that begins at this line, or null. */
function endOfIntroduction(lines: readonly string[], at: number): number | null {
  if (!BEGINS.test((lines[at] ?? '').slice(0, LONGEST_MARK))) return null;
  let joined = '';
  for (let end = at; end < Math.min(at + LINES_OF_INTRODUCTION, lines.length); end++) {
    const line = (lines[end] ?? '').trim();
    if (line === '' && end > at) return null;
    joined = `${joined} ${line}`.trim();
    if (joined.length > LONGEST_INTRODUCTION) return null;
    const isWhole = /[:：]$/.test(joined) && /\d|<[^<>\s]+>/.test(joined);
    if (isWhole && (WROTE.test(joined) || NAMED.test(joined))) return end + 1;
  }
  return null;
}

/** Returns whether the next line that is not empty is marked as quoted. */
function isQuoted(lines: readonly string[], from: number): boolean {
  for (let at = from; at < lines.length; at++) {
    const line = (lines[at] ?? '').trim();
    if (line !== '') return line.startsWith('>');
  }
  return true;
}

/** Returns whether the fields above an unmarked quotation begin at this line, or the line of dashes above them. */
function beginsFields(lines: readonly string[], at: number): boolean {
  const line = (lines[at] ?? '').trim();
  if (line.length > LONGEST_MARK) return false;
  const isDashed = DASHED.test(line);
  if (!isDashed && !AUTHOR.test(line)) return false;
  const near = lines.slice(at, at + LINES_OF_FIELDS).map((one) => one.trim().slice(0, LONGEST_MARK));
  return near.some((one) => AUTHOR.test(one)) && near.some((one) => DATE.test(one));
}
