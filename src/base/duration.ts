/** Durations as people write them: `90s`, `1.5h`. Pure. */
import { DAY_MS, HOUR_MS, MINUTE_MS } from './time.ts';

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
