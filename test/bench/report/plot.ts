/** Draws the figures of a benchmark as SVG: a bar for each, beside its peer, with an upright line at its limit. Pure. */
import { escapeHtml } from '../../../src/base/html.ts';
import type { Result } from './result.ts';
import { referenceOf, withUnit } from './words.ts';

const WIDTH = 760;
const ROW = 46;
const TOP = 40;
/** Room for the number behind the longest bar. */
const NUMBER = 120;
const MARGIN = 12;
const COLOURS = { held: '#2f7d4f', missed: '#b3382c', free: '#41618f', peer: '#a9b0ba', limit: '#1c1f24' };

/** Figures of one unit share a scale, so that their bars can be compared. */
export function plot(title: string, results: readonly Result[]): string {
  const height = TOP + results.length * ROW + MARGIN;
  const scales = new Map(results.map(({ unit }) => [unit, scaleOf(results.filter((one) => one.unit === unit))]));
  const rows = results.map((result, place) => row(result, TOP + place * ROW, scales.get(result.unit) ?? 0));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${String(WIDTH)} ${String(height)}" font-family="sans-serif" font-size="12" role="img" aria-label="${escapeHtml(title)}">
<rect width="100%" height="100%" fill="#fff"/>
<text x="${String(MARGIN)}" y="24" font-size="15" font-weight="bold">${escapeHtml(title)}</text>
${rows.join('\n')}
</svg>
`;
}

/** Returns how long a bar is for 1. */
function scaleOf(results: readonly Result[]): number {
  const values = results.flatMap(({ value, peer, atMost, atLeast }) => [value, peer?.value, atMost ?? atLeast]);
  const most = Math.max(0, ...values.filter((value) => value !== undefined && Number.isFinite(value)).map(Number));
  return most === 0 ? 0 : (WIDTH - 2 * MARGIN - NUMBER) / most;
}

function row(result: Result, top: number, scale: number): string {
  const { name, value, unit, held, peer, atMost, atLeast } = result;
  const limit = atMost ?? atLeast;
  const x = (one: number): string => (MARGIN + (Number.isFinite(one) ? one * scale : 0)).toFixed(1);
  const bar = (one: number, y: number, tall: number, colour: string): string =>
    `<rect x="${String(MARGIN)}" y="${String(y)}" width="${(Number.isFinite(one) ? Math.max(1, one * scale) : 0).toFixed(1)}" height="${String(tall)}" fill="${colour}"/>`;
  const colour = held === null ? COLOURS.free : held ? COLOURS.held : COLOURS.missed;
  const reference = referenceOf(result);
  const parts = [
    `<text x="${String(MARGIN)}" y="${String(top + 10)}">${escapeHtml(name)}${reference === '' ? '' : ` <tspan fill="#5b626c">(${escapeHtml(reference)})</tspan>`}</text>`,
    bar(value, top + 15, peer === undefined ? 16 : 10, colour),
    `<text x="${String(Number(x(value)) + 6)}" y="${String(top + 26)}">${escapeHtml(withUnit(value, unit))}</text>`,
  ];
  if (peer !== undefined) parts.push(bar(peer.value, top + 26, 6, COLOURS.peer));
  if (limit !== undefined)
    parts.push(
      `<line x1="${x(limit)}" x2="${x(limit)}" y1="${String(top + 13)}" y2="${String(top + 33)}" stroke="${COLOURS.limit}" stroke-width="2"/>`,
    );
  return `<g>${parts.join('')}</g>`;
}
