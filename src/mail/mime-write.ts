/** MIME content (RFC 2045 to 2049): a body once for many recipients. Mail without files is written here; with files nodemailer makes the tree. */
import { hash } from 'node:crypto';
import { isUtf8 } from 'node:buffer';
import {
  base64Length,
  BOUNDARY_MARK,
  encodeText,
  isPlain,
  measureText,
  writeBase64Lines,
  type TextEnd,
} from './transfer-encoding.ts';
import { survey, withCrlf } from './body-facts.ts';
import { sevenBitMail } from './re-encode.ts';

export { writeHead } from './header.ts';
export { textFromHtml } from './text-from-html.ts';

export interface Attachment {
  filename: string;
  /** Written as it is, parameters included. */
  contentType: string;
  /** Without the angle brackets. */
  contentId: string | null;
  disposition: 'attachment' | 'inline';
  content: Buffer;
}

/** Long texts may be octets of UTF-8, which are encoded as they are. */
export interface MimeContent<Text extends string | Buffer = string> {
  html: Text | null;
  text: Text | null;
  attachments: readonly Attachment[];
}

export interface EncodedContent {
  /** MIME-Version and the Content-* lines of the root, each ended by CRLF. */
  headers: string;
  /** ASCII, line ends CRLF and nothing else below a space but TAB, no line over 998, CRLF at its end. */
  body: Buffer;
}

export interface MeasuredContent extends EncodedContent {
  /** As of a `Survey`; may be false if the body is relaxed. */
  isRelaxed: boolean;
}

const MIME_VERSION = 'MIME-Version: 1.0\r\n';
const HTML = 'text/html; charset=utf-8';
const PLAIN = 'text/plain; charset=utf-8';

/**
 * Returns the content as it goes on the wire: `multipart/alternative` if there are text and html, `related` around html and its `cid:` parts, `mixed`
 * around all that and the attachments. The seed (any string) only goes into the boundaries.
 */
export function encodeContent(content: MimeContent<string | Buffer>, boundarySeed: string): Promise<MeasuredContent> {
  const base = hash('sha256', boundarySeed, 'base64url').slice(0, 24);
  if (content.attachments.length > 0) return composeTree(content, base);
  const { html, text } = content;
  if (html !== null && text !== null) return Promise.resolve(alternative(html, text, `${BOUNDARY_MARK}${base}`));
  const part = encodePart(html === null ? PLAIN : HTML, html ?? text ?? '', 'message');
  return Promise.resolve({ ...part, headers: MIME_VERSION + part.headers });
}

/** Returns the octets that `encodeContent` gives at most: over a few KiB within some percent. The texts are looked at once. */
export function encodedSize(content: MimeContent): number {
  let size = 1000;
  for (const text of [content.html, content.text]) if (text !== null) size += measureText(text).bound;
  for (const { content: octets, filename, contentType, contentId } of content.attachments) {
    // The name is written twice, three octets an octet and with the marks of its continuations (RFC 2231).
    const labels = 10 * Buffer.byteLength(filename) + 2 * Buffer.byteLength(contentType) + (contentId?.length ?? 0);
    size += (isMessageType(contentType) ? attachedSize(octets) : base64Length(octets.length)) + labels + 500;
  }
  return size;
}

function encodePart(type: string, text: string | Buffer, end: TextEnd): MeasuredContent {
  const measured = measureText(text);
  const { encoding, isRelaxed } = measured;
  const headers = `Content-Type: ${type}\r\nContent-Transfer-Encoding: ${encoding}\r\n`;
  return { headers, body: encodeText(measured, end), isRelaxed };
}

/** RFC 2046 section 5.1.4: the richest last. */
function alternative(html: string | Buffer, text: string | Buffer, boundary: string): MeasuredContent {
  const plain = encodePart(PLAIN, text, 'part');
  const rich = encodePart(HTML, html, 'part');
  const body = Buffer.concat([
    Buffer.from(`--${boundary}\r\n${plain.headers}\r\n`),
    plain.body,
    Buffer.from(`\r\n--${boundary}\r\n${rich.headers}\r\n`),
    rich.body,
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ]);
  const headers = `${MIME_VERSION}Content-Type: multipart/alternative; boundary="${boundary}"\r\n`;
  return { headers, body, isRelaxed: plain.isRelaxed && rich.isRelaxed };
}

/** An invitation to an event (RFC 6047): mail programs show what can be done with one that is another form of the text, and not with a file. */
const INVITATION = /^\s*text\/calendar\s*;(?:.*;)?\s*method\s*=/i;

async function composeTree(content: MimeContent<string | Buffer>, base: string): Promise<MeasuredContent> {
  const { html, text } = content;
  const invitations = content.attachments.filter(({ contentType }) => INVITATION.test(contentType));
  const files = content.attachments.filter(({ contentType }) => !INVITATION.test(contentType));
  const inBase64: Buffer[] = [];
  const later = (octets: Buffer): Buffer => markOf(base, inBase64.push(octets) - 1);
  // Loaded late: threads that only check requests have 6 MB less.
  const { default: MailComposer } = await import('nodemailer/lib/mail-composer');
  const composer = new MailComposer({
    baseBoundary: base,
    boundaryPrefix: BOUNDARY_MARK,
    // These header lines are not used; they are given so that the composer does not invent them.
    messageId: '<content@invalid>',
    date: new Date(0),
    disableFileAccess: true,
    disableUrlAccess: true,
    ...(text === null && html !== null ? {} : { text: { raw: readyPart(PLAIN, text ?? '') } }),
    ...(html === null ? {} : { html: { raw: readyPart(HTML, html) } }),
    attachments: files.map((attachment) => forComposer(attachment, base, later)),
    alternatives: invitations.map(({ contentType, content: octets }) => ({
      contentType,
      content: octets,
      contentTransferEncoding: 'base64',
    })),
  });
  const { headers, body } = splitRoot(await composer.compile().build());
  return { headers, body: withFiles(body, inBase64, base), isRelaxed: survey(body).isRelaxed };
}

