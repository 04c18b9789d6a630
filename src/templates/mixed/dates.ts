/** Writes dates and money in the template's locale and time zone. */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../base/time.ts';
import { dateFormat, momentIn, numberFormat, wallClock, zoneNamed } from '../../base/zones.ts';
import { failed } from './fault.ts';
import type { Surroundings } from './library.ts';
import { plain, textOf } from './value.ts';

/** An amount as a text, with a decimal point. All its digits count, also those that a number could not hold. */
const AMOUNT = /^[+-]?\d{1,40}(?:\.\d{1,40})?$/;

/** Writes an amount with two digits, or those of its currency; a missing one is empty. Throws for any other value. */
export function money({ locale }: Surroundings, given: unknown, currency: unknown): string {
  const value = plain(given);
  if (value === null || value === undefined) return '';
  const amount = typeof value === 'string' ? value.trim() : value;
  if (!(typeof amount === 'string' ? AMOUNT.test(amount) : Number.isFinite(amount)))
    throw failed(`'${textOf(given).slice(0, 20)}' is not an amount such as 12.50`);
  const two = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  if (typeof currency !== 'string') return numberFormat(locale, two).format(amount as `${number}`);
  try {
    return numberFormat(locale, { style: 'currency', currency }).format(amount as `${number}`);
  } catch {
    throw failed(`'${currency.slice(0, 20)}' is not a currency code such as 'EUR'`);
  }
}

/** Liquid's `date`, in a zone if one is given: a value that is not a date, or has no format, is returned unchanged. */
export function date(around: Surroundings, given: unknown, format: unknown, zone: unknown): unknown {
  const value = plain(given);
  const pattern = textOf(format);
  if (value === null || value === undefined || value === '' || pattern === '') return given;
  const when = value === 'now' || value === 'today' ? new Date(around.now) : dateOf(around, value);
  if (when === null) return given;
  const name = textOf(zone);
  if (name !== '' && zoneNamed(name) === null) throw noZone(name);
  return strftime(when.getTime(), pattern, name === '' ? around.timezone : name, around.locale);
}

/** The marks of `formatDate` as directives of strftime. */
const marks: Readonly<Record<string, string>> = {
  ...{ YYYY: '%Y', YY: '%y', MMMM: '%B', MMM: '%b', MM: '%m', M: '%-m', DD: '%d', D: '%-d', dddd: '%A', ddd: '%a' },
  ...{ HH: '%H', H: '%-H', hh: '%I', h: '%-I', mm: '%M', m: '%-M', ss: '%S', s: '%-S', A: '%p', a: '%P' },
};

/** Writes a date in formats such as `YYYY-MM-DD HH:mm:ss`, in the zone or at the offset given (`-0800`), or in the zone of the template. */
export function formatDate(around: Surroundings, value: unknown, format: string, zone: unknown): string {
  const moment = value === 'now' ? new Date(around.now) : dateOf(around, value);
  if (moment === null) return '';
  const given = typeof zone === 'string' && zone !== '' ? zone : around.timezone;
  const offset = offsetOf(given);
  if (offset === null && zoneNamed(given) === null) throw noZone(given);
  // At an offset clocks show what those of UTC show so much earlier or later.
  const fields = fieldsOf(moment.getTime() + (offset ?? 0), offset === null ? given : 'UTC', around.locale);
  return checkFormat(format).replace(
    /\[([^\]]*)\]|YYYY|YY|MMMM|MMM|MM|M|DD|D|dddd|ddd|HH|H|hh|h|mm|m|ss|s|A|a/g,
    (mark, literal: string | undefined) => literal ?? written(fields, marks[mark] ?? mark),
  );
}

const noZone = (name: string) => failed(`'${name.slice(0, 60)}' is not a time zone such as 'Europe/Vienna'`);

/** Returns the milliseconds of an offset such as `-0800` or `+05:30`, as SendGrid's templates have it; null for a zone. */
function offsetOf(zone: string): number | null {
  const [, sign, hours, minutes] = /^([+-])(\d\d):?([0-5]\d)$/.exec(zone) ?? [];
  if (hours === undefined || minutes === undefined) return null;
  return (sign === '-' ? -1 : 1) * (Number(hours) * HOUR_MS + Number(minutes) * MINUTE_MS);
}

const LONGEST_DATE = 100;

/** A time of day with the zone or offset that it is in, as `Date` reads them. */
const WITH_ZONE = /\d:\d\d.*(?:(?<=\d)Z|[+-]\d\d|\b(?:UTC?|GMT|[ECMP][SD]T|Z)\b)/i;

