/** Figures in the text format 0.0.4 of Prometheus, and the two kinds of figure that are counted in memory. */

export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  /** The ending of the family's name: `_bucket`, `_sum`, `_count`; empty for plain figures. */
  suffix?: '_bucket' | '_sum' | '_count';
  labels?: Labels;
  value: number;
}

export interface Family {
  name: string;
  type: 'counter' | 'gauge' | 'histogram' | 'summary';
  help: string;
  samples: readonly Sample[];
}

export const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Makes a family of samples with labels, or of one figure without. */
const familyOf =
  (type: Family['type']) =>
  (name: string, help: string, value: number | readonly Sample[]): Family => ({
    name,
    type,
    help,
    samples: typeof value === 'number' ? [{ value }] : value,
  });

export const counter = familyOf('counter');
export const gauge = familyOf('gauge');
export const histogram = familyOf('histogram');
export const summary = familyOf('summary');

/** Returns the text of all families; those without a sample are left out. */
export function exposition(families: readonly Family[]): string {
  return families
    .filter(({ samples }) => samples.length > 0)
    .map(({ name, type, help, samples }) => {
      const lines = samples.map(
        ({ suffix = '', labels = {}, value }) => `${name}${suffix}${labelText(labels)} ${numberText(value)}`,
      );
      return `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n${lines.join('\n')}\n`;
    })
    .join('');
}

function labelText(labels: Labels): string {
  const entries = Object.entries(labels);
  if (entries.length === 0) return '';
  return `{${entries.map(([name, value]) => `${name}="${escaped(value).replaceAll('"', '\\"')}"`).join(',')}}`;
}

const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf';
}

/** Counters by labels. The caller keeps the number of different labels small. */
export class Counts {
  private readonly counts = new Map<string, { labels: Labels; value: number }>();

  /** Shows `known` labels as 0 from the beginning, so that a rate includes the first count. */
  constructor(known: readonly Labels[] = []) {
    for (const labels of known) this.add(labels, 0);
  }

  add(labels: Labels, by = 1): void {
    const key = Object.values(labels).join('\u0000');
    const count = this.counts.get(key);
    if (count === undefined) this.counts.set(key, { labels, value: by });
    else count.value += by;
  }

  samples(): Sample[] {
    return [...this.counts.values()].map(({ labels, value }) => ({ labels, value }));
  }
}

export interface Bucket {
  le: number;
  count: number;
}

/** A histogram of observations in buckets; `bounds` are the upper limits, ascending, without infinity. */
export class Histogram {
  private readonly bounds: readonly number[];
  private readonly counts: number[];
  private sum = 0;
  private count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = bounds.map(() => 0);
  }

  observe(value: number): void {
    this.sum += value;
    this.count++;
    const at = this.bounds.findIndex((bound) => value <= bound);
    if (at >= 0) this.counts[at] = (this.counts[at] ?? 0) + 1;
  }

  /** Returns the observations up to each bound, the last of which is infinite. */
  buckets(): Bucket[] {
    let below = 0;
    const bounded = this.bounds.map((le, at) => ({ le, count: (below += this.counts[at] ?? 0) }));
    return [...bounded, { le: Infinity, count: this.count }];
  }

  samples(labels: Labels = {}): Sample[] {
    const buckets = this.buckets().map(({ le, count }) => ({
      suffix: '_bucket' as const,
      labels: { ...labels, le: numberText(le) },
      value: count,
    }));
    return [...buckets, { suffix: '_sum', labels, value: this.sum }, { suffix: '_count', labels, value: this.count }];
  }
}