function readyPart(type: string, text: string | Buffer): Buffer {
  const part = encodePart(type, text, 'part');
  return Buffer.concat([Buffer.from(`${part.headers}\r\n`), part.body]);
}

/** Puts files into their places in a body, where the base64 of their marks is: by the library they would be in memory several times. */
function withFiles(body: Buffer, files: readonly Buffer[], base: string): Buffer {
  const places = files.map((octets, at) => {
    const mark = markOf(base, at).toString('base64');
    const from = body.indexOf(mark);
    return { octets, from, end: from + mark.length };
  });
  const whole = Buffer.allocUnsafeSlow(files.reduce((sum, { length }) => sum + base64Length(length), body.length));
  let [done, to] = [0, 0];
  for (const { octets, from, end } of places.sort((one, other) => one.from - other.from)) {
    to += body.copy(whole, to, done, from);
    to = writeBase64Lines(octets, whole, to);
    // The line end before a delimiter belongs to that.
    if (octets.length > 0) to -= 2;
    done = end;
  }
  to += body.copy(whole, to, done);
  return whole.subarray(0, to);
}

/** Stands for a file while its mail is composed. */
const markOf = (base: string, at: number): Buffer => Buffer.from(`${base} ${String(at).padStart(4, '0')}`);

/** Only an inline part belongs to the html (`multipart/related`); another keeps its Content-ID among the attachments. */
function forComposer(attachment: Attachment, base: string, later: (octets: Buffer) => Buffer) {
  const { filename, contentType, contentId, disposition, content } = attachment;
  // The composer would take it for one of its parts and write a boundary into it.
  if (/^\s*multipart\//i.test(contentType)) throw new Error('an attachment cannot be multipart');
  const part = isMessageType(contentType)
    ? attachedMail(contentType, content, base)
    : { contentType, content, contentTransferEncoding: 'base64' as const };
  return {
    filename,
    ...part,
    content: part.contentTransferEncoding === 'base64' ? later(part.content) : part.content,
    contentDisposition: disposition,
    ...(contentId !== null && disposition === 'inline' ? { cid: contentId } : {}),
    ...(contentId !== null && disposition === 'attachment' ? { headers: { 'Content-ID': `<${contentId}>` } } : {}),
  };
}

/** A composed message's root: its MIME header lines, and its body. */
function splitRoot(message: Buffer): EncodedContent {
  const end = message.indexOf('\r\n\r\n');
  const fields = message.toString('latin1', 0, end + 2).split(/(?<=\r\n)(?![ \t])/);
  const content = fields.filter((field) => /^content-/i.test(field));
  return { headers: MIME_VERSION + content.join(''), body: message.subarray(end + 4) };
}

/**
 * A mail, or another part of a type `message/...`, that is attached. RFC 2045 section 6.4 and RFC 2046 section 5.2 allow those no encoding, and we
 * send 7bit: inner parts are encoded. What does not fit goes as a file, a mail in UTF-8 as `message/global` in base64 (RFC 6532 section 3.7).
 */

/** True for the types that this module is about: those of RFC 6532 and RFC 6533 may be encoded. */
export const isMessageType = (contentType: string): boolean => /^\s*message\/(?!global)/i.test(contentType);

/** Returns the part. `boundary` is the text that all boundaries of the outer mail have in them: the attached one must not. */
export function attachedMail(contentType: string, content: Buffer, boundary: string) {
  const isMail = /^\s*message\/rfc822\s*(?:;|$)/i.test(contentType);
  // Other content is a file, whatever its sender calls it: its bytes arrive unchanged.
  const isReadable = isMail && BEGINS_LIKE_MAIL.test(beginOf(content));
  const lines = isMail ? (isReadable ? sevenBitMail(content) : null) : withCrlf(content);
  const isFit = lines !== null && isPlain(lines) && !survey(lines).hasLongLine && lines.length <= attachedSize(content);
  if (isFit && !lines.includes(boundary))
    return { contentType, contentTransferEncoding: '7bit' as const, content: lines };
  const isGlobal = isReadable && isUtf8(content);
  const type = isGlobal ? 'message/global' : 'application/octet-stream';
  return {
    contentType: contentType.replace(/^\s*message\/[^\s;]*/i, type),
    contentTransferEncoding: 'base64' as const,
    content,
  };
}

/** Returns the octets that such a part takes at most: its own with CRLF, or base64 of the whole and lines of headers. */
export const attachedSize = (content: Buffer): number =>
  Math.max(withCrlf(content).length, base64Length(content.length) + 10_000);

/** A mail begins with a header field, in mailbox files behind a line `From ...`. */
const BEGINS_LIKE_MAIL = /^(?:>?From [^\r\n]{0,500}\r?\n)?[!-9;-~]{1,76}[ \t]{0,10}:/;
const beginOf = (content: Buffer): string => content.toString('latin1', 0, 1000);
