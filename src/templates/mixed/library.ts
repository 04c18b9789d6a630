/** Filters and helpers. Standard filters are those of LiquidJS, but for those that evaluate an expression, which could come from data. */
import { escapeHtml } from '../../base/html.ts';
import { Context, Liquid, toValueSync } from 'liquidjs';
import { date, formatDate, money } from './dates.ts';
import { failed } from './fault.ts';
import { words } from '../../base/words.ts';
import {
  compare,
  escapedOnce,
  Float,
  isEqual,
  isObject,
  isTrue,
  joined,
  jsonOf,
  lengthOf,
  memberOf,
  MOST_OUTPUT,
  Nothing,
  plain,
  Safe,
  textOf,
} from './value.ts';

/** The render that a filter or helper is part of. */
export interface Surroundings {
  part: 'html' | 'text' | 'subject' | 'header' | 'address';
  /** BCP 47, for dates and numbers. */
  locale: string;
  /** An IANA name, such as `Europe/Vienna`. */
  timezone: string;
  /** The time of `now`, in ms since the epoch: the same for all renders of a message. */
  now: number;
}

export type Filter = (
  around: Surroundings,
  value: unknown,
  args: readonly unknown[],
  named: ReadonlyMap<string, unknown>,
) => unknown;

export type Helper = (around: Surroundings, args: readonly unknown[], named: ReadonlyMap<string, unknown>) => unknown;

export type Named<Kind> = readonly [name: string, run: Kind];

/** Returns a value as a number: 0 if it is not one; of a text the leading digits, or all of it if it is a fraction. */
function asNumber(value: unknown): number {
  const given = plain(value);
  if (typeof given === 'number') return given;
  if (typeof given !== 'string') return 0;
  const text = given.trim();
  return FRACTION.test(text) ? Number(text) : Number.parseInt(text, 10) || 0;
}

const FRACTION = /^-?\d+\.\d+$/;

const isFraction = (value: unknown): boolean => {
  const given = plain(value);
  return (
    value instanceof Float ||
    (typeof given === 'number' ? !Number.isInteger(given) : typeof given === 'string' && FRACTION.test(given.trim()))
  );
};

/** Rounds away the errors of binary fractions: 10.1 - 2.2 is 7.9. */
const tidy = (value: number): number => (Number.isInteger(value) ? value : Number(value.toPrecision(15)));

const kept = (value: number, fraction: boolean): number | Float =>
  fraction && Number.isInteger(value) ? new Float(value) : value;

/** Makes a filter of two numbers; the result is a fraction if one of them is. */
const between = (name: string, run: (a: number, b: number) => number): Named<Filter> => [
  name,
  (_, value, [by]) => kept(tidy(run(asNumber(value), asNumber(by))), isFraction(value) || isFraction(by)),
];

const oneOf = (name: string, first: (a: number, b: number) => boolean): Named<Filter> => [
  name,
  (_, value, [other]) => {
    const one = first(asNumber(value), asNumber(other)) ? value : other;
    return kept(asNumber(one), isFraction(one));
  },
];

function notZero(by: number): number {
  if (by === 0) throw failed('a number is divided by 0');
  return by;
}

/** Rounds to `digits`; fractions of digits are ignored. */
function rounded(value: number, digits: number): number {
  const scaled = (from: number, by: number): number => {
    const [mantissa = '0', power = '0'] = String(from).split('e');
    return Number(`${mantissa}e${String(Number(power) + by)}`);
  };
  const up = scaled(Math.abs(value), digits);
  if (up > Number.MAX_SAFE_INTEGER) return value;
  const result = scaled(Math.round(up), -digits);
  return value < 0 ? 0 - result : result;
}

const sumOf = (values: readonly unknown[]): number | Float =>
  kept(tidy(values.reduce<number>((sum, one) => sum + asNumber(one), 0)), values.some(isFraction));

const numberFilters: readonly Named<Filter>[] = [
  between('plus', (a, b) => a + b),
  between('minus', (a, b) => a - b),
  between('times', (a, b) => a * b),
  between('modulo', (a, b) => a - notZero(b) * Math.floor(a / b)),
  [
    'divided_by',
    (_, value, [by]) => {
      const [a, b] = [asNumber(value), notZero(asNumber(by))];
      return isFraction(value) || isFraction(by) ? kept(a / b, true) : Math.floor(a / b);
    },
  ],
  oneOf('at_least', (a, b) => a >= b),
  oneOf('at_most', (a, b) => a <= b),
  ['abs', (_, value) => kept(Math.abs(asNumber(value)), isFraction(value))],
  ['ceil', (_, value) => Math.ceil(asNumber(value))],
  ['floor', (_, value) => Math.floor(asNumber(value))],
  [
    'round',
    (_, value, [digits]) => {
      const places = Math.max(-300, Math.min(300, Math.trunc(asNumber(digits))));
      return kept(rounded(asNumber(value), places), isFraction(value) && places > 0);
    },
  ],
];

