/** Reads the bodies of other services: members by their tables, and the forms that several of them have. Pure. */
import { Problem } from '../../base/problem.ts';
import type { JsonObject, JsonValue } from '../json.ts';
import type { Reply } from '../route.ts';
import type { Members } from './foreign.ts';

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

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

/** Returns a value as a text. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? ''));

export const wrong = (field: string, why: string): Problem =>
  new Problem('invalid_field', `\`${field}\` ${why}.`, { field });

export function listAt(value: JsonValue, field: string): JsonValue[] {
  if (Array.isArray(value)) return value;
  throw wrong(field, 'must be a list');
}

/** Reads each entry of a list by the table. */
export const readEach = (value: JsonValue, members: Members, field: string): JsonObject[] =>
  listAt(value, field).map((one, index) => readMembers(one, members, `${field}[${String(index)}]`));

/** A member that only says whether something is done that is not done here. */
export const never =
  (why: string) =>
  (value: JsonValue, _: JsonObject, field: string): void => {
    const isOn = isObject(value) ? value['enable'] === true : !/^(?:false|no|0|none)$/i.test(textOf(value));
    if (isOn) throw wrong(field, `is not done here: ${why}`);
  };

/** Splits addresses at the commas that are not in quotes, brackets or comments. */
export function splitAddresses(text: string): string[] {
  const found: string[] = [];
  let from = 0;
  let isQuoted = false;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '\\') at++;
    else if (char === '"') isQuoted = !isQuoted;
    else if (isQuoted) continue;
    else if (char === '<' || char === '(') depth++;
    else if (char === '>' || char === ')') depth--;
    else if (char === ',' && depth <= 0) {
      found.push(text.slice(from, at));
      from = at + 1;
    }
  }
  return [...found, text.slice(from)].map((one) => one.trim()).filter((one) => one !== '');
}

/** Returns addresses that are one text or several. */
export const addressesOf = (value: JsonValue): JsonValue[] =>
  [value].flat().flatMap((one): JsonValue[] => (typeof one === 'string' ? splitAddresses(one) : [one]));

/** Puts the first of several addressees into `to`, and the others into `cc`: all of them see one another. */
export function addressTo(out: JsonObject, to: JsonValue[]): void {
  const [first, ...others] = to;
  if (first !== undefined) out['to'] = first;
  addTo(out, 'cc', others);
}

/** A member with addresses. */
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

/** Adds values to a list that may be there. */
export function addTo(out: JsonObject, name: string, values: readonly JsonValue[]): void {
  if (values.length > 0) out[name] = [...((out[name] as JsonValue[] | undefined) ?? []), ...values];
}

/** Returns an object whose values are texts: metadata is. */
export const textsOf = (value: JsonValue, field: string): JsonObject => {
  if (!isObject(value)) throw wrong(field, 'must be an object');
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, textOf(one)]));
};

/** Names and values in a list, as one object. */
export const pairsOf = (value: JsonValue, name: string, content: string, field: string): JsonObject =>
  Object.fromEntries(
    readEach(value, { [name]: 'name', [content]: 'value' }, field).map((one) => [
      textOf(one['name']),
      textOf(one['value']),
    ]),
  );

/** Returns a time in the form that ours have. Another text is left for the checks of ours. */
export const timeOf = (value: JsonValue, unit: 1 | 1000): string => {
  const at = typeof value === 'number' ? new Date(value * unit) : new Date(textOf(value));
  return Number.isNaN(at.getTime()) ? textOf(value) : at.toISOString();
};

const FOREIGN_LINKS =
  /\{\{\{\s*RESEND_UNSUBSCRIBE_URL\s*\}\}\}|%(?:tag_|mailing_list_)?unsubscribe_url%|<%asm_(?:group_unsubscribe|global_unsubscribe|preferences)_raw_url%>|\{\{\{\s*pm:unsubscribe(?:_url)?\s*\}\}\}/gi;

