/**
 * Mail that others wrote, made fit for transport: parts that cannot travel get another transfer encoding (RFC 2045 section 6), all else stays octet
 * for octet. Unfit are lines over 998 octets (RFC 5321 section 4.5.3.1.6) in submitted mail, and octets outside ASCII for a receiver that takes none,
 * and in an attached mail. RFC 2046 section 5.2.1 forbids to encode a mail inside (`message/rfc822`) as a whole, so its inner parts are encoded.
 * Other parts `message/...` may not be encoded either (RFC 2045 section 6.4): they become files.
 */
import { decodeTransfer } from './charset.ts';
import { readContentType } from './content-type.ts';
import { endOfHead, parseHeaders, type HeaderField } from './header.ts';
import { survey, withCrlf } from './body-facts.ts';
import { base64Lines, isPlain, quotedOctets } from './transfer-encoding.ts';

const DEEPEST = 20;
/** Each part that is encoded grows by a header line, which must not add up. */
const MOST_ENCODED = 200;
/** Parts of one multipart; no mail for people has as many, and each takes memory. */
const MOST_PARTS = 10_000;

const hasLongLine = (bytes: Buffer): boolean => survey(bytes).hasLongLine;

export interface Reencoded {
  fields: readonly HeaderField[];
  body: Buffer;
}

/** The way parts are encoded, and how much growth is still allowed. */
interface Job {
  /** True of octets that cannot stay as they are. */
  isUnfit: (bytes: Buffer) => boolean;
  /** The same of the header of a part, which is only labelled: one that cannot stay ends the whole job. */
  isUnfitHead: (bytes: Buffer) => boolean;
  /** `7bit` if all that stays has to be so. */
  label: '7bit' | null;
  left: number;
}

/** Returns the mail without lines that are too long, or null if a signature or encryption would break. */
export const repairLongLines = (fields: readonly HeaderField[], body: Buffer): Reencoded | null =>
  reencodeMail(fields, body, { isUnfit: hasLongLine, isUnfitHead: hasLongLine, label: null, left: Infinity }, 0);

/**
 * Returns a mail (header and body) in 7 bits, with CRLF line ends. Null if more than transfer encodings would change: header fields outside ASCII or
 * with lines over 998 octets, signed or encrypted parts outside ASCII, parts in `binary`.
 */
export function sevenBitMail(mail: Buffer): Buffer | null {
  const octets = withCrlf(mail);
  if (!isUnfit(octets)) return octets;
  return reencodePart(octets, { isUnfit, isUnfitHead: isUnfit, label: '7bit', left: MOST_ENCODED }, 0, reencodeMail);
}

/**
 * Returns the body of a mail in 7 bits, with the header that says so. All other fields, also of its parts and of mails inside, stay as they are, even
 * with octets beyond ASCII. Null as for `sevenBitMail`.
 */
export const sevenBitBody = (fields: readonly HeaderField[], body: Buffer): Reencoded | null =>
  reencodeMail(fields, body, { isUnfit, isUnfitHead: hasLongLine, label: '7bit', left: MOST_ENCODED }, 0);

const isUnfit = (bytes: Buffer): boolean => !isPlain(bytes) || hasLongLine(bytes);

/** Encodes a mail, which says that it is MIME if it has got an encoding (RFC 2045 section 4). */
function reencodeMail(fields: readonly HeaderField[], body: Buffer, job: Job, depth: number): Reencoded | null {
  const done = reencode(fields, body, job, depth);
  return done === null || done.fields === fields ? done : { ...done, fields: asMime(done.fields) };
}

/** Returns the fields of a mail with MIME-Version: without it a reader need not decode what the others say is encoded. */
export const asMime = (fields: readonly HeaderField[]): readonly HeaderField[] =>
  valueOf(fields, 'mime-version') === null
    ? [...fields, { name: 'MIME-Version', value: '1.0', raw: 'MIME-Version: 1.0\r\n' }]
    : fields;

