/**
 * Lines over 998 octets (RFC 5321 section 4.5.3.1.6) in a mail that was submitted so: the parts they stand in are encoded anew
 * (RFC 2045 section 6), everything else stays octet for octet.
 */
import { encode, wrap } from 'nodemailer/lib/qp';
import { decodeTransfer } from './charset.ts';
import { readContentType } from './content-type.ts';
import { parseHeaders, type HeaderField } from './header.ts';

const LONGEST_LINE = 998;
/** Parts within parts: more is no mail. */
const DEEPEST = 20;

/** Whether some line is longer than transport allows. Line ends are CRLF. */
export function hasLongLine(bytes: Buffer): boolean {
  let from = 0;
  while (bytes.length - from > LONGEST_LINE) {
    // From the last octet that could end an allowed line backwards: most lines are short, so this looks at few octets.
    const end = bytes.subarray(from, from + LONGEST_LINE + 2).lastIndexOf('\r\n');
    if (end < 0) return true;
    from += end + 2;
  }
  return false;
}

export interface Mended {
  fields: readonly HeaderField[];
  body: Buffer;
}

/** The mail with such parts encoded anew, or null where a signature or encryption would break. */
export function repairLongLines(fields: readonly HeaderField[], body: Buffer, depth = 0): Mended | null {
  if (!hasLongLine(body)) return { fields, body };
  const { type, params } = readContentType(valueOf(fields, 'content-type'));
  if (depth > DEEPEST || isSealed(type)) return null;
  const boundary = type.startsWith('multipart/') ? params.get('boundary') : undefined;
  if (boundary !== undefined && boundary !== '') return repairParts(fields, body, boundary, depth);
  if (type === 'message/rfc822') {
    const inner = repairPart(body, depth);
    return inner === null ? null : { fields, body: inner };
  }
  return encodeAnew(fields, body, type);
}

/** RFC 1847, RFC 8551: changed octets would no longer verify. */
const isSealed = (type: string): boolean =>
  type === 'multipart/signed' || type === 'multipart/encrypted' || /^application\/(?:x-)?pkcs7-/.test(type);

const valueOf = (fields: readonly HeaderField[], name: string): string | null =>
  fields.find((field) => field.name.toLowerCase() === name)?.value ?? null;

/** Header, empty line, body: of a part or of an enclosed mail. */
function repairPart(bytes: Buffer, depth: number): Buffer | null {
  const at = bytes.subarray(0, 2).toString('latin1') === '\r\n' ? 0 : bytes.indexOf('\r\n\r\n') + 2;
  if (at === 1) return null;
  const fields = parseHeaders(bytes.toString('latin1', 0, at));
  const mended = repairLongLines(fields, bytes.subarray(at + 2), depth + 1);
  if (mended === null) return null;
  const head = mended.fields.map(({ raw }) => raw).join('');
  return hasLongLine(Buffer.from(head, 'latin1')) ? null : Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), mended.body]); // prettier-ignore
}

function repairParts(fields: readonly HeaderField[], body: Buffer, boundary: string, depth: number): Mended | null {
  const pieces: Buffer[] = [];
  let from = 0;
  let inside = false;
  for (const { at, end, last } of delimiters(body, boundary)) {
    const piece = body.subarray(from, at);
    const mended = inside ? repairPart(piece, depth) : piece;
    if (mended === null) return null;
    pieces.push(mended, body.subarray(at, end));
    from = end;
    inside = !last;
    if (last) break;
  }
  // What follows the last part is for nobody to read (RFC 2046 section 5.1.1).
  const rest = body.subarray(from);
  if (inside) {
    const mended = repairPart(rest, depth);
    if (mended === null) return null;
    pieces.push(mended);
  } else if (!hasLongLine(rest)) pieces.push(rest);
  const whole = Buffer.concat(pieces);
  return hasLongLine(whole) ? null : { fields, body: whole };
}

/** The delimiter lines with the CRLF before and after them, which belong to them. */
function* delimiters(body: Buffer, boundary: string): Generator<{ at: number; end: number; last: boolean }> {
  const mark = `--${boundary}`;
  let from = 0;
  for (;;) {
    const at = body.indexOf(mark, from, 'latin1');
    if (at < 0) return;
    from = at + mark.length;
    if (at !== 0 && body.toString('latin1', at - 2, at) !== '\r\n') continue;
    const lineEnd = body.indexOf('\r\n', from);
    const end = lineEnd < 0 ? body.length : lineEnd + 2;
    const rest = body.toString('latin1', from, Math.min(end, from + 200));
    if (!/^(?:--)?[ \t]*(?:\r\n)?$/.test(rest)) continue;
    yield { at: at === 0 ? 0 : at - 2, end, last: rest.startsWith('--') };
    from = end;
  }
}

/** Text as quoted-printable, so that it stays legible; anything else as base64. */
function encodeAnew(fields: readonly HeaderField[], body: Buffer, type: string): Mended {
  const encoding = valueOf(fields, 'content-transfer-encoding')?.trim().toLowerCase() ?? '7bit';
  const isEncoded = encoding === 'base64' || encoding === 'quoted-printable';
  const octets = isEncoded
    ? Buffer.from(decodeTransfer(body.toString('latin1').replaceAll('\r\n', '\n'), encoding), 'latin1')
    : body;
  const isText = type.startsWith('text/') && encoding !== 'base64';
  const text = isText ? wrap(encode(octets), LINE) : inLines(octets.toString('base64'));
  return { fields: withEncoding(fields, isText ? 'quoted-printable' : 'base64'), body: endedLike(body, text) };
}

/** The CRLF before a delimiter is the delimiter's: a part that had none of its own gets none. */
function endedLike(body: Buffer, text: string): Buffer {
  const bare = text.endsWith('\r\n') ? text.slice(0, -2) : text;
  return Buffer.from(body.subarray(-2).toString('latin1') === '\r\n' ? `${bare}\r\n` : bare, 'latin1');
}

const LINE = 76;
const inLines = (base64: string): string => base64.replace(/.{1,76}/g, '$&\r\n');

function withEncoding(fields: readonly HeaderField[], encoding: string): HeaderField[] {
  const others = fields.filter(({ name }) => name.toLowerCase() !== 'content-transfer-encoding');
  const name = 'Content-Transfer-Encoding';
  return [...others, { name, value: encoding, raw: `${name}: ${encoding}\r\n` }];
}