/** Liquid's list filters. Any other value counts as a list of one, nested lists as one list. Each walks its list once (sorting: n log n). */

/** Flattens nested lists, as deep as JSON may be. */
const flat = (list: readonly unknown[]): unknown[] =>
  list.some((one) => Array.isArray(one)) ? list.flatMap((one) => (Array.isArray(one) ? flat(one) : [one])) : [...list];

function itemsOf(given: unknown): unknown[] {
  const value = plain(given);
  if (value === null || value === undefined) return [];
  return Array.isArray(value) ? flat(value) : [given];
}

/** Thrown for an element without members: then the filter returns nothing. */
class NoMembers extends Error {}

/** Returns the member that a filter compares. A text has the texts in it as members; asking a whole number for one is a mistake. */
function memberOfItem(item: unknown, name: unknown): unknown {
  const value = plain(item);
  if (isObject(value)) return name === null || name === undefined ? undefined : memberAt(value, textOf(name));
  const member = textOf(name);
  if (typeof value === 'string') return value.includes(member) ? member : undefined;
  if (Number.isInteger(value))
    throw failed(`'${member.slice(0, 100)}' cannot be read from the number ${textOf(value)}`);
  throw new NoMembers();
}

/** Data has 10 levels, and a longer path would take time for each element. */
const MOST_STEPS = 12;

/** Returns a member by its name, or by a path such as `a.b` if no member has that name. */
const memberAt = (value: Record<string, unknown>, path: string): unknown =>
  !path.includes('.') || Object.hasOwn(value, path)
    ? memberOf(value, path)
    : path.split('.', MOST_STEPS).reduce<unknown>((found, step) => memberOf(found, step), value);

/** Makes a filter whose test is true for elements with the given value of a member, or with a true one if no value is given. */
const selecting = (
  name: string,
  run: (items: unknown[], test: (item: unknown) => boolean) => unknown,
): Named<Filter> => [
  name,
  (_, value, [member, wanted]) => {
    const test = (item: unknown): boolean => {
      const found = memberOfItem(item, member);
      return wanted === null || wanted === undefined ? isTrue(found, 'liquid') : isEqual(found, wanted);
    };
    try {
      return run(itemsOf(value), test);
    } catch (error) {
      if (error instanceof NoMembers) return undefined;
      throw error;
    }
  },
];

/** Returns the elements with the key that they are compared by: the element itself or a member. */
const keyed = (value: unknown, member: unknown): { item: unknown; key: unknown }[] =>
  itemsOf(value).map((item) => ({
    item,
    key: member === null || member === undefined ? item : memberOr(item, member),
  }));

function memberOr(item: unknown, name: unknown): unknown {
  try {
    return memberOfItem(item, name);
  } catch (error) {
    if (error instanceof NoMembers) return undefined;
    throw error;
  }
}

/** Sorts by key; elements without one come last. */
function sorted(value: unknown, member: unknown, order: (a: unknown, b: unknown) => number): unknown[] {
  const isAbsent = (key: unknown): boolean => key === null || key === undefined;
  return keyed(value, member)
    .sort((a, b) =>
      isAbsent(a.key) || isAbsent(b.key) ? Number(isAbsent(a.key)) - Number(isAbsent(b.key)) : order(a.key, b.key),
    )
    .map(({ item }) => item);
}

function inOrder(a: unknown, b: unknown): number {
  const [left, right] = [plain(a), plain(b)];
  if (typeof left !== typeof right || (typeof left !== 'number' && typeof left !== 'string'))
    throw failed(`the filter 'sort' has values that cannot be compared`);
  return compare(left, '<', right) ? -1 : Number(compare(left, '>', right));
}

/** Returns a key that differs for different values: texts from equal-looking numbers, lists and objects by their content. */
function identity(value: unknown): string {
  const inner = plain(value) ?? null;
  return typeof inner === 'object' ? jsonOf(inner) : `${typeof inner} ${textOf(inner)}`;
}

