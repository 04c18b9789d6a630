/** Formatters of Intl, cached: making one takes longer than a hundred uses. Times and days of a time zone. Pure. */
import { DAY_MS } from './time.ts';
import { LRUCache } from 'lru-cache';

/** Returns the canonical name of the zone, or null for one that the runtime does not know. */
export function zoneNamed(name: string | null): string | null {
  if (name === null || name === '' || name.length > 64) return null;
  try {
    return dateFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return null;
  }
}

const clock = {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
} as const;

/** `2026-01-31 09:30:02`, as clocks of the zone show it. */
export const wallClock = (at: number, zone: string): string =>
  zone === 'UTC'
    ? new Date(at).toISOString().slice(0, 19).replace('T', ' ')
    : dateFormat('en-CA', { ...clock, timeZone: zone })
        .format(at)
        .replace(', ', ' ');

/**
 * Returns the moment of `2026-01-31`, or with `T09:30` or seconds, in the zone; null for other text and dates that do not exist. An hour that the
 * clocks leave out is the one after it; of one that comes twice it is the first.
 */
export function momentIn(local: string, zone: string): number | null {
  if (!/^(?:19|2\d)\d\d-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?)?$/.test(local)) return null;
  const shown = Date.parse(`${local.length === 10 ? `${local}T00:00` : local}Z`);
  if (Number.isNaN(shown) || new Date(shown).toISOString().slice(0, 10) !== local.slice(0, 10)) return null;
  const offsetAt = (at: number): number => Date.parse(`${wallClock(at, zone).replace(' ', 'T')}Z`) - at;
  // The offsets of the days before and after are those of both sides of a change of clocks.
  const [before, after] = [offsetAt(shown - DAY_MS), offsetAt(shown + DAY_MS)];
  const fitting = [shown - before, shown - after].filter((at) => at + offsetAt(at) === shown);
  return fitting.length === 0 ? shown - before : Math.min(...fitting);
}

export const beginOfDay = (at: number, zone: string): number => momentIn(wallClock(at, zone).slice(0, 10), zone) ?? at;

const MOST_FORMATS = 200;

/** Caches formatters. `make` may throw a RangeError for an unknown zone, currency or locale. */
function cached<Options, Format extends object>(
  make: (locale: string, options: Options) => Format,
): (locale: string, options: Options) => Format {
  const formats = new LRUCache<string, Format>({ max: MOST_FORMATS });
  return (locale, options) => {
    const key = `${locale} ${JSON.stringify(options)}`;
    const found = formats.get(key);
    if (found !== undefined) return found;
    const made = make(locale, options);
    formats.set(key, made);
    return made;
  };
}

export const dateFormat = cached(
  (locale: string, options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(locale, options),
);

export const numberFormat = cached(
  (locale: string, options: Intl.NumberFormatOptions) => new Intl.NumberFormat(locale, options),
);
