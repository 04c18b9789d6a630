/**
 * Content transfer encodings for text parts (RFC 2045 section 6), always in 7 bits, so that bytes and signature are the same at every try. Most octets
 * stay as they are, so four are looked at together: string searches take up to three times as long, and memory for each line and escape.
 */
import { isAscii } from 'node:buffer';
import { withCrlf, type Survey } from './body-facts.ts';

export type TransferEncoding = '7bit' | 'quoted-printable' | 'base64';

export interface MeasuredText {
  encoding: TransferEncoding;
  /** UTF-8, with any line ends. */
  octets: Buffer;
  /** As of a `Survey`. */
  bareEnds: number;
  /** Octets the encoded text takes at most. */
  bound: number;
  /** As of a `Survey` of the encoded text; may be false if that is relaxed. */
  isRelaxed: boolean;
}

/** The kind of end of an encoded text: the last octets of a message must be CRLF; before a boundary they belong to the boundary. */
export type TextEnd = 'message' | 'part';

/** Multipart boundaries begin with this: quoted-printable and base64 never have it at a line's start, plain text may not. */
export const BOUNDARY_MARK = '=_';

/** RFC 2045 section 6.7 (5) and 6.8: encoded lines. Plain lines beyond it are encoded too, since some relays wrap them. */
const LONGEST_LINE = 76;
/** Columns before a soft break: besides it, a space that ends the line grows by two. */
const COLUMNS = LONGEST_LINE - 3;
/** Octets of a UTF-8 character behind its first: a soft break comes before the whole. */
const MOST_CONTINUATIONS = 3;
/** Columns that a line with a soft break has at least: the escape that came next did not fit, and the character goes with it. */
const LEAST_COLUMNS = COLUMNS - 2 - 3 * MOST_CONTINUATIONS;

const [TAB, LF, CR, SPACE, EQUALS] = [0x09, 0x0a, 0x0d, 0x20, 0x3d];
const HEX = Buffer.from('0123456789ABCDEF');

/** Chooses what keeps the text readable on the wire and short: as it is, else quoted-printable while most of it is ASCII. */
export function measureText(text: string | Buffer): MeasuredText {
  const octets = typeof text === 'string' ? Buffer.from(text) : text;
  const { bareEnds, escapes, isPlain, lineEnds, longest, hasTrailingSpace } = measure(octets);
  const isRelaxed = !octets.includes('  ') && !octets.includes(TAB);
  const length = octets.length + bareEnds;
  const measured = { octets, bareEnds, isRelaxed };
  if (isPlain && longest <= LONGEST_LINE && !hasTrailingSpace && !octets.includes(`--${BOUNDARY_MARK}`))
    return { ...measured, encoding: '7bit', bound: length + 2 };
  return isLegible(escapes, length)
    ? { ...measured, encoding: 'quoted-printable', bound: quotedBound(length + 2 * escapes, lineEnds) }
    : { ...measured, encoding: 'base64', bound: base64Length(length), isRelaxed: true };
}

/** Returns the octets for the wire. Decoding gives the text with CRLF, except that a 7bit text that ends a message gains a missing line end. */
export function encodeText({ encoding, octets, bareEnds, bound }: MeasuredText, end: TextEnd): Buffer {
  if (encoding === 'quoted-printable') return quoted(octets, { bound, end, lineEnds: 'any' });
  const lines = withCrlf(octets, bareEnds);
  // RFC 2045 section 6.8: text has CRLF line ends before it is encoded.
  if (encoding === 'base64') return base64Lines(lines);
  return end === 'message' && lines.at(-1) !== LF ? Buffer.concat([lines, LINE_END]) : lines;
}

const LINE_END = Buffer.from('\r\n');

/** Returns octets as quoted-printable: a CRLF is a line end, any other CR or LF is escaped. Null if base64 is better for them. */
export function quotedOctets(octets: Buffer): Buffer | null {
  const { bareEnds, escapes, lineEnds } = measure(octets);
  if (!isLegible(escapes, octets.length)) return null;
  const bound = quotedBound(octets.length + 2 * (escapes + bareEnds), lineEnds);
  return quoted(octets, { bound, end: 'part', lineEnds: 'pairs' });
}

/** Returns whether quoted-printable is the shorter one, and can be read: with a quarter of escapes at most. */
const isLegible = (escapes: number, length: number): boolean => escapes * 4 <= length;

/** Returns whether it has only printable ASCII, white space and line ends: what we send. */
export const isPlain = (octets: Buffer): boolean => isAscii(octets) && measure(octets).isPlain;

interface Measured extends Pick<Survey, 'bareEnds'> {
  /** Octets that quoted-printable escapes; line ends are not among them. */
  escapes: number;
  /** True if `=` is all that it escapes. */
  isPlain: boolean;
  lineEnds: number;
  longest: number;
  hasTrailingSpace: boolean;
}

