/**
 * A strict reader of mails, for judging ours: RFC 2045 to 2049, 2231, 5322. It shares no code with the product, guesses
 * nothing and throws at what a conforming sender must not write; a tolerant reader would hide our faults.
 */
import assert from 'node:assert/strict';

export interface LeafPart {
  /** `type/subtype` in lower case, without parameters. */
  type: string;
  /** Content-Type as it stands, unfolded. */
  contentType: string;
  /** `inline`, `attachment`, or null if the part says nothing: a body. */
  disposition: string | null;
  filename: string | null;
  contentId: string | null;
  /** Decoded. */
  content: Buffer;
}

export interface ReadMail {
  /** Names in lower case, values unfolded but not decoded. */
  fields: Field[];
  /** In the order they stand. */
  leaves: LeafPart[];
  /** Multiparts inside one another. */
  depth: number;
}

type Field = readonly [name: string, value: string];

const LONGEST_LINE = 998;
const LONGEST_ENCODED_LINE = 76;

/** Reads a mail with CRLF line ends. */
export function readMail(bytes: Buffer): ReadMail {
  const text = bytes.toString('latin1');
  assert.doesNotMatch(text, /[^\x00-\x7f]/, 'more than 7 bits');
  assert.doesNotMatch(text, /\r(?!\n)|(?<!\r)\n/, 'a line end that is not CRLF');
  assert.doesNotMatch(text, /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/, 'control characters on the wire');
  for (const line of text.split('\r\n')) assert.ok(line.length <= LONGEST_LINE, `a line of ${String(line.length)}`);
  const { fields, body } = splitEntity(text);
  const leaves: LeafPart[] = [];
  const depth = readEntity(fields, body, leaves);
  return { fields, leaves, depth };
}

/** The one field of this name. */
export function fieldOf(mail: ReadMail, name: string): string {
  const values = fieldsOf(mail, name);
  assert.equal(values.length, 1, `${String(values.length)} fields ${name}`);
  return values[0] ?? '';
}

export function fieldsOf({ fields }: ReadMail, name: string): string[] {
  return fields.filter(([found]) => found === name).map(([, value]) => value);
}

/** Unstructured text: encoded words decoded, the white space between two of them dropped (RFC 2047 section 6.2). */
export function decodeWords(value: string): string {
  const joined = value.replace(/(=\?[^? ]+\?[BQ]\?[^? ]*\?=)[ \t]+(?==\?[^? ]+\?[BQ]\?[^? ]*\?=)/gi, '$1');
  return joined.replace(/=\?([^? ]+)\?([BQ])\?([^? ]*)\?=/gi, (_word, charset: string, form: string, coded: string) => {
    const octets =
      form.toUpperCase() === 'B' ? strictBase64(coded) : hexDecoded(coded.replaceAll('_', ' '), /=([0-9A-F]{2})/g);
    return decodedText(charset, octets);
  });
}

/** A field with one mailbox. */
export function mailboxOf(value: string): { name: string | null; address: string } {
  const angle = /^(?:(.*) )?<([^<>]+)>$/s.exec(value);
  if (angle === null) return { name: null, address: value };
  const [, phrase, address = ''] = angle;
  if (phrase === undefined) return { name: null, address };
  if (!phrase.startsWith('"')) return { name: decodeWords(phrase), address };
  assert.match(phrase, /^"(?:[^"\\]|\\.)*"$/s, 'a quoted name');
  return { name: phrase.slice(1, -1).replace(/\\(.)/gs, '$1'), address };
}

function splitEntity(text: string): { fields: Field[]; body: string } {
  const end = text.startsWith('\r\n') ? 0 : text.indexOf('\r\n\r\n');
  assert.ok(end >= 0, 'a header without an empty line behind it');
  const head = text.slice(0, end);
  const fields = (head === '' ? [] : head.split(/\r\n(?![ \t])/)).map((field): Field => {
    const colon = field.indexOf(':');
    assert.match(field.slice(0, Math.max(0, colon)), /^[!-9;-~]+$/, `a header field: ${field.slice(0, 80)}`);
    // A line of white space alone is obsolete folding, and some readers end the header there.
    assert.doesNotMatch(field, /\r\n[ \t]*(?:\r\n|$)/, 'a blank line in a header field');
    return [
      field.slice(0, colon).toLowerCase(),
      field
        .slice(colon + 1)
        .replaceAll('\r\n', '')
        .trim(),
    ];
  });
  return { fields, body: text.slice(end === 0 ? 2 : end + 4) };
}

/** Gives how many multiparts lie inside one another. */
function readEntity(fields: readonly Field[], body: string, leaves: LeafPart[]): number {
  const one = (name: string): string | null => {
    const found = fields.filter(([candidate]) => candidate === name);
    assert.ok(found.length <= 1, `${name} stands ${String(found.length)} times`);
    return found[0]?.[1] ?? null;
  };
  const contentType = one('content-type') ?? 'text/plain';
  const { value: type, parameters } = parseParameters(contentType);
  const encoding = (one('content-transfer-encoding') ?? '7bit').toLowerCase();
  if (type.startsWith('multipart/')) {
    assert.equal(encoding, '7bit', 'an encoded multipart');
    const inner = splitMultipart(body, parameters.get('boundary') ?? '').map((part) => {
      const { fields: partFields, body: partBody } = splitEntity(part);
      return readEntity(partFields, partBody, leaves);
    });
    return 1 + Math.max(...inner);
  }
  const written = one('content-disposition');
  const disposition = written === null ? null : parseParameters(written);
  leaves.push({
    type,
    contentType,
    disposition: disposition?.value ?? null,
    filename: disposition?.parameters.get('filename') ?? null,
    contentId: one('content-id')?.replace(/^<(.*)>$/, '$1') ?? null,
    content: decodeBody(encoding, body),
  });
  return 0;
}

