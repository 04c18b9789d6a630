/** Dates and money, written as the template's locale and time zone have it. */
import { failed } from './fault.ts';
import type { Surroundings } from './filter.ts';
import { plain } from './value.ts';

/** No format says anything in more. */
const LONGEST_FORMAT = 300;

/** Throws where the format is longer than any that is meant. */
export function formatText(format: string): string {
  if (format.length > LONGEST_FORMAT) throw failed(`the format of a date is longer than ${String(LONGEST_FORMAT)} characters`); // prettier-ignore
  // `%999999999d` would pad with a thousand million zeros.
  if (/%[^A-Za-z%]{0,8}\d{3}/.test(format)) throw failed('the format of a date pads with more than 99 characters');
  return format;
}

/** Making one takes longer than using it a hundred times. */
function cached<T>(make: (key: string) => T): (key: string) => T {
  const kept = new Map<string, T>();
  return (key) => {
    const known = kept.get(key);
    if (known !== undefined) return known;
    const made = make(key);
    if (kept.size >= MOST_FORMATS) kept.clear();
    kept.set(key, made);
    return made;
  };
}

const MOST_FORMATS = 200;

const numberFormat = cached((key) => {
  const [locale, options] = JSON.parse(key) as [string, Intl.NumberFormatOptions];
  return new Intl.NumberFormat(locale, options);
});

const dateFormat = cached((key) => {
  const [locale, options] = JSON.parse(key) as [string, Intl.DateTimeFormatOptions];
  return new Intl.DateTimeFormat(locale, options);
});

export function money({ locale }: Surroundings, amount: number, currency: unknown): string {
  const two = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  if (typeof currency !== 'string') return numberFormat(JSON.stringify([locale, two])).format(amount);
  try {
    return numberFormat(JSON.stringify([locale, { style: 'currency', currency }])).format(amount);
  } catch {
    throw failed(`'${currency.slice(0, 20)}' is no currency`);
  }
}

/** `YYYY-MM-DD HH:mm:ss` and their kin, in the zone of the template or the one that is named. */
export function formatDate(around: Surroundings, value: unknown, format: string, zone: unknown): string {
  const date = value === 'now' ? new Date(around.now) : dateOf(value);
  if (date === null) return '';
  const timeZone = typeof zone === 'string' && zone !== '' ? zone : around.timezone;
  const part = (options: Intl.DateTimeFormatOptions, type: string, locale = around.locale): string => {
    let written: Intl.DateTimeFormat;
    try {
      written = dateFormat(JSON.stringify([locale, { timeZone, ...options }]));
    } catch {
      throw failed(`'${timeZone.slice(0, 60)}' is no time zone`);
    }
    return written.formatToParts(date).find((one) => one.type === type)?.value ?? '';
  };
  const number = (options: Intl.DateTimeFormatOptions, type: string, digits: number): string =>
    part({ hourCycle: 'h23', ...options }, type, 'en-US').padStart(digits, '0');
  const marks: Readonly<Record<string, () => string>> = {
    YYYY: () => number({ year: 'numeric' }, 'year', 4),
    YY: () => number({ year: 'numeric' }, 'year', 4).slice(-2),
    MMMM: () => part({ month: 'long', day: 'numeric' }, 'month'),
    MMM: () => part({ month: 'short', day: 'numeric' }, 'month'),
    MM: () => number({ month: 'numeric' }, 'month', 2),
    M: () => number({ month: 'numeric' }, 'month', 1),
    DD: () => number({ day: 'numeric' }, 'day', 2),
    D: () => number({ day: 'numeric' }, 'day', 1),
    dddd: () => part({ weekday: 'long' }, 'weekday'),
    ddd: () => part({ weekday: 'short' }, 'weekday'),
    HH: () => number({ hour: 'numeric' }, 'hour', 2),
    H: () => number({ hour: 'numeric' }, 'hour', 1),
    hh: () => part({ hour: 'numeric', hourCycle: 'h12' }, 'hour', 'en-US').padStart(2, '0'),
    h: () => part({ hour: 'numeric', hourCycle: 'h12' }, 'hour', 'en-US'),
    mm: () => number({ minute: 'numeric' }, 'minute', 2),
    m: () => number({ minute: 'numeric' }, 'minute', 1),
    ss: () => number({ second: 'numeric' }, 'second', 2),
    s: () => number({ second: 'numeric' }, 'second', 1),
    A: () => part({ hour: 'numeric', hourCycle: 'h12' }, 'dayPeriod', 'en-US').toUpperCase(),
    a: () => part({ hour: 'numeric', hourCycle: 'h12' }, 'dayPeriod', 'en-US').toLowerCase(),
  };
  return formatText(format).replace(
    /\[([^\]]*)\]|YYYY|YY|MMMM|MMM|MM|M|DD|D|dddd|ddd|HH|H|hh|h|mm|m|ss|s|A|a/g,
    (mark, literal: string | undefined) => literal ?? marks[mark]?.() ?? mark,
  );
}

/** No date is written in more. */
const LONGEST_DATE = 100;

function dateOf(given: unknown): Date | null {
  const value = plain(given);
  if (typeof value !== 'string' && typeof value !== 'number') return null;
  if (typeof value === 'string' && value.length > LONGEST_DATE) return null;
  // Numbers are seconds, unless they are so large that they must be milliseconds.
  const date = new Date(typeof value === 'number' && Math.abs(value) < 1e11 ? value * 1000 : value);
  return Number.isNaN(date.getTime()) ? null : date;
}
