/** How mailbox providers take our mail: what bounced, was put off and was complained about, by provider, day by day. */
import { providerNames, type StatType } from '../../events/stats.ts';
import { figure, type Mark } from '../chart.ts';
import { linkTo, spanOf } from '../links.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { sortedBy, sortingOf } from '../sort.ts';
import { levelOf, limits, stepsOf, type StatsRecord } from './overview.ts';

const WHERE = '/reputation';
/** Of the reports' lines the newest are shown; `posthorn reputation` prints all. */
const MOST_REPORTED = 100;

export function reputationPages(): Page[] {
  return [get(WHERE, show)];
}

async function show(visit: Visit): Promise<Shown> {
  const { query, now } = visit;
  const span = spanOf(query, '30d', now);
  const provider = providerNames.find((name) => name === query.get('provider')) ?? null;
  const days = span.value === '7d' ? 7 : 30;
  const server = visit.member.is_admin === 1;
  const [apart, overTime, reports, moments] = await Promise.all([
    visit.ask<StatsRecord>('getStats', { query: { since: span.since, by: 'provider' } }),
    visit.ask<StatsRecord>('getStats', { query: { since: span.since, bucket: 'day', provider } }),
    visit.operate('reputation', { account: visit.account.id, days }),
    visit.operate('reputation.moments', { account: visit.account.id, days, server }),
  ]);
  const order = sortingOf({ path: WHERE, query }, columns, { usual: '-sent', words: ['provider'] });
  const marks = moments.data.map(({ at, kind, what }) => ({ at: Date.parse(at), text: `${kind}: ${what}` }));
  return view('reputation', 'Reputation', {
    hasPlots: true,
    span: { ...span, choices: span.choices.filter(({ value }) => value === '7d' || value === '30d') },
    provider,
    all: linkTo(WHERE, query, { provider: null }),
    rows: sortedBy(
      apart.data.map(({ key, counts }) => lineOf(query, key ?? 'other', counts)),
      order,
      (line, column) => line[column],
    ),
    headings: order.headings,
    dmarc: reports.dmarc
      .slice(-MOST_REPORTED)
      .reverse()
      .map((line) => ({ ...line, isAligned: line.dkim === 'pass' || line.spf === 'pass' })),
    tls: reports.tls
      .slice(-MOST_REPORTED)
      .reverse()
      .map((line) => ({ ...line, isWell: line.result === 'success' })),
    moments: [...moments.data].reverse(),
    checks: moments.checks.map((one) => ({ ...one, isListed: one.state === 'listed' })),
    isEmpty: apart.total.sent === 0,
    trouble: countsChart(
      overTime,
      'Recipients that bounced and that were deferred, by day',
      ['bounced', 'deferred'],
      marks,
    ),
    complaints: countsChart(overTime, 'Complaints, by day', ['complained'], marks),
  });
}

const columns = ['provider', 'sent', 'delivered', 'bounced', 'blocked', 'deferred', 'complained'] as const;

function lineOf(query: URLSearchParams, provider: string, counts: StatsRecord['total']) {
  const part = (some: number, of: number): number | null => (of === 0 ? null : some / of);
  const [bounced, complained] = [part(counts.bounced, counts.sent), part(counts.complained, counts.delivered)];
  return {
    provider,
    href: linkTo(WHERE, query, { provider }),
    counts,
    sent: counts.sent,
    delivered: counts.delivered,
    bounced,
    complained,
    blocked: part(counts.bounced_block, counts.sent),
    deferred: part(counts.deferred, counts.sent),
    bouncedLevel: levelOf(bounced, limits.bounced),
    complainedLevel: levelOf(complained, limits.complained),
  };
}

const countsChart = (stats: StatsRecord, about: string, types: readonly StatType[], marks: readonly Mark[]): string =>
  figure({
    about,
    counts: 'Recipients',
    kind: 'bars',
    ...stepsOf(stats),
    series: types.map((name) => ({ name, values: stats.data.map(({ counts }) => counts[name]) })),
    marks,
  });