function measure(octets: Buffer): Measured {
  const view = viewOf(octets);
  const end = octets.length;
  let [escapes, lineEnds, bareEnds, longest, lineStart] = [0, 0, 0, 0, 0];
  let [isPlain, hasTrailingSpace] = [true, false];
  for (let at = nextSpecial(view, 0, end); at <= end; at = nextSpecial(view, at + 1, end)) {
    const octet = octets[at] ?? LF;
    if (octet === TAB) continue;
    if (octet !== LF && octet !== CR) {
      escapes++;
      if (octet === EQUALS) continue;
      isPlain = false;
      // A character beyond ASCII has several.
      for (; (octets[at + 1] ?? 0) > 0x7f; at++) escapes++;
      continue;
    }
    longest = Math.max(longest, at - lineStart);
    if (at > lineStart && isSpace(octets[at - 1])) hasTrailingSpace = true;
    if (at === end) break;
    lineEnds++;
    if (octet === CR && octets[at + 1] === LF) at++;
    else bareEnds++;
    lineStart = at + 1;
  }
  return { escapes, isPlain, lineEnds, bareEnds, longest, hasTrailingSpace };
}

const isSpace = (octet: number | undefined): boolean => octet === SPACE || octet === TAB;

const viewOf = ({ buffer, byteOffset, length }: Buffer): DataView => new DataView(buffer, byteOffset, length);

/** Has the highest bit of the first of four octets that is `=`, below a space or above `~`, and none before it. */
function specialOf(four: number): number {
  const unlike = four ^ 0x3d3d3d3d;
  const low = ((four - 0x20202020) & ~four) | ((unlike - 0x01010101) & ~unlike);
  return (low | four | (four + 0x01010101)) & 0x80808080;
}

/** Returns the place of the next such octet, or `end`; it may leave out a TAB. */
function nextSpecial(view: DataView, from: number, end: number): number {
  let at = from;
  for (; at + 4 <= end; at += 4) {
    const special = specialOf(view.getInt32(at, true));
    if (special !== 0) return at + ((31 - Math.clz32(special & -special)) >> 3);
  }
  while (at < end && isVerbatim(view.getUint8(at))) at++;
  return at;
}

/** Returns the most octets. A soft break takes 3 octets; every line may end in a space that takes 3 for 1. */
function quotedBound(octets: number, lineEnds: number): number {
  const withSpaces = octets + 2 * (lineEnds + 1);
  return withSpaces + 3 * (Math.ceil(withSpaces / LEAST_COLUMNS) + 1);
}

interface Quoting {
  bound: number;
  end: TextEnd;
  /** The ends of lines: each CR, LF and CRLF, or a CRLF alone. */
  lineEnds: 'any' | 'pairs';
}

function quoted(octets: Buffer, { bound, end, lineEnds }: Quoting): Buffer {
  const out = Buffer.allocUnsafeSlow(bound);
  const [from, into] = [viewOf(octets), viewOf(out)];
  let [at, to, lineStart] = [0, 0, 0];
  while (at < octets.length) {
    const stop = Math.min(octets.length, at + COLUMNS - (to - lineStart));
    for (; at + 4 <= stop; at += 4, to += 4) {
      const four = from.getInt32(at, true);
      if (specialOf(four) !== 0) break;
      into.setInt32(to, four, true);
    }
    for (; at < stop && isVerbatim(octets[at] ?? 0); at++) out[to++] = octets[at] ?? 0;
    if (at === octets.length) break;
    const octet = octets[at] ?? 0;
    const isPair = octet === CR && octets[at + 1] === LF;
    if (isPair || (lineEnds === 'any' && (octet === CR || octet === LF))) {
      to = lineStart = writeLineEnd(out, endOfLine(out, lineStart, to));
      at += isPair ? 2 : 1;
    } else if (to - lineStart + (isVerbatim(octet) ? 1 : 3) > COLUMNS) {
      for (let back = 0; back < MOST_CONTINUATIONS && isContinued(octets, at); back++) {
        at--;
        to -= 3;
      }
      out[to++] = EQUALS;
      to = lineStart = writeLineEnd(out, to);
    } else {
      out[to++] = EQUALS;
      out[to++] = HEX[octet >> 4] ?? 0;
      out[to++] = HEX[octet & 0x0f] ?? 0;
      at++;
    }
  }
  // A soft break ends a message's last line without adding one to the text.
  const isOpen = end === 'message' && to > lineStart;
  to = endOfLine(out, lineStart, to);
  if (isOpen) to += out.write('=\r\n', to, 'latin1');
  return out.subarray(0, to);
}

function writeLineEnd(out: Buffer, to: number): number {
  out[to] = CR;
  out[to + 1] = LF;
  return to + 2;
}

/** Returns whether the octet belongs to the character of the one before, which both are escaped. */
const isContinued = (octets: Buffer, at: number): boolean =>
  ((octets[at] ?? 0) & 0xc0) === 0x80 && (octets[at - 1] ?? 0) > 0x7f;

/** Returns whether quoted-printable has the octet as it is. */
const isVerbatim = (octet: number): boolean => octet === TAB || (octet >= SPACE && octet <= 0x7e && octet !== EQUALS);

/** Escapes white space that ends a line, which gets lost on the way (RFC 2045 section 6.7 (3)). Returns the new end. */
function endOfLine(out: Buffer, lineStart: number, to: number): number {
  const last = to > lineStart ? out[to - 1] : undefined;
  return isSpace(last) ? to - 1 + out.write(last === SPACE ? '=20' : '=09', to - 1, 'latin1') : to;
}

/** Returns the octets of base64 in lines of 76, each ended by CRLF. */
export function base64Length(octets: number): number {
  const characters = Math.ceil(octets / 3) * 4;
  return characters + 2 * Math.ceil(characters / LONGEST_LINE);
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
