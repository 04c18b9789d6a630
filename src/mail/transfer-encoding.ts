/**
 * Content transfer encodings for text parts (RFC 2045 section 6), always in 7 bits, so that bytes and signature are the same at every try. String
 * searches and slices take half the time of a loop over bytes, but memory for each line and escape, so a text is encoded in slices.
 */

export type TransferEncoding = '7bit' | 'quoted-printable' | 'base64';

export interface MeasuredText {
  encoding: TransferEncoding;
  /** One character an octet (UTF-8), line ends LF. */
  octets: string;
  /** True if `=` is all that quoted-printable has to escape. */
  plain: boolean;
  /** Octets the encoded text takes at most. */
  bound: number;
}

/** The kind of end of an encoded text: the last octets of a message must be CRLF; before a boundary they belong to the boundary. */
export type TextEnd = 'message' | 'part';

/** Multipart boundaries begin with this: quoted-printable and base64 never have it at a line's start, plain text may not. */
export const BOUNDARY_MARK = '=_';

/** RFC 2045 section 6.7 (5) and 6.8: encoded lines. Plain lines beyond it are encoded too, since some relays wrap them. */
const LONGEST_LINE = 76;
/** Columns a soft break may leave unused: an escape, and a UTF-8 sequence kept together. */
const UNUSED_COLUMNS = 12;

/** Octets of a slice at least: it ends where a line does. */
const SLICE = 64 * 1024;

const NOT_PLAIN = /[^\t\n\r\x20-\x7e]/;
const TO_ESCAPE = /[^\t\n\x20-<>-~]/g;
const ESCAPES = Array.from({ length: 256 }, (_, byte) => `=${byte.toString(16).toUpperCase().padStart(2, '0')}`);

/** Chooses what keeps the text readable on the wire and short: as it is, else quoted-printable while most of it is ASCII. */
export function measureText(text: string): MeasuredText {
  const plain = !NOT_PLAIN.test(text);
  const octets = withLf(plain ? text : Buffer.from(text, 'utf8').toString('latin1'));
  const { lineEnds, longest, hasTrailingSpace } = measureLines(octets);
  const length = octets.length + lineEnds;
  if (plain && longest <= LONGEST_LINE && !hasTrailingSpace && !octets.includes(`--${BOUNDARY_MARK}`)) {
    return { encoding: '7bit', octets, plain, bound: length + 2 };
  }
  const escapes = plain ? count(octets, '=') : countEscapes(octets);
  // Above a quarter quoted-printable is the longer one, and is not readable either.
  return escapes * 4 <= length
    ? { encoding: 'quoted-printable', octets, plain, bound: quotedPrintableBound(length + 2 * escapes, lineEnds) }
    : { encoding: 'base64', octets, plain, bound: base64Length(length) };
}

/** Returns the octets for the wire. Decoding gives the text with CRLF, except that a 7bit text that ends a message gains a missing line end. */
export function encodeText(text: MeasuredText, end: TextEnd): Buffer {
  const { encoding, octets, plain } = text;
  if (encoding === 'quoted-printable')
    return inSlices(octets, (slice, isLast) => quotedPrintable(escape(slice, plain), isLast ? end : 'part'));
  const lines = inSlices(octets, (slice) => Buffer.from(slice.replaceAll('\n', '\r\n'), 'latin1'));
  // RFC 2045 section 6.8: text has CRLF line ends before it is encoded.
  if (encoding === 'base64') return base64Lines(lines);
  return end === 'message' && !octets.endsWith('\n') ? Buffer.concat([lines, LINE_END]) : lines;
}

const LINE_END = Buffer.from('\r\n');

/** Returns the text with each CRLF and CR as LF. */
function withLf(octets: string): string {
  if (!octets.includes('\r')) return octets;
  if (octets.length <= SLICE) return octets.replace(/\r\n?/g, '\n');
  const lines = Buffer.from(octets, 'latin1');
  let to = 0;
  for (let at = 0; at < lines.length; at++) {
    const isReturn = lines[at] === CR;
    if (isReturn && lines[at + 1] === LF) at++;
    lines[to++] = isReturn ? LF : (lines[at] ?? 0);
  }
  return lines.toString('latin1', 0, to);
}

const [CR, LF] = [0x0d, 0x0a];

function inSlices(octets: string, encode: (slice: string, isLast: boolean) => Buffer): Buffer {
  if (octets.length <= SLICE) return encode(octets, true);
  const pieces: Buffer[] = [];
  for (let from = 0; from < octets.length;) {
    const lineEnd = octets.indexOf('\n', from + SLICE);
    const end = lineEnd < 0 ? octets.length : lineEnd + 1;
    pieces.push(encode(octets.slice(from, end), end === octets.length));
    from = end;
  }
  return Buffer.concat(pieces);
}

/** Returns the octets of base64 in lines of 76, each ended by CRLF. */
export function base64Length(octets: number): number {
  const characters = Math.ceil(octets / 3) * 4;
  return characters + 2 * Math.ceil(characters / LONGEST_LINE);
}

function measureLines(octets: string): { lineEnds: number; longest: number; hasTrailingSpace: boolean } {
  let lineEnds = 0;
  let longest = 0;
  let start = 0;
  let hasTrailingSpace = isSpace(octets.charCodeAt(octets.length - 1));
  for (let end = octets.indexOf('\n'); end >= 0; end = octets.indexOf('\n', start)) {
    longest = Math.max(longest, end - start);
    if (isSpace(octets.charCodeAt(end - 1))) hasTrailingSpace = true;
    start = end + 1;
    lineEnds++;
  }
  return { lineEnds, longest: Math.max(longest, octets.length - start), hasTrailingSpace };
}

