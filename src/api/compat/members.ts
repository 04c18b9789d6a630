/** Reads the bodies of other services: forms of HTTP, members by their tables, and what several services have. Pure. */
import addressparser from 'nodemailer/lib/addressparser';
import { Problem, invalid } from '../../base/problem.ts';
import { quote } from '../../mail/address.ts';
import { decodeWords } from '../../mail/charset.ts';
import { isObject, readJson, type JsonObject, type JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import type { Members } from './foreign.ts';
import { readContentType } from '../../mail/content-type.ts';
import { parseHeaders } from '../../mail/header.ts';

/** A member that concerns only the other service: it is accepted and without effect. */
export const ignored = (): void => undefined;

/** Reads the members of an object by a table. Throws `unknown_field` for one that is not in it. */
export function readMembers(value: JsonValue, members: Members, where = ''): JsonObject {
  if (!isObject(value)) throw wrong(where === '' ? 'body' : where, 'must be an object');
  const out: JsonObject = {};
  const prefix = where === '' ? '' : `${where}.`;
  for (const [name, member] of Object.entries(value)) {
    const isOwn = Object.hasOwn(members, name);
    if (member === null || (member === '' && isOwn)) continue;
    const known = members[isOwn ? name : `${name.slice(0, 2).toLowerCase()}*`];
    if (known === undefined)
      throw new Problem('unknown_field', `\`${prefix}${name}\` has no counterpart here. Leave it out.`, {
        field: prefix + name,
      });
    if (typeof known === 'string') out[known] = member;
    else known(member, out, prefix + name);
  }
  return out;
}
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? ''));

export const wrong = (field: string, why: string): Problem => invalid(field, `\`${field}\` ${why}.`);

/** Throws `invalid_field` if something does not hold. */
export function check(holds: boolean, field: string, why: string): void {
  if (!holds) throw wrong(field, why);
}

export function mergeInto(out: JsonObject, name: string, values: JsonObject): void {
  out[name] = { ...(out[name] as JsonObject | undefined), ...values };
}

export function listAt(value: JsonValue, field: string): JsonValue[] {
  if (Array.isArray(value)) return value;
  throw wrong(field, 'must be a list');
}

export const readEach = (value: JsonValue, members: Members, field: string): JsonObject[] =>
  listAt(value, field).map((one, index) => readMembers(one, members, `${field}[${String(index)}]`));

/** A member that only says whether something is done that is not done here. */
export const never =
  (why: string) =>
  (value: JsonValue, _: JsonObject, field: string): void => {
    const isOn = isObject(value) ? value['enable'] === true : !/^(?:false|no|0|none)$/i.test(textOf(value));
    if (isOn) throw wrong(field, `is not done here: ${why}`);
  };

/** Splits a list of addresses. Programs encode a name as in a header (RFC 2047), although JSON does not need it. */
export const splitAddresses = (text: string): string[] =>
  addressparser(text, { flatten: true }).map(({ address, name }) =>
    address === '' || name === '' ? address || name : `${quote(decodeWords(name))} <${address}>`,
  );

/** Returns addresses that are one text or several. */
export const addressesOf = (value: JsonValue): JsonValue[] =>
  [value].flat().flatMap((one): JsonValue[] => (typeof one === 'string' ? splitAddresses(one) : [one]));

/** Puts the first of several addressees into `to`, and the others into `cc`: all of them see one another. */
export function addressTo(out: JsonObject, to: JsonValue[]): void {
  const [first, ...others] = to;
  if (first !== undefined) out['to'] = first;
  addTo(out, 'cc', others);
}
export const mailboxesAs =
  (name: 'to' | 'cc' | 'bcc' | 'reply_to') =>
  (value: JsonValue, out: JsonObject): void => {
    if (name === 'to') addressTo(out, addressesOf(value));
    else addTo(out, name, addressesOf(value));
  };

/** A member with a list of files, each of which is read by the table. */
export const filesBy =
  (file: Members) =>
  (value: JsonValue, out: JsonObject, field: string): void => {
    out['attachments'] = readEach(value, file, field);
  };

export function addTo(out: JsonObject, name: string, values: readonly JsonValue[]): void {
  if (values.length > 0) out[name] = [...((out[name] as JsonValue[] | undefined) ?? []), ...values];
}

/** Returns an object, which a form has as JSON in a text. */
export function objectIn(value: JsonValue, field: string): JsonObject {
  const read = readJson(Buffer.from(textOf(value)));
  if (read.kind !== 'ok') throw wrong(field, 'must be an object in JSON');
  return read.value;
}

/** Returns an object whose values are texts: metadata is. */
export const textsOf = (value: JsonValue, field: string): JsonObject =>
  Object.fromEntries(Object.entries(objectIn(value, field)).map(([name, one]) => [name, textOf(one)]));

/** Names and values in a list, as one object. */
export const pairsOf = (value: JsonValue, name: string, content: string, field: string): JsonObject =>
  Object.fromEntries(
    readEach(value, { [name]: 'name', [content]: 'value' }, field).map((one) => [
      textOf(one['name']),
      textOf(one['value']),
    ]),
  );

/** Returns a time, or seconds since the epoch, in the form that ours have. Another text is left for the checks of ours. */
export const timeOf = (value: JsonValue): string => {
  const text = textOf(value);
  const at = new Date(/^[\d.]+$/.test(text) ? Number(text) * 1000 : text);
  return Number.isNaN(at.getTime()) ? text : at.toISOString();
};

