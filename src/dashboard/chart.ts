/** Charts as SVG with their numbers as a table: they need no script, can be printed and can be read aloud. Pure. */
import { escapeHtml } from '../base/html.ts';
import { wallClock } from '../base/zones.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time.ts';
import { dayText, numberText } from './words.ts';

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
  /** Height of the drawing in px; 200 if not given. */
  height?: number;
  /** Time zone of the labels; UTC if not given. */
  zone?: string;
  /** Milliseconds since the epoch: the step that has it is not over, and is drawn as partial. */
  now?: number;
  /** Beginnings of the steps, in milliseconds since the epoch. */
  times: readonly number[];
  series: readonly Series[];
  /** Values that should not be passed, drawn as lines across if they are within the scale. */
  limits?: readonly number[];
  /** Moments that may explain the numbers, drawn as upright lines. Those outside of the steps are left out. */
  marks?: readonly Mark[];
}

export interface Series {
  /** Shown in titles and the legend; also gives the colour. `before` is a dashed line over bars, too. */
  name: string;
  /** One value for each step; null if nothing was measured. */
  values: readonly (number | null)[];
}

export interface Mark {
  /** Milliseconds since the epoch. */
  at: number;
  text: string;
}

/** The classes of series that do not have the colour of the accent. */
const inks: Readonly<Record<string, string>> = {
  bounced: 'k-red',
  complained: 'k-violet',
  deferred: 'k-amber',
  clicked: 'k-amber',
  p95: 'k-amber',
  p99: 'k-violet',
  before: 'k-before',
};
const inkOf = (name: string): string => inks[name] ?? '';

export function chartHtml(chart: Chart): string {
  const { label, yAxis, step, series, zone = 'UTC' } = chart;
  const partial =
    partialOf(chart) < 0
      ? ''
      : `; ${chart.kind === 'bars' ? 'lighter' : 'dashed'}: ${step === 'day' ? 'today' : `this ${step}`} so far`;
  const legend = series.map(({ name }) => `<span class="${inkOf(name)}">${name}</span>`).join('');
  const caption = `${escapeHtml(yAxis)} per ${step} (${escapeHtml(zone)})${partial}`;
  return `<figure class="plot" aria-label="${escapeHtml(label)}"><figcaption>${caption}<span class="legend">${legend}</span></figcaption>${svg(chart)}${table(chart)}</figure>`;
}

/** Returns the place of the step that is not over; -1 if all are, or if steps are as short as a minute. */
const partialOf = ({ step, times, now = -1 }: Chart): number =>
  step === 'minute' ? -1 : times.findIndex((at) => at <= now && now < at + STEP_MS[step]);

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

/** Usual height of the drawing, and those of its parts, in px. The width is that of the page, so places across are shares of it in %. */
const USUAL_HEIGHT = 200;
const BOTTOM = 24;
const TOP = 8;
const STEP_MS = { minute: MINUTE_MS, hour: HOUR_MS, day: DAY_MS };
const BEFORE = 'before';

type Scales = ReturnType<typeof scalesOf>;

/** Returns the top of the vertical axis, and the places of steps, in % of the width, and of values. */
function scalesOf({ kind, times, series, unit, height = USUAL_HEIGHT }: Chart) {
  const highest = times.map((_, place) => {
    const at = (wanted: boolean): number[] =>
      series.filter(({ name }) => (name === BEFORE) === wanted).map(({ values }) => values[place] ?? 0);
    const now = at(false);
    return Math.max(0, ...at(true), kind === 'bars' ? now.reduce((sum, value) => sum + value, 0) : Math.max(0, ...now));
  });
  // Shares of less than a percent have a scale of their own; there is no half of a recipient.
  const top = roundUp(Math.max(unit === '%' ? 0.1 : 1, ...highest));
  const columnWidth = 100 / Math.max(1, times.length);
  return {
    height,
    top,
    columnWidth,
    x: (place: number): number => place * columnWidth,
    y: (value: number): number => height - BOTTOM - (value * (height - TOP - BOTTOM)) / top,
  };
}

function svg(chart: Chart): string {
  const scales = scalesOf(chart);
  const isLine = ({ name }: Series): boolean => chart.kind === 'lines' || name === BEFORE;
  const parts = [
    ...grid(scales),
    ...bars({ ...chart, series: chart.series.filter((one) => !isLine(one)) }, scales),
    ...lines({ ...chart, series: chart.series.filter(isLine) }, scales),
    ...limitLines(chart, scales),
    ...columns(chart, scales),
    ...marks(chart, scales),
    ...gridLabels(chart, scales),
    ...axis(chart, scales),
  ];
  return `<svg class="chart" width="100%" height="${String(scales.height)}" role="img" aria-label="${escapeHtml(chart.label)}">${parts.join('')}</svg>`;
}

const ROUND = [1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10] as const;

/** Returns the smallest number of 1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, … that is not below `most`; below 1 it has fractions. */
export function roundUp(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  const top = (ROUND.find((step) => step * power >= most) ?? 10) * power;
  return Number(top.toPrecision(2));
}

