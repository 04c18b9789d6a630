/** The overview: is mail going out, and does it arrive? */
import type { StatType } from '../../events/stats.ts';
import { figure, type Plot } from '../chart.ts';
import { spanOf } from '../links.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';

export interface StatsRecord {
  bucket: 'hour' | 'day' | 'total';
  total: Record<StatType, number>;
  rates: Record<'delivered' | 'bounced' | 'complained' | 'opened' | 'clicked', number | null>;
  data: { at: string; key: string | null; counts: Record<StatType, number> }[];
}

interface DomainList {
  data: { id: string; name: string; status: string }[];
}

const HOUR_MS = 3_600_000;
const MOST_SHOWN = 8;

export function overviewPages(): Page[] {
  return [get('/', overview)];
}

/** From which share on a number is a warning, and from which one mail is at risk: the large providers' own limits. */
const limits = { bounced: [0.02, 0.04], complained: [0.0004, 0.0008] } as const;

function levelOf(rate: number | null, [amber, red]: readonly [number, number]): 'good' | 'amber' | 'red' {
  if (rate === null || rate < amber) return 'good';
  return rate < red ? 'amber' : 'red';
}

async function overview(visit: Visit): Promise<Shown> {
  const { query, now } = visit;
  const span = spanOf(query, '24h', now);
  const isHourly = span.value === '24h' || span.value === '1h';
  const begin = isHourly ? new Date(Math.floor((now - 23 * HOUR_MS) / HOUR_MS) * HOUR_MS).toISOString() : span.since;
  const [stats, domains, problems, queue] = await Promise.all([
    visit.ask<StatsRecord>('getStats', { query: { bucket: isHourly ? 'hour' : 'day', since: begin } }),
    visit.ask<DomainList>('listDomains', { query: { status: 'any', limit: '100' } }),
    visit.ask<{ data: object[] }>('listMessages', { query: { status: 'bounced,complained,failed,deferred', created_after: new Date(now - 24 * HOUR_MS).toISOString(), limit: String(MOST_SHOWN) } }),
    visit.member.is_admin === 1 ? visit.operate('queue.lanes', {}) : null,
  ]); // prettier-ignore
  return view('overview', 'Overview', {
    span: {
      ...span,
      choices: span.choices.filter(({ value }) => value === '24h' || value === '7d' || value === '30d'),
    },
    total: stats.total,
    rates: stats.rates,
    levels: { bounced: levelOf(stats.rates.bounced, limits.bounced), complained: levelOf(stats.rates.complained, limits.complained) }, // prettier-ignore
    chart: volumeChart(stats),
    hasPlots: true,
    isEmpty: stats.total.sent === 0,
    problems: problems.data,
    domains: domains.data.filter(({ status }) => status !== 'verified'),
    hasDomains: domains.data.length > 0,
    queue: queue === null ? null : queueSummary(queue.domains),
  });
}

function queueSummary(
  domains: readonly { domain: string; waiting: number; due: number; oldest_due_at: string }[],
): object {
  const waiting = domains.reduce((sum, one) => sum + one.waiting, 0);
  const oldest = domains.map(({ oldest_due_at: at }) => at).sort()[0] ?? null;
  return { waiting, oldest, domains: domains.slice(0, MOST_SHOWN) };
}

/** Delivered, bounced and complained over time. */
export const volumeChart = (stats: StatsRecord): string =>
  figure({
    about: 'Recipients by what became of them, over time (UTC)',
    kind: 'bars',
    ...stepsOf(stats),
    series: (['delivered', 'bounced', 'complained'] as const).map((name) => ({
      name,
      values: stats.data.map(({ counts }) => counts[name]),
    })),
  });

export const stepsOf = ({ data, bucket }: Pick<StatsRecord, 'data' | 'bucket'>): Pick<Plot, 'times' | 'step'> => ({
  times: data.map(({ at }) => Date.parse(at)),
  step: bucket === 'hour' ? 'hour' : 'day',
});
