/**
 * Charts: drawn here as SVG with their numbers as a table, so that they need no script, print well and can be read aloud;
 * where scripts run, public/charts.js draws the same numbers with a cursor and zoom. Pure.
 */
import { numberText, utcText } from './words.ts';

/** What a chart shows. */
export interface Plot {
  /** Says what it shows, for who does not see it. */
  about: string;
  /** Bars stand on each other; lines stand for themselves. */
  kind: 'bars' | 'lines';
  /** What is counted or measured, as it stands above the chart: `Recipients`. */
  counts: string;
  /** What stands after a number: `ms`. */
  unit?: string;
  /** How long a step is: days have no time of day. */
  step: 'minute' | 'hour' | 'day';
  /** Begins of the steps, milliseconds since the epoch. */
  times: readonly number[];
  series: readonly Series[];
  /** Moments that may explain what is seen: upright lines. Those outside of the steps are left out. */
  marks?: readonly Mark[];
}

export interface Mark {
  /** Milliseconds since the epoch. */
  at: number;
  text: string;
}

/** The chart with its table. Everything in it is escaped. */
export function figure(plot: Plot): string {
  const { about, counts, kind, unit = '', step, times, series } = plot;
  const labels = times.map((at) => stepLabel(at, step));
  const marks = (plot.marks ?? []).flatMap((mark) => markLine(plot, mark));
  const drawing = kind === 'bars' ? barChart(labels, series, about, marks) : lineChart(labels, series, about);
  const seconds = (plot.marks ?? []).map(({ at }) => at / 1000);
  const data = JSON.stringify({ kind, unit, step, times: times.map((at) => at / 1000), series, marks: seconds });
  const legend = series.map(({ name }) => `<span class="k-${name}">${name}</span>`).join('');
  return `<figure class="plot" data-plot="${escaped(data)}" aria-label="${escaped(about)}"><figcaption>${escaped(counts)} per ${step}${step === 'day' ? '' : '<span class="in-utc">, times in UTC</span>'}</figcaption><div class="drawn">${drawing}<p class="legend">${legend}</p></div>${numbers(plot)}</figure>`;
}

const STEP_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };

/** In the column of its step, where within it happened. */
function markLine({ times, step }: Plot, { at, text }: Mark): string[] {
  const place = times.findLastIndex((begin) => begin <= at);
  const begin = times[place];
  if (begin === undefined || at >= begin + STEP_MS[step]) return [];
  const x = fixed(LEFT + ((place + (at - begin) / STEP_MS[step]) * (WIDTH - LEFT)) / times.length);
  const title = escaped(`${utcText(at)} UTC: ${text}`);
  return [
    `<g><title>${title}</title><line class="mark" x1="${x}" x2="${x}" y1="${String(TOP)}" y2="${String(HEIGHT - BOTTOM)}"/></g>`,
  ];
}

/** The last steps come first: that is what one looks for. */
function numbers({ step, times, series, unit = '' }: Plot): string {
  const rows = times.map((at, place) => {
    const cells = series.map(
      ({ values }) => `<td class="n">${values[place] == null ? '–' : numberText(values[place])}`,
    );
    const text = step === 'day' ? utcText(at).slice(0, 10) : utcText(at).slice(0, 16);
    return `<tr><td>${text}${cells.join('')}</tr>`;
  });
  const head = series.map(({ name }) => `<th class="n">${name}${unit === '' ? '' : ` (${unit})`}`).join('');
  return `<details><summary>As a table</summary><div class="scroll"><table><thead><tr><th>Time (UTC)${head}</tr></thead><tbody>${rows.reverse().join('')}</tbody></table></div></details>`;
}

const stepLabel = (at: number, step: Plot['step']): string =>
  step === 'day' ? utcText(at).slice(5, 10) : utcText(at).slice(11, 16);

export interface Series {
  /** Shown in titles; also its colour, by the class `c-<name>`. */
  name: string;
  /** Null where nothing was measured. */
  values: readonly (number | null)[];
}

const WIDTH = 720;
const HEIGHT = 150;
const LEFT = 44;
const BOTTOM = 18;
const TOP = 8;

/** Stacked bars over time. `labels` has one text a bar; a few of them stand below. */
export function barChart(
  labels: readonly string[],
  series: readonly Series[],
  about: string,
  above: readonly string[] = [],
): string {
  const sums = labels.map((_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0));
  const top = niceTop(Math.max(1, ...sums));
  const width = (WIDTH - LEFT) / Math.max(1, labels.length);
  const scale = (HEIGHT - TOP - BOTTOM) / top;
  const bars = labels.map((label, at) => stack(series, at, { label, x: LEFT + at * width, width, scale }));
  return svg(about, [...grid(top), ...bars, ...above, ...axis(labels, width)]);
}

/** A line a series; where nothing was measured it is broken. */
export function lineChart(labels: readonly string[], series: readonly Series[], about: string): string {
  const top = niceTop(Math.max(1, ...series.flatMap(({ values }) => values.map((value) => value ?? 0))));
  const width = (WIDTH - LEFT) / Math.max(1, labels.length - 1);
  const scale = (HEIGHT - TOP - BOTTOM) / top;
  const lines = series.map(({ name, values }) => {
    let pen = 'M';
    const path = values.flatMap((value, at) => {
      if (value === null) {
        pen = 'M';
        return [];
      }
      const point = `${pen}${fixed(LEFT + at * width)} ${fixed(HEIGHT - BOTTOM - value * scale)}`;
      pen = 'L';
      return [point];
    });
    return `<path class="line s-${name}" d="${path.join('')}"/>`;
  });
  return svg(about, [...grid(top), ...lines, ...axis(labels, width)]);
}

function stack(
  series: readonly Series[],
  at: number,
  { label, x, width, scale }: { label: string; x: number; width: number; scale: number },
): string {
  let y = HEIGHT - BOTTOM;
  const said = series
    .filter(({ values }) => (values[at] ?? 0) > 0)
    .map(({ name, values }) => `${name} ${numberText(values[at] ?? 0)}`);
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
