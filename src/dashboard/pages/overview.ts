/** The overview: sent, delivered and bounced mail, and what needs attention. */
import { statfs } from 'node:fs/promises';
import type { Stats } from '../../client/types.ts';
import { linkTo } from '../links.ts';
import { chartHtml, type Chart } from '../chart.ts';
import type { ResultOf } from '../../operator/routes.ts';
import type { DashboardDeps } from '../deps.ts';
import { rangeOf } from '../range.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { HOUR_MS } from '../../base/time.ts';
import { mailFolder } from '../../storage/database.ts';

const MOST_SHOWN = 8;

type Deps = Pick<DashboardDeps, 'config'>;

export const overviewPages = (deps: Deps): Page[] => [get('/', (visit) => overview(deps, visit))];

/** Shares from which a number is amber and red: the limits of the large mailbox providers. */
export const limits = { bounced: [0.02, 0.04], complained: [0.0004, 0.0008] } as const;

export function levelOf(rate: number | null, [amber, red]: readonly [number, number]): 'good' | 'amber' | 'red' {
  if (rate === null || rate < amber) return 'good';
  return rate < red ? 'amber' : 'red';
}

async function overview({ config }: Deps, visit: Visit): Promise<Shown> {
  const { now, query } = visit;
  const span = rangeOf(visit, '24h', ['24h', '7d', '30d']);
  const isHourly = span.value === '24h' || span.value === '1h';
  const begin = isHourly ? new Date(Math.floor((now - 23 * HOUR_MS) / HOUR_MS) * HOUR_MS).toISOString() : span.since;
  const isAdmin = visit.isAdmin;
  const [stats, listed, problems, settings, queue, needs, disk] = await Promise.all([
    visit.ask('getStats', { query: { bucket: isHourly ? 'hour' : 'day', since: begin } }),
    visit.ask('listDomains', { query: { status: 'any', limit: '1' } }),
    visit.ask('listMessages', {
      query: {
        status: 'bounced,complained,failed',
        created_after: new Date(now - 24 * HOUR_MS).toISOString(),
        limit: String(MOST_SHOWN),
      },
    }),
    visit.may('settings') ? visit.ask('getSettings') : null,
    isAdmin ? visit.ask('queue.lanes') : null,
    visit.ask('needs', { body: { account: visit.account.id } }),
    isAdmin ? diskOf(mailFolder(config)) : null,
  ]);
  const needed = needs.data;
  return view('overview', 'Overview', {
    span: {
      ...span,
      choices: span.choices.filter(({ value }) => value !== 'custom'),
    },
    total: stats.total,
    rates: stats.rates,
    levels: {
      bounced: levelOf(stats.rates.bounced, limits.bounced),
      complained: levelOf(stats.rates.complained, limits.complained),
    },
    chart: volumeChart(stats, isHourly ? visit.zone : 'UTC'),
    isEmpty: stats.total.sent === 0,
    problems: problems.data,
    needs: query.get('needs') === 'all' ? needed : needed.slice(0, MOST_SHOWN),
    moreNeeds: query.get('needs') === 'all' ? 0 : Math.max(0, needed.length - MOST_SHOWN),
    poll: linkTo('/', query),
    here: '/',
    hasDomains: listed.data.length > 0,
    retention: settings?.retention ?? null,
    queue: queue === null ? null : queueSummary(queue, now),
    disk,
  });
}

const LITTLE_FREE = 0.1;

async function diskOf(folder: string): Promise<{ free: number; share: number; level: 'good' | 'amber' }> {
  const { bavail, blocks, bsize } = await statfs(folder);
  const share = blocks === 0 ? 1 : bavail / blocks;
  return { free: bavail * bsize, share, level: share < LITTLE_FREE ? 'amber' : 'good' };
}

/** How long mail may be overdue, and how old it may be, before it is marked: greylisting takes minutes, and few mails need a day. */
const OVERDUE_MS = HOUR_MS;
const OLD_MS = 24 * HOUR_MS;

function queueSummary({ domains, oldest_at: oldest }: ResultOf<'queue.lanes'>, now: number): object {
  const waiting = domains.reduce((sum, one) => sum + one.waiting, 0);
  const due = domains.map(({ oldest_due_at: at }) => at).sort()[0] ?? null;
  const isBefore = (at: string | null, ms: number): boolean => at !== null && Date.parse(at) + ms < now;
  const isOld = isBefore(due, OVERDUE_MS) || isBefore(oldest, OLD_MS);
  return { waiting, oldest, due, isOld, domains: domains.slice(0, MOST_SHOWN) };
}

export const part = (some: number, of: number): number | null => (of === 0 ? null : some / of);

/** Draws delivered, bounced and complained over time, with times or days of the zone. */
export const volumeChart = (stats: Stats, zone: string): string =>
  chartHtml({
    label: 'Recipients by outcome, over time',
    zone,
    yAxis: 'Recipients',
    kind: 'bars',
    ...stepsOf(stats),
    series: (['delivered', 'bounced', 'complained'] as const).map((name) => ({
      name,
      values: stats.data.map(({ counts }) => counts[name]),
    })),
  });

export const stepsOf = ({
  data,
  bucket,
}: Pick<Stats, 'bucket'> & { data: readonly { at: string }[] }): Pick<Chart, 'times' | 'step'> => ({
  times: data.map(({ at }) => Date.parse(at)),
  step: bucket === 'hour' ? 'hour' : 'day',
});
