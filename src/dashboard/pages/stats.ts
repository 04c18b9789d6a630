/** Numbers over time, in days of a chosen time zone, and grouped by stream, tag, sending domain, mailbox provider or template. */
import { statKeys } from '../../events/stats-store.ts';
import type { StatType } from '../../events/stats.ts';
import type { Stats } from '../../client/types.ts';
import { chartHtml } from '../chart.ts';
import { spanOf } from '../links.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { daysOf, zoneNamed } from '../zones.ts';
import { part, stepsOf, volumeChart } from './overview.ts';
import { DAY_MS, HOUR_MS } from '../../base/time.ts';

const WHERE = '/stats';
const filters = ['stream', 'tag', 'domain', 'provider', 'template_id', 'test'] as const;
/** The API keeps hours for 31 days, the first and the last of them in part. */
const MOST_DAYS_OF_HOURS = 30;
const zones = Intl.supportedValuesOf('timeZone');

export function statsPages(): Page[] {
  return [get(WHERE, show)];
}

interface Asked {
  since: string | null;
  bucket: 'hour' | 'day';
  /** Zone whose days are summed from hours; null for the API's own days. */
  zone: string | null;
}

/** Returns what to ask the API for. Days of a zone other than UTC reach back as far as hours are kept. */
function askedFor(range: string, since: string | null, zone: string | null, now: number): Asked {
  const fullHour = (ms: number): string => new Date(Math.floor(ms / HOUR_MS) * HOUR_MS).toISOString();
  if (range === '24h' || range === '1h') return { since: fullHour(now - 23 * HOUR_MS), bucket: 'hour', zone: null };
  if (range === 'all') return { since: new Date(now - 365 * DAY_MS).toISOString(), bucket: 'day', zone: null };
  if (zone === null || zone === 'UTC') return { since, bucket: 'day', zone: null };
  const begin = since === null ? Number.NaN : Date.parse(since);
  return { since: fullHour(Math.max(begin || 0, now - MOST_DAYS_OF_HOURS * DAY_MS)), bucket: 'hour', zone };
}

async function show(visit: Visit): Promise<Shown> {
  const { query, now } = visit;
  const span = spanOf(query, '30d', now);
  const only = Object.fromEntries(filters.map((name) => [name, query.get(name)]));
  // Tags and templates are not counted together.
  const keys = (query.get('tag') ?? '') === '' ? statKeys : statKeys.filter((key) => key !== 'template');
  const by = keys.find((key) => key === query.get('by')) ?? 'provider';
  const zone = zoneNamed(query.get('tz'));
  const { since, bucket, zone: days } = askedFor(span.value, span.since, zone, now);
  const [asked, apart, nameOf] = await Promise.all([
    visit.ask('getStats', { query: { ...only, since, bucket } }),
    visit.ask('getStats', { query: { ...only, since, by } }),
    by === 'template' ? templateNames(visit) : new Map<string | null, string>(),
  ]);
  const overTime: Stats = days === null ? asked : { ...asked, bucket: 'day', data: daysOf(asked.data, days) };
  return view('stats', 'Stats', {
    span: {
      ...span,
      choices: span.choices
        .filter(({ value }) => value !== '1h')
        .map((one) => (one.value === 'all' ? { ...one, label: 'last year' } : one)),
    },
    query: Object.fromEntries(query),
    zone: zone ?? (query.get('tz') === null ? 'UTC' : (query.get('tz') ?? '')),
    isUnknownZone: zone === null && (query.get('tz') ?? '') !== '',
    isZoneKept: days !== null || zone === null || zone === 'UTC' || bucket === 'hour',
    zones,
    by: keys.map((key) => ({ key, label: key, on: key === by })),
    byLabel: by,
    isTest: query.get('test') === 'true',
    isFiltered: filters.some((name) => (query.get(name) ?? '') !== ''),
    total: overTime.total,
    rates: overTime.rates,
    volume: volumeChart(overTime),
    trouble: ratesChart('Share of mail that bounced or was deferred, over time', overTime, [
      ['bounced', 'sent'],
      ['deferred', 'sent'],
      ['complained', 'delivered'],
    ]),
    engagement: ratesChart('Share of delivered mail that was opened and clicked, over time', overTime, [
      ['opened', 'delivered'],
      ['clicked', 'delivered'],
    ]),
    rows: apart.data.map(({ key, counts }) => ({ key: nameOf.get(key) ?? key, counts, ...ratesOf(counts) })),
    isEmpty: overTime.total.sent === 0,
  });
}

/** Returns the names of the newest templates by id; older ones are shown by id. */
async function templateNames(visit: Visit): Promise<Map<string | null, string>> {
  const { data } = await visit.ask('listTemplates', {
    query: { limit: '100' },
  });
  return new Map(data.map(({ id, name }) => [id, name]));
}

function ratesOf(counts: Stats['total']): object {
  return {
    delivered: part(counts.delivered, counts.sent),
    bounced: part(counts.bounced, counts.sent),
    complained: part(counts.complained, counts.delivered),
    opened: part(counts.unique_opened, counts.delivered),
    clicked: part(counts.unique_clicked, counts.delivered),
  };
}

/** A recipient counts once, however often they open or click. */
const counted: Readonly<Partial<Record<StatType, StatType>>> = { opened: 'unique_opened', clicked: 'unique_clicked' };

/** Draws shares, at most 100 %: recipients open today what was delivered yesterday, so that a quiet day would show more. */
function ratesChart(about: string, stats: Stats, pairs: readonly (readonly [StatType, StatType])[]): string {
  const percent = (some: number, of: number): number | null =>
    of === 0 ? null : Math.min(100, Math.round((some / of) * 10_000) / 100);
  return chartHtml({
    label: about,
    yAxis: 'Share in %',
    kind: 'lines',
    unit: '%',
    ...stepsOf(stats),
    series: pairs.map(([name, of]) => ({
      name,
      values: stats.data.map(({ counts }) => percent(counts[counted[name] ?? name], counts[of])),
    })),
  });
}