function dateOf({ timezone }: Surroundings, given: unknown): Date | null {
  const value = plain(given);
  if (typeof value !== 'string' && typeof value !== 'number') return null;
  if (typeof value === 'string' && value.length > LONGEST_DATE) return null;
  // Numbers are seconds; very large ones are milliseconds.
  const number = typeof value === 'string' && /^\d{5,}$/.test(value) ? Number(value) : value;
  const moment =
    typeof number === 'string' ? momentOf(number, timezone) : Math.abs(number) < 1e11 ? number * 1000 : number;
  const found = new Date(moment);
  return Number.isNaN(found.getTime()) ? null : found;
}

/** Returns a text's moment, NaN if it is not a date. Without a zone it has the template's; `Date` would take this machine's or, for a day, UTC. */
function momentOf(text: string, timezone: string): number {
  if (WITH_ZONE.test(text)) return Date.parse(text);
  const shown = Date.parse(/^\d{4}-\d\d-\d\dT/.test(text) ? `${text}Z` : `${text} UTC`);
  if (timezone === 'UTC' || Number.isNaN(shown)) return shown;
  const seconds = Math.floor(shown / 1000) * 1000;
  const moment = momentIn(new Date(seconds).toISOString().slice(0, 19), timezone);
  return moment === null ? shown : moment + (shown - seconds);
}

type Fields = ReturnType<typeof fieldsOf>;

function fieldsOf(at: number, zone: string, locale: string) {
  const millisecond = ((at % 1000) + 1000) % 1000;
  // Years that have not four digits are those of UTC.
  const shown = Date.parse(`${wallClock(at - millisecond, zone).replace(' ', 'T')}Z`) + millisecond;
  const local = zone === 'UTC' || Number.isNaN(shown) ? at : shown;
  const date = new Date(local);
  return {
    date,
    year: date.getUTCFullYear(),
    hour: date.getUTCHours(),
    /** 0 is Sunday. */
    weekday: date.getUTCDay(),
    /** The day of the year, from 1 to 366. */
    yearDay: Math.floor((local - Date.UTC(date.getUTCFullYear(), 0, 1)) / DAY_MS) + 1,
    /** Minutes east of Greenwich. */
    offset: Math.round((local - at) / MINUTE_MS),
    at,
    zone,
    locale,
  };
}

/** Returns the locale's word for a month or a weekday. */
const word = ({ at, zone, locale }: Fields, options: Intl.DateTimeFormatOptions, type: 'month' | 'weekday'): string =>
  dateFormat(locale, { ...options, timeZone: zone })
    .formatToParts(at)
    .find((part) => part.type === type)?.value ?? '';

