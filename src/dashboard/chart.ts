/** Charts as SVG with their numbers as a table: they need no script, can be printed and can be read aloud. Pure. */
import { escapeHtml } from '../base/html.ts';
import { wallClock } from '../base/zones.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time.ts';
import { numberText } from './words.ts';

export interface Chart {
  /** A sentence for people who do not see the drawing. */
  label: string;
  /** Bars are stacked; lines are drawn over each other. */
  kind: 'bars' | 'lines';
  /** Heading of the vertical axis: `Recipients`. */
  yAxis: string;
  /** Unit after each number: `ms`. */
  unit?: string;
  step: 'minute' | 'hour' | 'day';
  /** Time zone of the labels; UTC if not given. */
  zone?: string;
  /** Beginnings of the steps, in milliseconds since the epoch. */
  times: readonly number[];
  series: readonly Series[];
  /** Moments that may explain the numbers, drawn as upright lines. Those outside of the steps are left out. */
  marks?: readonly Mark[];
}

export interface Series {
  /** Shown in titles and the legend; also the colour, by the CSS class `c-<name>`. */
  name: string;
  /** One value for each step; null if nothing was measured. */
  values: readonly (number | null)[];
}

export interface Mark {
  /** Milliseconds since the epoch. */
  at: number;
  text: string;
}

export function chartHtml(chart: Chart): string {
  const { label, yAxis, step, series, zone = 'UTC' } = chart;
  const legend = series.map(({ name }) => `<span class="c-${name}">${name}</span>`).join('');
  const caption = `${escapeHtml(yAxis)} per ${step}${step === 'day' ? ', days of' : ', times in'} ${escapeHtml(zone)}`;
  const drawing = `<div class="drawn">${svg(chart)}<p class="legend">${legend}</p></div>`;
  return `<figure class="plot" aria-label="${escapeHtml(label)}"><figcaption>${caption}</figcaption>${drawing}${table(chart)}</figure>`;
}

/** Returns the numbers as a table, the newest step first. */
function table({ step, times, series, unit = '', zone = 'UTC' }: Chart): string {
  const rows = times.map((at, place) => {
    const cells = series.map(({ values }) => `<td class="n">${valueText(values[place])}`);
    return `<tr><td>${wallClock(at, zone).slice(0, step === 'day' ? 10 : 16)}${cells.join('')}</tr>`;
  });
  const head = series.map(({ name }) => `<th class="n">${name}${unit === '' ? '' : ` (${unit})`}`).join('');
  return `<details><summary>As a table</summary><div class="scroll"><table><thead><tr><th>Time (${escapeHtml(zone)})${head}</tr></thead><tbody>${rows.reverse().join('')}</tbody></table></div></details>`;
}

const valueText = (value: number | null | undefined): string => (value == null ? '–' : numberText(value));

/** Size of the drawing and its margins, in units of the SVG. The labels are outside of the margins. */
const WIDTH = 720;
const HEIGHT = 180;
const LEFT = 60;
const BOTTOM = 30;
const TOP = 16;
const STEP_MS = { minute: MINUTE_MS, hour: HOUR_MS, day: DAY_MS };

interface Scales {
  /** Number at the top of the vertical axis. */
  top: number;
  /** Left edge of a step's column. */
  x: (place: number) => number;
  y: (value: number) => number;
  columnWidth: number;
}

function scalesOf({ kind, times, series }: Chart): Scales {
  const highest = times.map((_, place) => {
    const values = series.map(({ values: own }) => own[place] ?? 0);
    return kind === 'bars' ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values);
  });
  const top = roundUp(Math.max(1, ...highest));
  const columnWidth = (WIDTH - LEFT) / Math.max(1, times.length);
  return {
    top,
    columnWidth,
    x: (place) => LEFT + place * columnWidth,
    y: (value) => HEIGHT - BOTTOM - (value * (HEIGHT - TOP - BOTTOM)) / top,
  };
}

function svg(chart: Chart): string {
  const scales = scalesOf(chart);
  const drawn = chart.kind === 'bars' ? bars(chart, scales) : lines(chart, scales);
  const parts = [...grid(scales), ...drawn, ...columns(chart, scales), ...marks(chart, scales), ...axis(chart, scales)];
  return `<svg class="chart" viewBox="0 0 ${String(WIDTH)} ${String(HEIGHT)}" role="img" aria-label="${escapeHtml(chart.label)}">${parts.join('')}</svg>`;
}

