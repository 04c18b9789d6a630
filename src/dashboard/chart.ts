/** Charts as SVG, drawn on the server: they need no script, print well and read as a table of titles. Pure. */
import { numberText } from './words.ts';

export interface Series {
  /** Shown in titles; also its colour, by the class `c-<name>`. */
  name: string;
  values: readonly number[];
}

const WIDTH = 720;
const HEIGHT = 150;
const LEFT = 44;
const BOTTOM = 18;
const TOP = 8;

/** Stacked bars over time. `labels` has one text a bar; a few of them stand below. */
export function barChart(labels: readonly string[], series: readonly Series[], about: string): string {
  const sums = labels.map((_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0));
  const top = niceTop(Math.max(1, ...sums));
  const width = (WIDTH - LEFT) / Math.max(1, labels.length);
  const scale = (HEIGHT - TOP - BOTTOM) / top;
  const bars = labels.map((label, at) => stack(series, at, { label, x: LEFT + at * width, width, scale }));
  return svg(about, [...grid(top), ...bars, ...axis(labels, width)]);
}

function stack(
  series: readonly Series[],
  at: number,
  { label, x, width, scale }: { label: string; x: number; width: number; scale: number },
): string {
  let y = HEIGHT - BOTTOM;
  const said = series.filter(({ values }) => (values[at] ?? 0) > 0).map(({ name, values }) => `${name} ${numberText(values[at] ?? 0)}`); // prettier-ignore
  const parts = series.map(({ name, values }) => {
    const height = (values[at] ?? 0) * scale;
    if (height === 0) return '';
    y -= height;
    return `<rect class="c-${name}" x="${fixed(x + 0.5)}" y="${fixed(y)}" width="${fixed(Math.max(1, width - 1))}" height="${fixed(height)}"/>`;
  });
  const title = `${label}: ${said.length === 0 ? 'nothing' : said.join(', ')}`;
  // The whole column answers to the pointer, so that a small bar is no harder to read than a tall one.
  const column = `<rect class="column" x="${fixed(x)}" y="${String(TOP)}" width="${fixed(width)}" height="${String(HEIGHT - TOP - BOTTOM)}"/>`;
  return `<g><title>${escaped(title)}</title>${column}${parts.join('')}</g>`;
}

/** A number with one digit that is not zero, or five in that place: 1, 2, 5, 10, 20, 50, ... */
export function niceTop(most: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= most) ?? 10 * power;
}

function grid(top: number): string[] {
  return [0, 0.5, 1].flatMap((part) => {
    const value = top * part;
    if (!Number.isInteger(value)) return [];
    const y = HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
    return [
      `<line class="grid" x1="${String(LEFT)}" x2="${String(WIDTH)}" y1="${fixed(y)}" y2="${fixed(y)}"/>`,
      `<text x="${String(LEFT - 6)}" y="${fixed(y + 4)}" text-anchor="end">${compact(value)}</text>`,
    ];
  });
}

function axis(labels: readonly string[], width: number): string[] {
  const every = Math.max(1, Math.ceil(labels.length / 8));
  return labels.flatMap((label, at) =>
    at % every === 0
      ? [`<text x="${fixed(LEFT + at * width)}" y="${String(HEIGHT - 4)}">${escaped(label)}</text>`]
      : [],
  );
}

function svg(about: string, parts: readonly string[]): string {
  return `<svg class="chart" viewBox="0 0 ${String(WIDTH)} ${String(HEIGHT)}" role="img" aria-label="${escaped(about)}">${parts.join('')}</svg>`;
}

const fixed = (n: number): string => n.toFixed(1);

const compact = (n: number): string =>
  n >= 1_000_000 ? `${String(n / 1_000_000)}M` : n >= 1000 ? `${String(n / 1000)}k` : String(n);

const escaped = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => `&#${String(character.charCodeAt(0))};`);