const isSpace = (code: number): boolean => code === 0x20 || code === 0x09;

function count(text: string, character: string): number {
  let found = 0;
  for (let at = text.indexOf(character); at >= 0; at = text.indexOf(character, at + 1)) found++;
  return found;
}

function countEscapes(octets: string): number {
  let found = 0;
  for (let index = 0; index < octets.length; index++) {
    const code = octets.charCodeAt(index);
    if (code > 0x7e || code === 0x3d || (code < 0x20 && code !== 0x09 && code !== 0x0a)) found++;
  }
  return found;
}

/** Returns the most octets. A soft break takes 3 octets; every line may end in a space that takes 3 for 1. */
function quotedPrintableBound(octets: number, lineEnds: number): number {
  const withSpaces = octets + 2 * (lineEnds + 1);
  return withSpaces + 3 * (Math.ceil(withSpaces / (LONGEST_LINE - UNUSED_COLUMNS)) + 1);
}

function escape(octets: string, plain: boolean): string {
  if (octets.length > 2 * SLICE) return escapeLong(octets, plain);
  if (plain) return octets.replaceAll('=', '=3D');
  return octets.replace(TO_ESCAPE, (octet) => ESCAPES[octet.charCodeAt(0) & 0xff] ?? '');
}

function escapeLong(octets: string, plain: boolean): string {
  const pieces: Buffer[] = [];
  for (let from = 0; from < octets.length; from += SLICE)
    pieces.push(Buffer.from(escape(octets.slice(from, from + SLICE), plain), 'latin1'));
  return Buffer.concat(pieces).toString('latin1');
}

/** Returns octets as quoted-printable: a CRLF is a line end, any other CR or LF is escaped. */
export const quotedOctets = (octets: Buffer): Buffer =>
  inSlices(octets.toString('latin1'), (slice) =>
    quotedPrintable(escape(slice.replace(/(?<!\r)\n/g, LONE_LF).replaceAll('\r\n', '\n'), false), 'part'),
  );

/** Stands for a LF that does not end a line: not an octet, and escaped by its low eight bits. */
const LONE_LF = '\u010a';

function quotedPrintable(escaped: string, end: TextEnd): Buffer {
  let out = '';
  for (let start = 0; start <= escaped.length;) {
    const lineFeed = escaped.indexOf('\n', start);
    const lineEnd = lineFeed < 0 ? escaped.length : lineFeed;
    for (let cut = softBreak(escaped, start, lineEnd); cut < lineEnd; cut = softBreak(escaped, start, lineEnd)) {
      out += `${escaped.slice(start, cut)}=\r\n`;
      start = cut;
    }
    out += lastOfLine(escaped, start, lineEnd);
    if (lineFeed >= 0) out += '\r\n';
    // A soft break ends a message's last line without adding one to the text.
    else if (end === 'message' && lineEnd > start) out += '=\r\n';
    start = lineEnd + 1;
  }
  return Buffer.from(out, 'latin1');
}

/** Returns the place to break the line after `start`, or its end: before an escape, and not inside a UTF-8 sequence. */
function softBreak(escaped: string, start: number, lineEnd: number): number {
  // A space that ends the line grows to three columns, so two are kept free besides the one of the break.
  if (lineEnd - start <= LONGEST_LINE - 3) return lineEnd;
  let cut = start + LONGEST_LINE - 3;
  if (escaped[cut - 1] === '=') cut -= 1;
  else if (escaped[cut - 2] === '=') cut -= 2;
  while (escaped[cut] === '=' && /[89AB]/.test(escaped[cut + 1] ?? '')) cut -= 3;
  return cut;
}

/** Returns the last of a line. White space at the end of a line gets lost on the way (RFC 2045 section 6.7 (3)). */
function lastOfLine(escaped: string, start: number, lineEnd: number): string {
  const last = lineEnd > start ? escaped[lineEnd - 1] : '';
  if (last !== ' ' && last !== '\t') return escaped.slice(start, lineEnd);
  return escaped.slice(start, lineEnd - 1) + (last === ' ' ? '=20' : '=09');
}

export function base64Lines(octets: Buffer): Buffer {
  const lines = Buffer.allocUnsafe(base64Length(octets.length));
  writeBase64Lines(octets, lines, 0);
  return lines;
}

/** Octets that are encoded at a time, in whole lines. */
const BASE64_SLICE = 57 * 1024;

/** Writes octets as base64 in lines to `out` from `at` on, which has room for them; returns the end. With a string for each line it takes half as long again. */
export function writeBase64Lines(octets: Buffer, out: Buffer, at: number): number {
  let to = at;
  for (let from = 0; from < octets.length; from += BASE64_SLICE) {
    const characters = octets.toString('base64', from, from + BASE64_SLICE);
    // Written behind the room for all line ends, and moved to the front line by line.
    let next = to + 2 * Math.ceil(characters.length / LONGEST_LINE);
    const end = next + out.write(characters, next, 'latin1');
    while (next < end) {
      const lineEnd = Math.min(next + LONGEST_LINE, end);
      out.copyWithin(to, next, lineEnd);
      to += lineEnd - next;
      next = lineEnd;
      out[to++] = CR;
      out[to++] = LF;
    }
  }
  return to;
}