const FOREIGN_LINKS =
  /\{\{\{\s*RESEND_UNSUBSCRIBE_URL\s*\}\}\}|%(?:tag_|mailing_list_)?unsubscribe_url%|<%asm_(?:group_unsubscribe|global_unsubscribe|preferences)_raw_url%>|\{\{\{\s*pm:unsubscribe(?:_url)?\s*\}\}\}/gi;

/** Puts our placeholder of the unsubscribe link in the place of theirs, and decodes the name of the sender. */
export function finished(out: JsonObject): JsonObject {
  for (const name of ['html', 'text']) {
    const text = out[name];
    if (typeof text === 'string') out[name] = text.replaceAll(FOREIGN_LINKS, '{{unsubscribe_url}}');
  }
  if (typeof out['from'] === 'string') out['from'] = decodeWords(out['from']);
  return out;
}

/** Each is looked for in all texts. */
const MOST_WORDS = 200;

/** An entry of a bulk send, with the words that are replaced in the texts of all. */
export interface Entry {
  out: JsonObject;
  words?: ReadonlyMap<string, string>;
}

/** Reads the entries of a list. `read` is told the place of each, such as `[0]`. */
export const entriesIn = (list: JsonValue, field: string, read: (one: JsonValue, at: string) => JsonObject): Entry[] =>
  listAt(list, field).map((one, index) => ({ out: read(one, `[${String(index)}]`) }));

/** Makes a bulk send. A faulty entry is left out, or all are refused. */
export function bulk(shared: JsonObject, entries: readonly Entry[], onError: 'skip' | 'abort' = 'abort'): JsonObject {
  substitute(shared, entries);
  return { ...shared, recipients: entries.map(({ out }) => out), on_error: onError, allow_duplicates: true };
}

/** Makes literal words into variables: texts of `shared` get expressions, and entries the values. A word without a value stays as it is. */
function substitute(shared: JsonObject, entries: readonly Entry[]): void {
  const headers = isObject(shared['headers'] ?? null) ? (shared['headers'] as JsonObject) : {};
  const places = [
    ...['subject', 'html', 'text'].map((name) => [shared, name] as const),
    ...Object.keys(headers).map((name) => [headers, name] as const),
  ];
  const values = ['variables', 'metadata'].map((name) => [name, textOf(shared[name])] as const);
  const all = [...new Set(entries.flatMap((entry) => [...(entry.words?.keys() ?? [])]))].filter((word) => word !== '');
  if (all.length > MOST_WORDS)
    throw new Problem('too_many_items', `More than ${String(MOST_WORDS)} different words are to be replaced.`);
  // The longest first: one word may begin another.
  all.sort((a, b) => b.length - a.length);
  const inside = (text: string): string[] => all.filter((word) => text.includes(word));
  const words = inside(places.map(([of, name]) => textOf(of[name])).join('\0'));
  for (const [of, name] of words.length === 0 ? [] : places) {
    const text = of[name];
    if (typeof text === 'string') of[name] = expressed(text, words);
  }
  const changed = values.filter(([, text]) => inside(text).length > 0);
  const pattern = patternOf(all);
  for (const { out, words: own } of entries) {
    const valueOf = (word: string): string => own?.get(word) ?? word;
    for (const [name] of changed) {
      const ofAll = replaced(shared[name] ?? null, (text) => text.replaceAll(pattern, valueOf));
      out[name] = { ...(ofAll as JsonObject), ...(out[name] as JsonObject | undefined) };
    }
    const numbered = words.map((word, n): [string, string] => [`w${String(n)}`, valueOf(word)]);
    if (numbered.length > 0) mergeInto(out, 'variables', Object.fromEntries(numbered));
  }
}

function replaced(value: JsonValue, change: (text: string) => string): JsonValue {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((one) => replaced(one, change));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, replaced(one, change)]));
}

const patternOf = (words: readonly string[]): RegExp =>
  new RegExp(words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|'), 'g');

function expressed(text: string, words: readonly string[]): string {
  const asItIs = (piece: string): string => (/[{\\]/.test(piece) ? `{% raw %}${piece}{% endraw %}` : piece);
  let from = 0;
  let out = '';
  for (const found of text.matchAll(patternOf(words))) {
    out += `${asItIs(text.slice(from, found.index))}{{{ w${String(words.indexOf(found[0]))} }}}`;
    from = found.index + found[0].length;
  }
  return out + asItIs(text.slice(from));
}

export const answer = (body: object, status = 200): Reply => ({ status, body });

/** Returns what words members of ours as a service does. `entries`: its name for `recipients`; `otherwise` makes those not in `names`. */
export const wordsOf =
  (entries: string, names: Readonly<Record<string, string>>, otherwise = (ours: string): string => ours) =>
  (text: string): string =>
    text.replaceAll(
      /(^(?!`)|`)(?:recipients(\[\d+\])(\.?))?([a-z_]*)(?=[`.[]|$)/g,
      (_, before: string, index: string | undefined, dot = '', name = '') =>
        `${before}${index === undefined ? '' : `${entries}${index}${String(dot)}`}${names[String(name)] ?? otherwise(String(name))}`,
    );

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