function zoneText({ offset }: Fields, colon: boolean): string {
  const minutes = Math.abs(offset);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${offset < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}${colon ? ':' : ''}${two(minutes % 60)}`;
}

const zoneName = ({ at, zone }: Fields): string =>
  dateFormat('en-US', { timeZone: zone, timeZoneName: 'short' })
    .formatToParts(at)
    .find(({ type }) => type === 'timeZoneName')?.value ?? '';

const hour12 = ({ hour }: Fields): number => hour % 12 || 12;

/** Returns the week of the year; the first one starts with the year's first `from` (0 is Sunday). */
const week = ({ yearDay, weekday }: Fields, from: 0 | 1): number =>
  Math.floor((yearDay + 6 - ((weekday - from + 7) % 7)) / 7);

/** Returns the ISO 8601 week: the first one contains the year's first Thursday. */
function isoWeek({ date, weekday }: Fields): { year: number; week: number } {
  const thursday = new Date(
    Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() + 4 - (weekday || 7)),
  );
  const own = thursday.getUTCFullYear();
  return { year: own, week: Math.floor((thursday.getTime() - Date.UTC(own, 0, 1)) / (7 * DAY_MS)) + 1 };
}

const ordinal = (day: number): string => (day >= 11 && day <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][day % 10] ?? 'th'));

interface Directive {
  text(fields: Fields): string | number;
  /** Minimum width; filled with `0` by default. */
  width?: number;
  fill?: ' ';
}

const composed = (format: string): Directive => ({ text: (fields) => written(fields, format) });

const directives: Readonly<Record<string, Directive>> = {
  a: { text: (fields) => word(fields, { weekday: 'short' }, 'weekday') },
  A: { text: (fields) => word(fields, { weekday: 'long' }, 'weekday') },
  b: { text: (fields) => word(fields, { month: 'short', day: 'numeric' }, 'month') },
  B: { text: (fields) => word(fields, { month: 'long', day: 'numeric' }, 'month') },
  c: composed('%a %b %e %T %Y'),
  C: { text: ({ year }) => Math.floor(year / 100), width: 2 },
  d: { text: ({ date }) => date.getUTCDate(), width: 2 },
  D: composed('%m/%d/%y'),
  e: { text: ({ date }) => date.getUTCDate(), width: 2, fill: ' ' },
  F: composed('%Y-%m-%d'),
  G: { text: (fields) => isoWeek(fields).year, width: 4 },
  h: composed('%b'),
  H: { text: ({ hour }) => hour, width: 2 },
  I: { text: hour12, width: 2 },
  j: { text: ({ yearDay }) => yearDay, width: 3 },
  k: { text: ({ hour }) => hour, width: 2, fill: ' ' },
  l: { text: hour12, width: 2, fill: ' ' },
  L: { text: ({ date }) => date.getUTCMilliseconds(), width: 3 },
  m: { text: ({ date }) => date.getUTCMonth() + 1, width: 2 },
  M: { text: ({ date }) => date.getUTCMinutes(), width: 2 },
  n: { text: () => '\n' },
  N: { text: ({ date }) => `${String(date.getUTCMilliseconds()).padStart(3, '0')}000000` },
  p: { text: ({ hour }) => (hour < 12 ? 'AM' : 'PM') },
  P: { text: ({ hour }) => (hour < 12 ? 'am' : 'pm') },
  q: { text: ({ date }) => ordinal(date.getUTCDate()) },
  r: composed('%I:%M:%S %p'),
  R: composed('%H:%M'),
  s: { text: ({ at }) => Math.floor(at / 1000) },
  S: { text: ({ date }) => date.getUTCSeconds(), width: 2 },
  t: { text: () => '\t' },
  T: composed('%H:%M:%S'),
  u: { text: ({ weekday }) => weekday || 7 },
  U: { text: (fields) => week(fields, 0), width: 2 },
  v: composed('%e-%^b-%Y'),
  V: { text: (fields) => isoWeek(fields).week, width: 2 },
  w: { text: ({ weekday }) => weekday },
  W: { text: (fields) => week(fields, 1), width: 2 },
  x: composed('%m/%d/%y'),
  X: composed('%T'),
  y: { text: ({ year }) => ((year % 100) + 100) % 100, width: 2 },
  Y: { text: ({ year }) => year, width: 4 },
  z: { text: (fields) => zoneText(fields, false) },
  Z: { text: zoneName },
  '%': { text: () => '%' },
  '+': composed('%a %b %e %H:%M:%S %Z %Y'),
};

function written(fields: Fields, format: string): string {
  return format.replace(
    /%([-_0^#:]{0,4})(\d{0,2})([EO]?)([A-Za-z%+])/g,
    (all, flags: string, width: string, _, letter: string) => {
      const directive = directives[letter];
      if (directive === undefined) return all;
      const plain = letter === 'z' && flags.includes(':') ? zoneText(fields, true) : String(directive.text(fields));
      const cased = flags.includes('^') ? plain.toUpperCase() : flags.includes('#') ? swapped(plain) : plain;
      if (flags.includes('-')) return cased;
      const fill = flags.includes('_')
        ? ' '
        : flags.includes('0')
          ? '0'
          : (directive.fill ?? (directive.width === undefined ? ' ' : '0'));
      // `%3N`: the number of digits of the fraction.
      if (letter === 'N') return width === '' ? cased : cased.slice(0, Number(width));
      return cased.padStart(width === '' ? (directive.width ?? 0) : Number(width), fill);
    },
  );
}

const swapped = (text: string): string =>
  text === text.toUpperCase() && text !== text.toLowerCase() ? text.toLowerCase() : text.toUpperCase();

const LONGEST_FORMAT = 300;

/** Returns the format. Throws a fault if it is too long or pads too much. */
function checkFormat(format: string): string {
  if (format.length > LONGEST_FORMAT)
    throw failed(`the format of a date is longer than ${String(LONGEST_FORMAT)} characters`);
  // `%999999999d` would pad with a thousand million zeros.
  if (/%[^A-Za-z%]{0,20}\d{3}/.test(format)) throw failed('the format of a date pads with more than 99 characters');
  return format;
}

/** Writes `at` (ms since the epoch). Throws a fault if the format is too long or pads too much. */
export function strftime(at: number, format: string, zone: string, locale: string): string {
  return written(fieldsOf(at, zone, locale), checkFormat(format));
}
