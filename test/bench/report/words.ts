/** Words for figures, the same in the table and in the drawings. Pure. */
import type { Figure } from './result.ts';

/** Writes three significant digits, and whole numbers from a hundred on. */
export function numberOf(value: number): string {
  if (!Number.isFinite(value)) return 'not measured';
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString('en-US');
  return value.toPrecision(3);
}

export const withUnit = (value: number, unit: string): string =>
  Number.isFinite(value) ? `${numberOf(value)} ${unit}` : numberOf(value);

/** Says what a figure is held against, and what its peer reached: `at least 5 x; Postfix 501 messages/s`. */
export function referenceOf({ unit, atMost, atLeast, peer }: Figure): string {
  const parts: string[] = [];
  if (atLeast !== undefined) parts.push(`at least ${withUnit(atLeast, unit)}`);
  if (atMost !== undefined) parts.push(`at most ${withUnit(atMost, unit)}`);
  if (peer !== undefined) parts.push(`${peer.name} ${withUnit(peer.value, unit)}`);
  return parts.join('; ');
}

/** Writes a time of seconds to hours: `40 s`, `12 min`, `1 h 5 min`. */
export function durationOf(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 90) return `${String(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${String(minutes)} min` : `${String(Math.floor(minutes / 60))} h ${String(minutes % 60)} min`;
}