function unique(value: unknown, member: unknown): unknown[] {
  const seen = new Set<string>();
  return keyed(value, member).flatMap(({ item, key }) => {
    const id = identity(key);
    if (seen.has(id)) return [];
    seen.add(id);
    return [item];
  });
}

/** Returns the first or last element; a text and a number have none. */
const endOf = (value: unknown, end: 'first' | 'last'): unknown =>
  Array.isArray(plain(value)) || isObject(plain(value)) ? memberOf(value, end) : undefined;

const listFilters: readonly Named<Filter>[] = [
  selecting('where', (items, test) => items.filter(test)),
  selecting('reject', (items, test) => items.filter((item) => !test(item))),
  selecting('find', (items, test) => items.find(test)),
  selecting('find_index', (items, test) => {
    const found = items.findIndex(test);
    return found < 0 ? undefined : found;
  }),
  selecting('has', (items, test) => items.some(test)),
  ['map', (_, value, [member]) => itemsOf(value).map((item) => memberOr(item, member))],
  ['sum', (_, value, [member]) => sumOf(keyed(value, member).map(({ key }) => key))],
  [
    'compact',
    (_, value, [member]) =>
      keyed(value, member)
        .filter(({ key }) => key !== null && key !== undefined)
        .map(({ item }) => item),
  ],
  ['uniq', (_, value, [member]) => unique(value, member)],
  ['sort', (_, value, [member]) => sorted(value, member, inOrder)],
  [
    'sort_natural',
    (_, value, [member]) => sorted(value, member, (a, b) => inOrder(textOf(a).toLowerCase(), textOf(b).toLowerCase())),
  ],
  ['reverse', (_, value) => itemsOf(value).reverse()],
  ['first', (_, value) => endOf(value, 'first')],
  ['last', (_, value) => endOf(value, 'last')],
  ['join', (_, value, [glue]) => joined(itemsOf(value), glue === undefined ? ' ' : textOf(glue))],
  [
    'concat',
    (_, value, [other]) => {
      if (!Array.isArray(plain(other))) throw failed("the filter 'concat' needs a list");
      return [...itemsOf(value), ...itemsOf(other)];
    },
  ],
  ['size', (_, value) => memberOf(value, 'size') ?? 0],
];

/** Returns a whole number, also one given as a text. Throws for any other value. */
function whole(value: unknown, filter: string): number {
  const given = plain(value);
  if (typeof given === 'number' && Number.isInteger(given) && !(value instanceof Float)) return given;
  if (typeof given === 'string' && /^\s*-?\d{1,15}\s*$/.test(given)) return Number(given);
  throw failed(`the filter '${filter}' needs a whole number`);
}

/** Replaces `pattern`, a plain text. An empty one is found between all characters and at both ends. */
function replaced(text: string, pattern: string, by: string): string {
  const parts = pattern === '' ? ['', ...Array.from(text), ''] : text.split(pattern);
  const length = text.length + (parts.length - 1) * (by.length - pattern.length);
  if (length > MOST_OUTPUT) throw failed(`a text grows longer than ${String(MOST_OUTPUT)} characters`);
  return parts.join(by);
}

/** Splits a text: by words for a blank; empty parts at the end are dropped. */
function split(text: string, by: string): string[] {
  if (text === '') return [];
  if (by === '') return Array.from(text);
  const parts = by === ' ' ? text.trim().split(/\s+/) : text.split(by);
  while (parts.at(-1) === '') parts.pop();
  return parts;
}

function slice(value: unknown, from: number, length: number): unknown {
  const inner = plain(value);
  const parts = Array.isArray(inner) ? inner : Array.from(textOf(inner));
  const start = from < 0 ? parts.length + from : from;
  const part = start < 0 || length < 0 ? [] : parts.slice(start, start + length);
  return Array.isArray(inner) ? part : joined(part, '');
}

/** Counts whole characters, so that none is cut in half. */
function truncated(text: string, most: number, end: string): string {
  if (text.length <= most) return text;
  const first = Array.from(text.slice(0, 2 * Math.max(0, most) + 2));
  return first.length <= most ? text : first.slice(0, Math.max(0, most - lengthOf(end))).join('') + end;
}

function truncatedWords(text: string, most: number, end: string): string {
  const words = text.trim().split(/\s+/);
  const keep = Math.max(1, most);
  return words.length <= keep ? text : words.slice(0, keep).join(' ') + end;
}