function bars(chart: Chart, { x, y, columnWidth }: Scales): string[] {
  const { times, series } = chart;
  const partial = partialOf(chart);
  return times.flatMap((_, place) => {
    let below = 0;
    return series.flatMap(({ name, values }) => {
      const value = values[place] ?? 0;
      if (value === 0) return [];
      const [from, to] = [y(below), y((below += value))];
      return `<rect class="bar ${inkOf(name)}${place === partial ? ' partial' : ''}" x="${percent(x(place) + columnWidth * 0.1)}" y="${fixed(to)}" width="${percent(columnWidth * 0.8)}" height="${fixed(from - to)}"/>`;
    });
  });
}

/** Draws a line for each series, with a gap where nothing was measured. */
function lines(chart: Chart, { height, x, y, columnWidth }: Scales): string[] {
  const { times, series } = chart;
  if (series.length === 0) return [];
  const partial = partialOf(chart);
  const paths = series.map(({ name, values }) => {
    const draw = (from: number, to: number, more = ''): string => {
      const points = values.slice(from, to).map((value, nth, part) => {
        if (value === null) return '';
        const command = (part[nth - 1] ?? null) === null ? 'M' : 'L';
        return `${command}${fixed(x(from + nth) + columnWidth / 2)} ${fixed(y(value))}`;
      });
      return `<path class="line ${inkOf(name)}${more}" d="${points.join('')}"/>`;
    };
    if (partial < 1 || name === BEFORE) return draw(0, times.length);
    return draw(0, partial) + draw(partial - 1, partial + 1, ' partial');
  });
  return [
    `<svg width="100%" height="${String(height)}" viewBox="0 0 100 ${String(height)}" preserveAspectRatio="none">${paths.join('')}</svg>`,
  ];
}

function limitLines({ limits = [], series }: Chart, { top, y }: Scales): string[] {
  const name = series[0]?.name ?? '';
  return limits
    .filter((limit) => limit <= top)
    .map(
      (limit) =>
        `<line class="limit ${inkOf(name)}" x1="0" x2="100%" y1="${fixed(y(limit))}" y2="${fixed(y(limit))}"/>`,
    );
}

/** The whole column of a step shows its numbers to the pointer, so that a small bar is as easy to hit as a tall one. */
function columns({ step, times, series, unit = '', zone }: Chart, { height, x, columnWidth }: Scales): string[] {
  return times.map((at, place) => {
    const numbers = series.map(({ name, values }) => `${name} ${valueText(values[place])}${unit && ` ${unit}`}`);
    const title = escapeHtml(`${stepText(at, step, zone)}: ${numbers.join(', ')}`);
    return `<rect class="column" x="${percent(x(place))}" y="${String(TOP)}" width="${percent(columnWidth)}" height="${String(height - TOP - BOTTOM)}"><title>${title}</title></rect>`;
  });
}

/** Draws each moment in the column of its step, at its place within the step. */
function marks(
  { times, step, zone = 'UTC', marks: moments = [] }: Chart,
  { height, x, columnWidth }: Scales,
): string[] {
  return moments.flatMap(({ at, text }) => {
    const place = times.findLastIndex((begin) => begin <= at);
    const begin = times[place];
    if (begin === undefined || at >= begin + STEP_MS[step]) return [];
    const left = percent(x(place) + ((at - begin) / STEP_MS[step]) * columnWidth);
    const title = escapeHtml(`${wallClock(at, zone)} ${zone}: ${text}`);
    return `<g><title>${title}</title><line class="mark" x1="${left}" x2="${left}" y1="${String(TOP)}" y2="${String(height - BOTTOM)}"/></g>`;
  });
}

const grid = ({ top, y }: Scales): string[] =>
  [0, top / 2, top].map(
    (value) => `<line class="grid" x1="0" x2="100%" y1="${fixed(y(value))}" y2="${fixed(y(value))}"/>`,
  );

/** The numbers are left of their lines, in the padding of the drawing. Counts of recipients have whole numbers only. */
const gridLabels = ({ unit }: Chart, { top, y }: Scales): string[] =>
  [top / 2, top]
    .filter((value) => unit !== undefined || Number.isInteger(value))
    .map((value) => `<text text-anchor="end" x="-8" y="${fixed(y(value) + 4)}">${compact(value)}</text>`);

const MOST_LABELS = 8;

/** Names every so many steps, none that would pass the right edge; every second name is left out on a phone. */
function axis({ step, times, zone }: Chart, { height, x }: Scales): string[] {
  const every = Math.max(1, Math.ceil(times.length / MOST_LABELS));
  return times
    .map((at, place) => ({ at, place }))
    .filter(({ place }) => place % every === 0 && x(place) < 90)
    .map(
      ({ at, place }, nth) =>
        `<text${nth % 2 === 1 ? ' class="also"' : ''} x="${percent(x(place))}" y="${String(height - 6)}">${stepText(at, step, zone)}</text>`,
    );
}

/** `29 Oct` for a day, `09:30` within one. */
function stepText(at: number, step: Chart['step'], zone = 'UTC'): string {
  const text = wallClock(at, zone);
  return step === 'day' ? dayText(text) : text.slice(11, 16);
}

const fixed = (n: number): string => n.toFixed(1);
const percent = (n: number): string => `${Number(n.toFixed(3)).toString()}%`;

const compact = (n: number): string =>
  n >= 1_000_000 ? `${String(n / 1_000_000)}M` : n >= 1000 ? `${String(n / 1000)}k` : String(Number(n.toPrecision(3)));
