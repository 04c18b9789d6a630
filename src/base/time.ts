/** Spans of time in milliseconds, and the day of a moment. */

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** Returns the UTC day of a moment in milliseconds since the epoch: `2026-01-31`. */
export const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** Durations as people write them: `90s`, `1.5h`. */
const DURATION = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)$/;
const DURATION_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS };

/** Returns milliseconds; null if it is not a duration, as without a unit, which would be a guess. */
export function readDuration(text: string): number | null {
  const [, digits, unit] = DURATION.exec(text) ?? [];
  const factor = DURATION_MS[unit ?? ''];
  return digits === undefined || factor === undefined ? null : Math.round(Number(digits) * factor);
}

/** Writes a duration: 5400000 is `90m`. */
export function writeDuration(ms: number): string {
  const [unit, factor] = Object.entries(DURATION_MS).findLast(([, length]) => ms >= length && ms % length === 0) ?? [
    'ms',
    1,
  ];
  return `${ms / factor}${unit}`;
}