/** Returns the text that marks a cut; empty if an unknown variable is given. */
const ending = (args: readonly unknown[]): string => (args.length > 1 ? textOf(args[1]) : '...');

const first = (args: readonly unknown[], fallback: number, filter: string): number =>
  args.length === 0 ? fallback : whole(args[0], filter);

const textFilters: readonly Named<Filter>[] = [
  ['replace', (_, value, [pattern, by]) => replaced(textOf(value), textOf(pattern), textOf(by))],
  ['split', (_, value, [by]) => split(textOf(value), textOf(by))],
  [
    'slice',
    (_, value, [from, length]) =>
      slice(value, whole(from, 'slice'), length === null || length === undefined ? 1 : whole(length, 'slice')),
  ],
  ['truncate', (_, value, args) => truncated(textOf(value), first(args, 50, 'truncate'), ending(args))],
  ['truncatewords', (_, value, args) => truncatedWords(textOf(value), first(args, 15, 'truncatewords'), ending(args))],
];

/** Liquid's standard text filters that LiquidJS does. */
const standard = [
  ...words('append array_to_sentence_string base64_decode base64_encode capitalize downcase lstrip number_of_words'),
  ...words('prepend remove remove_first remove_last replace_first replace_last rstrip slugify squish strip'),
  ...words('strip_newlines upcase url_decode'),
];

/** Filters that only change white space: safe text stays safe. */
const keepsSafe: ReadonlySet<string> = new Set(['strip', 'lstrip', 'rstrip', 'strip_newlines', 'squish']);

const liquid = new Liquid();
const context = new Context({}, liquid.options, { sync: true });

type Handler = (this: unknown, value: unknown, ...args: unknown[]) => unknown;

function ofLiquid(name: string, value: unknown, args: readonly unknown[]): unknown {
  const found = liquid.filters[name] as Handler | { handler: Handler } | undefined;
  const handler = typeof found === 'object' ? found.handler : found;
  if (handler === undefined) throw new Error(`LiquidJS has no filter ${name}`);
  try {
    return toValueSync(handler.call({ context, liquid, token: {} }, value, ...args) as Generator);
  } catch (error) {
    throw failed(`the filter '${name}' fails: ${error instanceof Error ? error.message : 'unknown'}`);
  }
}

const asText = (value: unknown): unknown => (typeof plain(value) === 'object' ? textOf(value) : plain(value));

const standardFilters = standard.map((name): [string, Filter] => [
  name,
  (_, value, args) => {
    const result = ofLiquid(name, name === 'array_to_sentence_string' ? plain(value) : textOf(value), args.map(asText));
    return value instanceof Safe && keepsSafe.has(name) && typeof result === 'string' ? new Safe(result) : result;
  },
]);

/** Escapes the value for html, so that the result is safe as a whole. */
const safeText = ({ part }: Surroundings, value: unknown): string =>
  value instanceof Safe || part !== 'html' ? textOf(value) : escapeHtml(textOf(value));

const EMPTY = new Nothing('empty');

