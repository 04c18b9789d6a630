/** Times and days of a time zone. Pure. */
import { dateFormat } from './formats.ts';
import { DAY_MS } from './time.ts';

/** Canonical names by the names that were asked for, and null for unknown ones: a look-up takes a third of a millisecond. */
const canonical = new Map<string, string | null>();
const MOST_NAMES = 500;

/** Returns the canonical name of the zone, or null for one that the runtime does not know. */
export function zoneNamed(name: string | null): string | null {
  if (name === null || name === '' || name.length > 64) return null;
  const known = canonical.get(name);
  if (known !== undefined) return known;
  if (canonical.size >= MOST_NAMES) canonical.clear();
  const found = lookUp(name);
  canonical.set(name, found);
  return found;
}

function lookUp(name: string): string | null {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
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
 * Returns the moment at which clocks of the zone show `2026-01-31`, `2026-01-31T09:30` or the same with seconds; null for other text
 * and dates that do not exist. An hour that the clocks leave out is the one after it; of one that comes twice it is the first.
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