/** Puts our placeholder of the unsubscribe link in the place of theirs. */
export function withLinks(out: JsonObject): JsonObject {
  for (const name of ['html', 'text']) {
    const text = out[name];
    if (typeof text === 'string' && FOREIGN_LINKS.test(text))
      out[name] = text.replaceAll(FOREIGN_LINKS, '{{unsubscribe_url}}');
    FOREIGN_LINKS.lastIndex = 0;
  }
  return out;
}

/** Each is looked for in all texts. */
const MOST_WORDS = 200;

/**
 * Makes words that are replaced literally into variables: the texts of `shared` get an expression for each word, and each entry gets
 * the values. A word that an entry has no value for stays as it is.
 */
export function substitute(
  shared: JsonObject,
  entries: readonly { out: JsonObject; words: ReadonlyMap<string, string> }[],
): void {
  const headers = isObject(shared['headers'] ?? null) ? (shared['headers'] as JsonObject) : {};
  const places = [
    ...['subject', 'html', 'text'].map((name) => [shared, name] as const),
    ...Object.keys(headers).map((name) => [headers, name] as const),
  ];
  const texts = places.map(([of, name]) => textOf(of[name])).join('\0');
  const all = [...new Set(entries.flatMap((entry) => [...entry.words.keys()]))];
  if (all.length > MOST_WORDS)
    throw new Problem('too_many_items', `More than ${String(MOST_WORDS)} different words are to be replaced.`);
  const words = all.filter((word) => word !== '' && texts.includes(word));
  if (words.length === 0) return;
  // The longest first: one word may begin another.
  words.sort((a, b) => b.length - a.length);
  const pattern = new RegExp(words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|'), 'g');
  for (const [of, name] of places) {
    const text = of[name];
    if (typeof text === 'string') of[name] = expressed(text, pattern, words);
  }
  for (const { out, words: own } of entries)
    out['variables'] = {
      ...(out['variables'] as JsonObject | undefined),
      ...Object.fromEntries(words.map((word, n) => [`w${String(n)}`, own.get(word) ?? word])),
    };
}

/** Returns a copy of a value in whose texts the words are replaced. */
export function replaced(value: JsonValue, words: ReadonlyMap<string, string>): JsonValue {
  if (typeof value === 'string')
    return value.includes('%') ? value.replaceAll(/%[^%\s]+%/g, (word) => words.get(word) ?? word) : value;
  if (Array.isArray(value)) return value.map((one) => replaced(one, words));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, replaced(one, words)]));
}

function expressed(text: string, pattern: RegExp, words: readonly string[]): string {
  const asItIs = (piece: string): string => (/[{\\]/.test(piece) ? `{% raw %}${piece}{% endraw %}` : piece);
  let from = 0;
  let out = '';
  for (const found of text.matchAll(pattern)) {
    out += `${asItIs(text.slice(from, found.index))}{{{ w${String(words.indexOf(found[0]))} }}}`;
    from = found.index + found[0].length;
  }
  return out + asItIs(text.slice(from));
}

export const answer = (body: object, status = 200): Reply => ({ status, body });

/** The address and the name of a mailbox. */
export const mailbox = (text: unknown): object => {
  const [, name = '', address = String(text)] = /^(.*?)\s*<([^<>]+)>$/.exec(String(text)) ?? [];
  return { Email: address, Name: name.replaceAll(/^"|"$/g, '') };
};

/** Returns what writes the members of ours that a text names in the words of a service. `entries`: its name for `recipients`. */
export const wordsOf =
  (entries: string, names: Readonly<Record<string, string>>) =>
  (text: string): string =>
    text.replaceAll(
      /(^(?!`)|`)(?:recipients(\[\d+\])(\.?))?([a-z_]*)(?=[`.[]|$)/g,
      (_, before: string, index: string | undefined, dot = '', name = '') =>
        `${before}${index === undefined ? '' : `${entries}${index}${String(dot)}`}${names[String(name)] ?? String(name)}`,
    );