function reencode(fields: readonly HeaderField[], body: Buffer, job: Job, depth: number): Reencoded | null {
  if (!job.isUnfit(body)) return { fields, body };
  const { type, params } = readContentType(valueOf(fields, 'content-type'));
  const encoding = encodingOf(fields);
  if (depth > DEEPEST || isSealed(type) || (job.label !== null && encoding === 'binary')) return null;
  if (type.startsWith('multipart/')) {
    const boundary = params.get('boundary') ?? '';
    const parts = boundary === '' ? null : reencodeParts(body, boundary, job, depth);
    return parts === null ? null : { fields: relabelled(fields, job), body: parts };
  }
  if (type === 'message/rfc822' && !isEncoding(encoding)) {
    const inner = reencodePart(body, job, depth + 1, reencodeMail);
    return inner === null ? null : { fields: relabelled(fields, job), body: inner };
  }
  if (job.left-- <= 0) return null;
  return encodeLeaf(fields, body, type);
}

/** Returns whether it is a type that RFC 2045 section 6.4 forbids to encode; those of RFC 6532 and RFC 6533 may be. */
const isUnencodable = (type: string): boolean => /^message\/(?!global)/.test(type);

/** Returns the fields with the type of a file, which may be encoded. */
function asFile(fields: readonly HeaderField[]): HeaderField[] {
  const named = (text: string): string => text.replace(/message\/[^\s;]{1,100}/i, 'application/octet-stream');
  return fields.map((field) =>
    /^content-type$/i.test(field.name) ? { ...field, value: named(field.value), raw: named(field.raw) } : field,
  );
}

/** Returns whether it is a type of RFC 1847 and RFC 8551: changed octets would no longer verify. */
export const isSealed = (type: string): boolean =>
  type === 'multipart/signed' || type === 'multipart/encrypted' || /^application\/(?:x-)?pkcs7-/.test(type);

/** Returns the value of the first field of this name, in lower case, or null. */
export const valueOf = (fields: readonly HeaderField[], name: string): string | null =>
  fields.find((field) => field.name.toLowerCase() === name)?.value ?? null;

const encodingOf = (fields: readonly HeaderField[]): string =>
  valueOf(fields, 'content-transfer-encoding')?.trim().toLowerCase() ?? '7bit';

const isEncoding = (encoding: string): boolean => encoding === 'base64' || encoding === 'quoted-printable';

/** Labels the fields: parts around others can only be labelled (RFC 2045 section 6.4). */
const relabelled = (fields: readonly HeaderField[], { label }: Job): readonly HeaderField[] =>
  label === null || valueOf(fields, 'content-transfer-encoding') === null ? fields : withEncoding(fields, label);

/** Encodes header, empty line and body of a part or of an enclosed mail. */
function reencodePart(bytes: Buffer, job: Job, depth: number, encode = reencode): Buffer | null {
  const at = endOfHead(bytes);
  // A part without an empty line is a header alone, or nothing.
  if (at === bytes.length) return job.isUnfit(bytes) ? null : bytes;
  const fields = parseHeaders(bytes.toString('latin1', 0, at));
  const done = encode(fields, bytes.subarray(at + 2), job, depth + 1);
  if (done === null) return null;
  const head = Buffer.from(done.fields.map(({ raw }) => raw).join(''), 'latin1');
  return job.isUnfitHead(head) ? null : Buffer.concat([head, Buffer.from('\r\n'), done.body]);
}

function reencodeParts(body: Buffer, boundary: string, job: Job, depth: number): Buffer | null {
  // The text before the first part and after the last one is not shown (RFC 2046 section 5.1.1).
  const emptied = (text: Buffer): Buffer => (job.isUnfit(text) ? Buffer.alloc(0) : text);
  const delimiter = (line: Buffer): Buffer | null => (job.isUnfit(line) ? null : line);
  return changeParts(body, boundary, (part) => reencodePart(part, job, depth), { between: emptied, delimiter });
}

const unchanged = (text: Buffer): Buffer => text;

/**
 * Returns a multipart body with its parts changed. Null if a part or delimiter line cannot be, there are too many, or there is no delimiter line: all
 * of it would be text that is not shown.
 */
