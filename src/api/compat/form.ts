/** Reads the forms of HTTP, urlencoded and multipart (RFC 7578), and options in the header of a mail that comes in one. Pure. */
import { Problem } from '../../base/problem.ts';
import { decodeWords } from '../../mail/charset.ts';
import { readContentType } from '../../mail/content-type.ts';
import { parseHeaders } from '../../mail/header.ts';
import type { JsonObject } from '../json.ts';

/** Fields and files that one form may have. */
const MOST_PARTS = 5000;

type Field = string | JsonObject;
type Fields = Map<string, Field[]>;

/**
 * Returns the fields of a form by their names: those that may come several times in lists, of others the last. `name[0]`, as PHP writes
 * it, is `name`. A file is an object with `filename`, `content` in base64 and, if it says so, `content_type`. Throws `unsupported_media_type` and `invalid_request`.
 */
export function readForm(bytes: Buffer, contentType: string, several: RegExp): JsonObject {
  const { type, params } = readContentType(contentType);
  if (type === 'application/x-www-form-urlencoded') return fieldsOf(readPairs(bytes.toString()), several);
  const boundary = params.get('boundary') ?? '';
  if (type === 'multipart/form-data' && boundary !== '') return fieldsOf(readParts(bytes, boundary), several);
  throw new Problem(
    'unsupported_media_type',
    'The Content-Type must be multipart/form-data or application/x-www-form-urlencoded.',
  );
}

const fieldsOf = (fields: Fields, several: RegExp): JsonObject =>
  Object.fromEntries([...fields].map(([name, list]) => [name, several.test(name) ? list : (list.at(-1) ?? null)]));

function readPairs(text: string): Fields {
  const fields: Fields = new Map();
  const pairs = [...new URLSearchParams(text)];
  if (pairs.length > MOST_PARTS) throw tooMany();
  for (const [name, value] of pairs) add(fields, name, value);
  return fields;
}

function add(fields: Fields, name: string, value: Field): void {
  const bare = name.replace(/\[\d*\]$/, '');
  const list = fields.get(bare) ?? [];
  list.push(value);
  fields.set(bare, list);
}

const tooMany = (): Problem => new Problem('too_many_items', `A form may have at most ${String(MOST_PARTS)} fields.`);
const broken = (): Problem =>
  new Problem('invalid_request', 'The form is not multipart/form-data with the boundary of its Content-Type.');

function readParts(bytes: Buffer, boundary: string): Fields {
  const fields: Fields = new Map();
  const line = Buffer.from(`\r\n--${boundary}`);
  // The first boundary has no line break before it.
  let at = bytes.indexOf(line.subarray(2));
  if (at < 0) throw broken();
  at += line.length - 2;
  for (let count = 0; bytes.toString('latin1', at, at + 2) !== '--'; count++) {
    if (count >= MOST_PARTS) throw tooMany();
    const end = bytes.indexOf(line, at);
    const body = bytes.indexOf('\r\n\r\n', at);
    if (end < 0 || body < 0 || body > end) throw broken();
    const { name, value } = readPart(bytes.toString('utf8', at + 2, body + 2), bytes.subarray(body + 4, end));
    add(fields, name, value);
    at = end + line.length;
  }
  return fields;
}

function readPart(head: string, content: Buffer): { name: string; value: Field } {
  const lines = parseHeaders(head);
  const valueOf = (name: string): string | null => lines.find((one) => one.name.toLowerCase() === name)?.value ?? null;
  const { params } = readContentType(valueOf('content-disposition'));
  const name = params.get('name');
  if (name === undefined) throw broken();
  const filename = params.get('filename');
  if (filename === undefined) return { name, value: content.toString() };
  const type = valueOf('content-type');
  return {
    name,
    value: { filename, content: content.toString('base64'), ...(type === null ? {} : { content_type: type.trim() }) },
  };
}

const MOST_HEAD = 512 * 1024;

/** Returns the values of the fields of a mail whose names begin so, decoded, by the rest of the name in lower case. */
export function headFields(mail: Buffer, prefix: string): Record<string, string[]> {
  const [head = ''] = mail.toString('latin1', 0, MOST_HEAD).split(/\r?\n\r?\n/, 1);
  const found = Object.create(null) as Record<string, string[]>;
  for (const { name, value } of parseHeaders(`${head}\r\n`)) {
    const lower = name.toLowerCase();
    if (lower.startsWith(prefix)) (found[lower.slice(prefix.length)] ??= []).push(decodeWords(value));
  }
  return found;
}