/** RFC 2046 section 5.1.1: the line end in front of a delimiter belongs to it. */
function splitMultipart(body: string, boundary: string): string[] {
  assert.match(boundary, /^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$/, 'a boundary');
  const parts: string[] = [];
  const whole = `\r\n${body}`;
  const delimiter = `\r\n--${boundary}`;
  let from = -1;
  for (let at = whole.indexOf(delimiter); at >= 0; at = whole.indexOf(delimiter, at + 2)) {
    const behind = whole.slice(at + delimiter.length, at + delimiter.length + 4);
    if (!behind.startsWith('\r\n') && !/^--(?:\r\n|$)/.test(behind)) continue;
    if (from >= 0) parts.push(whole.slice(from, at));
    from = at + delimiter.length + 2;
    if (behind.startsWith('--')) {
      assert.ok(parts.length > 0, 'a multipart without parts');
      return parts;
    }
  }
  throw new Error('a multipart without its end');
}

function decodeBody(encoding: string, body: string): Buffer {
  switch (encoding) {
    case '7bit':
      return Buffer.from(body, 'latin1');
    case 'quoted-printable':
      return quotedPrintable(body);
    case 'base64':
      checkLines(body);
      return strictBase64(body.replaceAll('\r\n', ''));
    default:
      throw new Error(`the encoding ${encoding}`);
  }
}

function quotedPrintable(body: string): Buffer {
  checkLines(body);
  assert.doesNotMatch(body, /[ \t](?:\r\n|$)/, 'white space at the end of a quoted-printable line');
  return hexDecoded(body.replaceAll('=\r\n', ''), /=([0-9A-F]{2})/g);
}

function checkLines(body: string): void {
  for (const line of body.split('\r\n')) assert.ok(line.length <= LONGEST_ENCODED_LINE, 'an encoded line over 76');
}

function hexDecoded(text: string, escape: RegExp): Buffer {
  const mark = escape.source[0] ?? '';
  assert.equal(text.split(mark).length - 1, text.match(escape)?.length ?? 0, 'a broken escape');
  const octets = text.replace(escape, (_escape, hex: string) => String.fromCharCode(parseInt(hex, 16)));
  return Buffer.from(octets, 'latin1');
}

function strictBase64(text: string): Buffer {
  const octets = Buffer.from(text, 'base64');
  assert.equal(octets.toString('base64'), text, 'base64 that is not canonical');
  return octets;
}

function decodedText(charset: string, octets: Buffer): string {
  assert.equal(charset.toLowerCase(), 'utf-8');
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(octets);
}

/** `value; name=token; name="quoted"; name*0*=utf-8''…` (RFC 2231). */
function parseParameters(text: string): { value: string; parameters: Map<string, string> } {
  const end = text.indexOf(';');
  const value = (end < 0 ? text : text.slice(0, end)).trim().toLowerCase();
  const raw = new Map<string, string>();
  const rest = end < 0 ? '' : text.slice(end);
  let read = 0;
  for (const match of rest.matchAll(/;\s*([^=\s;]+)=("(?:[^"\\]|\\.)*"|[^;\s"]*)/gs)) {
    assert.equal(rest.slice(read, match.index).trim(), '', `between parameters of ${text.slice(0, 200)}`);
    read = match.index + match[0].length;
    const [, name = '', written = ''] = match;
    assert.ok(!raw.has(name.toLowerCase()), `the parameter ${name} stands twice`);
    raw.set(name.toLowerCase(), written.startsWith('"') ? written.slice(1, -1).replace(/\\(.)/gs, '$1') : written);
  }
  assert.equal(rest.slice(read).replace(';', '').trim(), '', `behind the parameters of ${text.slice(0, 200)}`);
  return { value, parameters: joinContinuations(raw) };
}

function joinContinuations(raw: ReadonlyMap<string, string>): Map<string, string> {
  const parameters = new Map<string, string>();
  for (const [name, value] of raw) {
    const base = name.slice(0, name.indexOf('*'));
    if (!name.includes('*')) parameters.set(name, value);
    else if (name === `${base}*`) parameters.set(base, extended(value));
    else if (/\*0\*?$/.test(name)) parameters.set(base, continued(raw, base));
  }
  return parameters;
}

/** RFC 2231 section 4.1: of the pieces only those marked by a `*` are percent-encoded, the first names the charset. */
function continued(raw: ReadonlyMap<string, string>, base: string): string {
  const octets: Buffer[] = [];
  let charset = 'utf-8';
  for (let at = 0; ; at++) {
    const plain = raw.get(`${base}*${String(at)}`);
    let coded = raw.get(`${base}*${String(at)}*`);
    if (plain === undefined && coded === undefined) return decodedText(charset, Buffer.concat(octets));
    if (coded !== undefined && at === 0) [charset = '', , coded = ''] = coded.split("'");
    octets.push(coded === undefined ? Buffer.from(plain ?? '', 'latin1') : hexDecoded(coded, /%([0-9A-F]{2})/gi));
  }
}

function extended(value: string): string {
  const [charset = '', , coded = ''] = value.split("'");
  return decodedText(charset, hexDecoded(coded, /%([0-9A-F]{2})/gi));
}
