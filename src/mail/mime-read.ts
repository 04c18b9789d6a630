/**
 * Mails that others wrote, cut into parts: RFC 5322, 2045, 2046, 6532. For reports, which anyone may send, so it is our own rather than a library's:
 * it looks at each octet a bounded number of times, takes CRLF, LF and CR as line ends alike, keeps report parts that libraries hand out as
 * attachments, and never throws. What is beyond its limits is left out.
 */
import { decodeCharset, decodeTransfer, decodeWords } from './charset.ts';
import { readContentType } from './content-type.ts';
import { parseHeaders, type HeaderField } from './header.ts';

export interface MailPart {
  headers: readonly HeaderField[];
  /** `type/subtype`, lower case. */
  type: string;
  params: ReadonlyMap<string, string>;
  /** Unchanged but for line ends, which are LF, one character an octet. Empty if there are parts. */
  body: string;
  /** Those of a multipart; of a `message/rfc822` the one mail in it. */
  parts: readonly MailPart[];
}

export const MOST_BYTES = 512 * 1024;
const MOST_PARTS = 100;
const DEEPEST = 8;
const LONGEST_HEAD = 64 * 1024;
const LONGEST_BOUNDARY = 200;

/** How much may still be made of a mail. */
interface Budget {
  parts: number;
}

/** Reads the first 512 KiB of a mail. Never throws. */
export function readMail(bytes: Uint8Array): MailPart {
  const kept = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, MOST_BYTES));
  const octets = kept.toString('latin1');
  const lines = octets.includes('\r') ? octets.replace(/\r\n?/g, '\n') : octets;
  return readEntity(lines.replace(/^\n+/, ''), DEEPEST, { parts: MOST_PARTS });
}

/** Returns the header fields at the front of a text that holds a mail, or only its head. */
export function readHead(text: string): HeaderField[] {
  const head = headOf(text.replace(/^\n+/, ''));
  return parseHeaders(/[\x80-\xff]/.test(head) ? decodeCharset(head, null) : head);
}

/** Returns the value of the first field of that name, or null. `name` is in lower case. */
export function fieldOf(headers: readonly HeaderField[], name: string): string | null {
  return headers.find((field) => field.name.toLowerCase() === name)?.value ?? null;
}

/** Returns the values of all fields with one of these names, in their order. */
export function fieldsOf(headers: readonly HeaderField[], names: ReadonlySet<string>): string[] {
  return headers.filter(({ name }) => names.has(name.toLowerCase())).map(({ value }) => value);
}

/** Returns the field as a person reads it: encoded words decoded. Empty if there is none. */
export function wordsOf(headers: readonly HeaderField[], name: string): string {
  return decodeWords(fieldOf(headers, name) ?? '');
}

/** Returns a leaf's content as octets. */
export function octetsOf(part: MailPart): string {
  return decodeTransfer(part.body, fieldOf(part.headers, 'content-transfer-encoding'));
}

/** Returns a leaf's content as text with LF line ends. */
export function textOf(part: MailPart): string {
  const octets = octetsOf(part);
  const text = decodeCharset(octets, part.params.get('charset') ?? null);
  return text.includes('\r') ? text.replace(/\r\n?/g, '\n') : text;
}

/** Returns the part and all below it, in the order of the mail. */
export function* partsOf(part: MailPart): Generator<MailPart> {
  yield part;
  for (const child of part.parts) yield* partsOf(child);
}

/** Returns the same, without the parts of mails inside the mail. */
export function* ownPartsOf(part: MailPart): Generator<MailPart> {
  yield part;
  if (!isMessage(part.type)) for (const child of part.parts) yield* ownPartsOf(child);
}

/** Returns whether it is a type of whole mails (RFC 2046 section 5.2.1, RFC 6532 section 3.7). */
export const isMessage = (type: string): boolean => type === 'message/rfc822' || type === 'message/global';

function readEntity(text: string, depth: number, budget: Budget): MailPart {
  budget.parts -= 1;
  const head = headOf(text);
  const headers = readHead(head);
  const { type, params } = readContentType(fieldOf(headers, 'content-type'));
  const body = text.slice(head.length).replace(/^\n/, '');
  const leaf = { headers, type, params, body, parts: [] };
  if (depth === 0 || budget.parts <= 0) return leaf;
  const parts = type.startsWith('multipart/')
    ? multipart(body, params.get('boundary') ?? '', depth, budget)
    : isMessage(type)
      ? [readEntity(octetsOf(leaf).replace(/\r\n?/g, '\n').replace(/^\n+/, ''), depth - 1, budget)]
      : [];
  return parts.length === 0 ? leaf : { ...leaf, body: '', parts };
}

/** Returns the head. A part without header fields begins with its empty line (RFC 2046 section 5.1). */
function headOf(text: string): string {
  if (text.startsWith('\n')) return '';
  const end = text.indexOf('\n\n');
  return text.slice(0, Math.min(end < 0 ? text.length : end + 1, LONGEST_HEAD));
}

/** Returns the parts between the delimiter lines of RFC 2046 section 5.1.1. If the last one is missing, the rest is a part. */
function multipart(body: string, boundary: string, depth: number, budget: Budget): MailPart[] {
  if (boundary === '' || boundary.length > LONGEST_BOUNDARY) return [];
  const parts: MailPart[] = [];
  const delimiter = `--${boundary}`;
  let start = -1;
  for (let at = nextLine(body, delimiter, 0); at >= 0 && budget.parts > 0; at = nextLine(body, delimiter, at + 1)) {
    if (start >= 0) parts.push(readEntity(body.slice(start, Math.max(start, at - 1)), depth - 1, budget));
    const after = at + delimiter.length;
    const lineEnd = body.indexOf('\n', after);
    start = lineEnd < 0 || body.startsWith('--', after) ? -1 : lineEnd + 1;
  }
  if (start >= 0 && budget.parts > 0) parts.push(readEntity(body.slice(start), depth - 1, budget));
  return parts;
}

/** Returns the start of the next delimiter line, or -1. A line that goes on is another, longer boundary. */
function nextLine(body: string, delimiter: string, from: number): number {
  let at = body.indexOf(delimiter, from);
  while (at >= 0 && !((at === 0 || body[at - 1] === '\n') && endsThere(body, at + delimiter.length))) {
    at = body.indexOf(delimiter, at + 1);
  }
  return at;
}

function endsThere(body: string, at: number): boolean {
  const next = body[at];
  return next === undefined || next === '\n' || next === ' ' || next === '\t' || body.startsWith('--', at);
}