export const filters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ...standardFilters,
  ...numberFilters,
  ...listFilters,
  ...textFilters,
  ['raw', (_, value) => new Safe(textOf(value))],
  ['escape', (_, value) => (value instanceof Safe ? value : new Safe(escapeHtml(textOf(value))))],
  ['escape_once', (_, value) => (value instanceof Safe ? value : new Safe(escapedOnce(textOf(value))))],
  ['newline_to_br', (around, value) => new Safe(safeText(around, value).replace(/\r?\n/g, '<br />\n'))],
  ['strip_html', (_, value) => withoutTags(textOf(value))],
  [
    'json',
    // In html `<` and `&` are written so that they are harmless within a script, as in `{{{ order | json }}}` for JSON-LD.
    ({ part }, value) =>
      part === 'html'
        ? jsonOf(value).replace(/[<>&]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`)
        : jsonOf(value),
  ],
  [
    'default',
    (_, value, [fallback], named) => {
      const given = plain(value);
      if (given === false) return named.get('allow_false') === true ? given : fallback;
      const empty = given === null || given === undefined || isEqual(given, EMPTY);
      return empty ? fallback : value;
    },
  ],
  [
    'url_encode',
    (_, value) =>
      encodeURIComponent(textOf(value).toWellFormed())
        .replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
        .replaceAll('%20', '+'),
  ],
  [
    'base64_url_safe_encode',
    (_, value) => Buffer.from(textOf(value)).toString('base64').replaceAll('+', '-').replaceAll('/', '_'),
  ],
  ['base64_url_safe_decode', (_, value) => Buffer.from(textOf(value), 'base64url').toString()],
  ['date', (around, value, [format, zone]) => date(around, value, format, zone)],
  ['money', (around, value, [currency]) => money(around, value, plain(currency))],
]);

/** Removes tags, in time linear in the text, even if tags are left open. */
function withoutTags(text: string): string {
  const out: string[] = [];
  const noEnd = new Set<string>();
  let at = 0;
  for (;;) {
    const open = text.indexOf('<', at);
    if (open < 0) break;
    out.push(text.slice(at, open));
    const head = text.slice(open, open + 8).toLowerCase();
    const end = head.startsWith('<!--')
      ? '-->'
      : head.startsWith('<script')
        ? '</script>'
        : head.startsWith('<style')
          ? '</style>'
          : '>';
    const close = noEnd.has(end) ? -1 : indexOfAnyCase(text, end, open);
    if (close >= 0) {
      at = close + end.length;
      continue;
    }
    noEnd.add(end);
    const plainEnd = end === '>' ? -1 : text.indexOf('>', open);
    if (plainEnd < 0) {
      at = open;
      break;
    }
    at = plainEnd + 1;
  }
  out.push(text.slice(at));
  return out.join('');
}

function indexOfAnyCase(text: string, mark: string, from: number): number {
  if (!/[a-z]/.test(mark)) return text.indexOf(mark, from);
  const pattern = new RegExp(mark, 'gi');
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? -1;
}

/** The filters that take values after their input, by the least and the most number of values. */
const arities: readonly (readonly [least: number, most: number, filters: readonly string[]])[] = [
  [0, 1, words('array_to_sentence_string compact default join money number_of_words round sort sort_natural sum uniq')],
  [0, 2, words('slugify truncate truncatewords')],
  [1, 1, words('append at_least at_most concat divided_by map minus modulo plus prepend times split')],
  [1, 1, words('remove remove_first remove_last')],
  [1, 2, words('date find find_index has reject replace replace_first slice where')],
  [2, 2, words('replace_last')],
];

export function arityOf(filter: string): readonly [least: number, most: number] {
  const [least, most] = arities.find(([, , names]) => names.includes(filter)) ?? [0, 0];
  return [least, most];
}

const two = (name: string, test: (a: unknown, b: unknown) => boolean): [string, Helper] => [
  name,
  (_, args) => {
    // An `undefined` value is a missing variable; too few values are a mistake in the template.
    if (args.length < 2) throw failed(`the helper '${name}' needs two values`);
    return test(args[0], args[1]);
  },
];

const comparing = (name: string, operator: string): [string, Helper] => two(name, (a, b) => compare(a, operator, b));

/** Compares as SendGrid does: texts with numbers count as numbers. */
const comparingLoosely = (name: string, operator: string): [string, Helper] =>
  two(name, (a, b) => compare(asNumber(a), operator, asNumber(b)));

export const helpers: ReadonlyMap<string, Helper> = new Map<string, Helper>([
  comparing('eq', '=='),
  comparing('ne', '!='),
  comparing('gt', '>'),
  comparing('gte', '>='),
  comparing('lt', '<'),
  comparing('lte', '<='),
  comparing('equal', '=='),
  comparing('equals', '=='),
  comparing('notEquals', '!='),
  comparingLoosely('greaterThan', '>'),
  comparingLoosely('lessThan', '<'),
  ['and', (_, args) => args.every((one) => isTrue(one, 'handlebars'))],
  ['or', (_, args) => args.some((one) => isTrue(one, 'handlebars'))],
  ['not', (_, [one]) => !isTrue(one, 'handlebars')],
  ['default', (_, [value, fallback]) => (isTrue(value, 'handlebars') || plain(value) === 0 ? value : fallback)],
  ['length', (_, [value]) => memberOf(value, 'size') ?? 0],
  ['lookup', (_, [value, key]) => memberOf(value, textOf(key))],
  [
    'insert',
    (_, [value, fallback]) =>
      isTrue(value, 'handlebars') || plain(value) === 0 ? value : textOf(fallback).replace(/^default=/, ''),
  ],
  ['formatDate', (around, [value, format, zone]) => formatDate(around, plain(value), textOf(format), plain(zone))],
]);
