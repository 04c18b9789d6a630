/** Writes dates and money in the template's locale and time zone. */
import { failed } from './fault.ts';
import type { Surroundings } from './filter.ts';
import { dateFormat, numberFormat } from './formats.ts';
import { checkFormat, strftime } from './strftime.ts';
import { plain, textOf } from './value.ts';

export function money({ locale }: Surroundings, amount: number, currency: unknown): string {
  const two = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  if (typeof currency !== 'string') return numberFormat(locale, two).format(amount);
  try {
    return numberFormat(locale, { style: 'currency', currency }).format(amount);
  } catch {
    throw failed(`'${currency.slice(0, 20)}' is not a currency code such as 'EUR'`);
  }
}

/** Liquid's `date`: a value that is not a date, or has no format, is returned unchanged. */
export function date(around: Surroundings, given: unknown, format: unknown): unknown {
  const value = plain(given);
  const pattern = textOf(format);
  if (value === null || value === undefined || value === '' || pattern === '') return given;
  const when = value === 'now' || value === 'today' ? new Date(around.now) : dateOf(value);
  return when === null ? given : strftime(when.getTime(), pattern, around.timezone, around.locale);
}

/** Writes a date in formats such as `YYYY-MM-DD HH:mm:ss`, in the zone given or that of the template. */
export function formatDate(around: Surroundings, value: unknown, format: string, zone: unknown): string {
  const when = value === 'now' ? new Date(around.now) : dateOf(value);
  if (when === null) return '';
  const timeZone = typeof zone === 'string' && zone !== '' ? zone : around.timezone;
  const part = (options: Intl.DateTimeFormatOptions, type: string, locale = around.locale): string => {
    let written: Intl.DateTimeFormat;
    try {
      written = dateFormat(locale, { timeZone, ...options });
    } catch {
      throw failed(`'${timeZone.slice(0, 60)}' is not a time zone such as 'Europe/Vienna'`);
    }
    return written.formatToParts(when).find((one) => one.type === type)?.value ?? '';
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
  return checkFormat(format).replace(
    /\[([^\]]*)\]|YYYY|YY|MMMM|MMM|MM|M|DD|D|dddd|ddd|HH|H|hh|h|mm|m|ss|s|A|a/g,
    (mark, literal: string | undefined) => literal ?? marks[mark]?.() ?? mark,
  );
}

/** Characters of the longest date that is read. */
const LONGEST_DATE = 100;

function dateOf(given: unknown): Date | null {
  const value = plain(given);
  if (typeof value !== 'string' && typeof value !== 'number') return null;
  if (typeof value === 'string' && value.length > LONGEST_DATE) return null;
  // Numbers are seconds; very large ones are milliseconds.
  const number = typeof value === 'string' && /^\d{5,}$/.test(value) ? Number(value) : value;
  const found = new Date(typeof number === 'number' && Math.abs(number) < 1e11 ? number * 1000 : number);
  return Number.isNaN(found.getTime()) ? null : found;
}
