/** Numbers over time and told apart by stream, tag, sending domain or mailbox provider. */
import { statKeys } from '../../events/stats-store.ts';
import { spanOf } from '../links.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { barChart } from '../chart.ts';
import { volumeChart, type StatsRecord } from './overview.ts';

const WHERE = '/stats';
const HOUR_MS = 3_600_000;
const filters = ['stream', 'tag', 'domain', 'provider', 'test'] as const;

export function statsPages(): Page[] {
  return [get(WHERE, show)];
}

async function show(visit: Visit): Promise<Shown> {
  const { query, now } = visit;
  const span = spanOf(query, '30d', now);
  const isHourly = span.value === '24h' || span.value === '1h';
  const only = Object.fromEntries(filters.map((name) => [name, query.get(name)]));
  const by = statKeys.find((key) => key === query.get('by')) ?? 'provider';
  const since = isHourly ? new Date(Math.floor((now - 23 * HOUR_MS) / HOUR_MS) * HOUR_MS).toISOString() : span.value === 'all' ? new Date(now - 365 * 24 * HOUR_MS).toISOString() : span.since; // prettier-ignore
  const [overTime, apart] = await Promise.all([
    visit.ask<StatsRecord>('getStats', { query: { ...only, since, bucket: isHourly ? 'hour' : 'day' } }),
    visit.ask<StatsRecord>('getStats', { query: { ...only, since, by } }),
  ]);
  return view('stats', 'Stats', {
    span: { ...span, choices: span.choices.filter(({ value }) => value !== '1h').map((one) => (one.value === 'all' ? { ...one, label: 'last year' } : one)) },
    query: Object.fromEntries(query),
    by: statKeys.map((key) => ({ key, label: key, on: key === by })),
    byLabel: by,
    isTest: query.get('test') === 'true',
    isFiltered: filters.some((name) => (query.get(name) ?? '') !== ''),
    total: overTime.total,
    rates: overTime.rates,
    volume: volumeChart(overTime),
    engagement: engagementChart(overTime),
    rows: apart.data.map(({ key, counts }) => ({ key, counts, ...ratesOf(counts) })),
    isEmpty: overTime.total.sent === 0,
  }); // prettier-ignore
}

function ratesOf(counts: StatsRecord['total']): object {
  const part = (some: number, of: number): number | null => (of === 0 ? null : some / of);
  return {
    delivered: part(counts.delivered, counts.sent),
    bounced: part(counts.bounced, counts.sent),
    complained: part(counts.complained, counts.delivered),
    opened: part(counts.unique_opened, counts.delivered),
    clicked: part(counts.unique_clicked, counts.delivered),
  };
}

function engagementChart({ data, bucket }: StatsRecord): string {
  const labels = data.map(({ at }) => (bucket === 'hour' ? at.slice(11, 16) : at.slice(5, 10)));
  const values = data.map(({ counts }) => counts.unique_opened);
  return barChart(labels, [{ name: 'opened', values }], 'Recipients who opened, over time (UTC)');
}
