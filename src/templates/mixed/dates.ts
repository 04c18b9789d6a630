/** Writes dates and money in the template's locale and time zone. */
import { HOUR_MS, MINUTE_MS } from '../../base/time.ts';
import { momentIn, zoneNamed } from '../../base/zones.ts';
import { failed } from './fault.ts';
import type { Surroundings } from './filter.ts';
import { dateFormat, numberFormat } from './formats.ts';
import { checkFormat, strftime } from './strftime.ts';
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
  if (name !== '' && zoneNamed(name) === null)
    throw failed(`'${name.slice(0, 60)}' is not a time zone such as 'Europe/Vienna'`);
  return strftime(when.getTime(), pattern, name === '' ? around.timezone : name, around.locale);
}

/** Writes a date in formats such as `YYYY-MM-DD HH:mm:ss`, in the zone or at the offset given (`-0800`), or in the zone of the template. */
export function formatDate(around: Surroundings, value: unknown, format: string, zone: unknown): string {
  const moment = value === 'now' ? new Date(around.now) : dateOf(around, value);
  if (moment === null) return '';
  const given = typeof zone === 'string' && zone !== '' ? zone : around.timezone;
  const offset = offsetOf(given);
  // At an offset clocks show what those of UTC show so much earlier or later.
  const when = offset === null ? moment : new Date(moment.getTime() + offset);
  const timeZone = offset === null ? given : 'UTC';
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

/** Returns the milliseconds of an offset such as `-0800` or `+05:30`, as SendGrid's templates have it; null for a zone. */
function offsetOf(zone: string): number | null {
  const [, sign, hours, minutes] = /^([+-])(\d\d):?([0-5]\d)$/.exec(zone) ?? [];
  if (hours === undefined || minutes === undefined) return null;
  return (sign === '-' ? -1 : 1) * (Number(hours) * HOUR_MS + Number(minutes) * MINUTE_MS);
}

/** Characters of the longest date that is read. */
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

/**
 * Returns the moment of a text, NaN where it is not a date. One without a zone is in that of the template, so that it is printed as it is
 * written. `Date` would take that of this machine, or UTC where the text is a day alone.
 */
function momentOf(text: string, timezone: string): number {
  if (WITH_ZONE.test(text)) return Date.parse(text);
  const shown = Date.parse(/^\d{4}-\d\d-\d\dT/.test(text) ? `${text}Z` : `${text} UTC`);
  if (timezone === 'UTC' || Number.isNaN(shown)) return shown;
  const seconds = Math.floor(shown / 1000) * 1000;
  const moment = momentIn(new Date(seconds).toISOString().slice(0, 19), timezone);
  return moment === null ? shown : moment + (shown - seconds);
}