export function changeParts(
  body: Buffer,
  boundary: string,
  change: (part: Buffer) => Buffer | null,
  { between, delimiter }: Record<'between' | 'delimiter', typeof change> = { between: unchanged, delimiter: unchanged },
): Buffer | null {
  const pieces: (Buffer | null)[] = [];
  let from = 0;
  let inside = false;
  for (const { at, end, last } of delimiters(body, boundary)) {
    pieces.push((inside ? change : between)(body.subarray(from, at)), delimiter(body.subarray(at, end)));
    from = end;
    inside = !last;
    if (last) break;
    if (pieces.length > 2 * MOST_PARTS) return null;
  }
  if (pieces.length === 0) return null;
  pieces.push((inside ? change : between)(body.subarray(from)));
  const whole = pieces.filter((piece) => piece !== null);
  return whole.length === pieces.length ? Buffer.concat(whole) : null;
}

/** The delimiter lines with the CRLF before and after them, which belong to them. */
function* delimiters(body: Buffer, boundary: string): Generator<{ at: number; end: number; last: boolean }> {
  const mark = `--${boundary}`;
  let from = 0;
  let before = 0;
  for (;;) {
    const at = body.indexOf(mark, from, 'latin1');
    if (at < 0) return;
    from = at + mark.length;
    if (at !== 0 && body.toString('latin1', at - 2, at) !== '\r\n') continue;
    const lineEnd = body.indexOf('\r\n', from);
    const end = lineEnd < 0 ? body.length : lineEnd + 2;
    const rest = body.toString('latin1', from, Math.min(end, from + 200));
    if (!/^(?:--)?[ \t]*(?:\r\n)?$/.test(rest)) continue;
    // Of an empty part the CRLF is that of the delimiter line before it.
    yield { at: Math.max(at - 2, before), end, last: rest.startsWith('--') };
    from = end;
    before = end;
  }
}

function encodeLeaf(fields: readonly HeaderField[], body: Buffer, type: string): Reencoded {
  const encoding = encodingOf(fields);
  const octets = isEncoding(encoding) ? Buffer.from(decodeTransfer(body.toString('latin1'), encoding), 'latin1') : body;
  if (isUnencodable(type)) {
    const lines = withCrlf(octets);
    if (!isUnfit(lines)) return { fields: withEncoding(fields, '7bit'), body: lines };
    return encodedPart(asFile(fields), octets, { isText: false, like: body });
  }
  return encodedPart(fields, octets, { isText: type.startsWith('text/') && encoding !== 'base64', like: body });
}

/**
 * Returns a part with these octets: text as quoted-printable, to stay legible, unless most of it would be escapes; all else as base64. It ends with a
 * line end if `like`, its body until now, does.
 */
export function encodedPart(
  fields: readonly HeaderField[],
  octets: Buffer,
  { isText, like }: { isText: boolean; like: Buffer },
): Reencoded {
  const quoted = isText ? quotedOctets(octets) : null;
  const encoding = quoted === null ? 'base64' : 'quoted-printable';
  return { fields: withEncoding(fields, encoding), body: endedLike(like, quoted ?? base64Lines(octets)) };
}

/** Returns the text with a final CRLF only if the body has one: the CRLF before a boundary belongs to the boundary. */
function endedLike(body: Buffer, text: Buffer): Buffer {
  if (endsLine(body)) return endsLine(text) ? text : Buffer.concat([text, Buffer.from('\r\n')]);
  return endsLine(text) ? text.subarray(0, -2) : text;
}

const endsLine = (octets: Buffer): boolean => octets.subarray(-2).toString('latin1') === '\r\n';

function withEncoding(fields: readonly HeaderField[], encoding: string): HeaderField[] {
  const others = fields.filter(({ name }) => name.toLowerCase() !== 'content-transfer-encoding');
  const name = 'Content-Transfer-Encoding';
  return [...others, { name, value: encoding, raw: `${name}: ${encoding}\r\n` }];
}
