/**
 * Filters and helpers. Liquid's standard filters are those of LiquidJS, called with values and never with source text: filters
 * that evaluate an expression are left out, since it could come from data.
 */
import { escapeHtml } from '../../base/html.ts';
import { Context, Liquid, toValueSync } from 'liquidjs';
import { date, formatDate, money } from './dates.ts';
import { failed } from './fault.ts';
import type { Filter, Helper, Surroundings } from './filter.ts';
import { listFilters } from './list-filters.ts';
import { asNumber, numberFilters } from './number-filters.ts';
import { textFilters } from './text-filters.ts';
import { compare, escapedOnce, isObject, isTrue, jsonOf, keysOf, memberOf, plain, Safe, textOf } from './value.ts';

const words = (text: string): string[] => text.split(' ');

/** Liquid's standard text filters that LiquidJS does. */
const standard = [
  ...words('append array_to_sentence_string base64_decode base64_encode capitalize downcase lstrip number_of_words'),
  ...words('prepend remove_first remove_last replace_first replace_last rstrip slugify squish strip strip_newlines'),
  ...words('upcase url_decode'),
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

/** Returns an object as text, and any other value unchanged. */
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
      const empty =
        given === null ||
        given === undefined ||
        given === '' ||
        (Array.isArray(given) && given.length === 0) ||
        (isObject(given) && keysOf(given).length === 0);
      return empty ? fallback : value;
    },
  ],
  [
    'url_encode',
    (_, value) =>
      encodeURIComponent(wellFormed(textOf(value)))
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

/** Replaces half surrogate pairs, which cannot be encoded. */
const wellFormed = (text: string): string =>
  text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd');

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