/** Returns the smallest number of 1, 2, 5, 10, 20, 50, … that is not below `most`. */
export function roundUp(most: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= most) ?? 10 * power;
}

function bars({ times, series }: Chart, { x, y, columnWidth }: Scales): string[] {
  return times.flatMap((_, place) => {
    let below = 0;
    return series.flatMap(({ name, values }) => {
      const value = values[place] ?? 0;
      if (value === 0) return [];
      const [from, to] = [y(below), y((below += value))];
      return `<rect class="bar c-${name}" x="${fixed(x(place) + 0.5)}" y="${fixed(to)}" width="${fixed(Math.max(1, columnWidth - 1))}" height="${fixed(from - to)}"/>`;
    });
  });
}

/** Draws a line for each series, with a gap where nothing was measured. */
function lines({ series }: Chart, { x, y, columnWidth }: Scales): string[] {
  return series.map(({ name, values }) => {
    const points = values.map((value, place) => {
      if (value === null) return '';
      const command = (values[place - 1] ?? null) === null ? 'M' : 'L';
      return `${command}${fixed(x(place) + columnWidth / 2)} ${fixed(y(value))}`;
    });
    return `<path class="line c-${name}" d="${points.join('')}"/>`;
  });
}

/** The whole column of a step shows its numbers to the pointer, so that a small bar is as easy to hit as a tall one. */
function columns({ step, times, series, unit = '', zone }: Chart, { x, columnWidth }: Scales): string[] {
  return times.map((at, place) => {
    const numbers = series.map(({ name, values }) => `${name} ${valueText(values[place])}${unit && ` ${unit}`}`);
    const title = escapeHtml(`${stepText(at, step, zone)}: ${numbers.join(', ')}`);
    return `<rect class="column" x="${fixed(x(place))}" y="${String(TOP)}" width="${fixed(columnWidth)}" height="${String(HEIGHT - TOP - BOTTOM)}"><title>${title}</title></rect>`;
  });
}

/** Draws each moment in the column of its step, at its place within the step. */
function marks({ times, step, zone = 'UTC', marks: moments = [] }: Chart, { x }: Scales): string[] {
  return moments.flatMap(({ at, text }) => {
    const place = times.findLastIndex((begin) => begin <= at);
    const begin = times[place];
    if (begin === undefined || at >= begin + STEP_MS[step]) return [];
    const left = fixed(x(place + (at - begin) / STEP_MS[step]));
    const title = escapeHtml(`${wallClock(at, zone)} ${zone}: ${text}`);
    return `<g><title>${title}</title><line class="mark" x1="${left}" x2="${left}" y1="${String(TOP)}" y2="${String(HEIGHT - BOTTOM)}"/></g>`;
  });
}

function grid({ top, y }: Scales): string[] {
  return [0, top / 2, top].filter(Number.isInteger).flatMap((value) => {
    const height = y(value);
    return [
      `<line class="grid" x1="${String(LEFT)}" x2="${String(WIDTH)}" y1="${fixed(height)}" y2="${fixed(height)}"/>`,
      `<text x="${String(LEFT - 6)}" y="${fixed(height + 4)}" text-anchor="end">${compact(value)}</text>`,
    ];
  });
}

const MOST_LABELS = 8;

function axis({ step, times, zone }: Chart, { x }: Scales): string[] {
  const every = Math.max(1, Math.ceil(times.length / MOST_LABELS));
  return times
    .map((at, place) => `<text x="${fixed(x(place))}" y="${String(HEIGHT - 8)}">${stepText(at, step, zone)}</text>`)
    .filter((_, place) => place % every === 0);
}

const stepText = (at: number, step: Chart['step'], zone = 'UTC'): string =>
  step === 'day' ? wallClock(at, zone).slice(5, 10) : wallClock(at, zone).slice(11, 16);

const fixed = (n: number): string => n.toFixed(1);

const compact = (n: number): string =>
  n >= 1_000_000 ? `${String(n / 1_000_000)}M` : n >= 1000 ? `${String(n / 1000)}k` : String(n);
