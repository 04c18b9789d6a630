/** How mailbox providers treat the mail: bounces, deferrals and complaints by provider and by source, day by day. */
import { providerNames } from '../../base/mailbox-providers.ts';
import type { ResultOf } from '../../operator/routes.ts';
import type { Stats } from '../../client/types.ts';
import { chartHtml } from '../chart.ts';
import { filtersOf } from '../filters.ts';
import { linkTo } from '../links.ts';
import { rangeOf } from '../range.ts';
import { providerText } from '../words.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { sortedRows } from '../sort.ts';
import { limits, overOf, part } from '../comparison.ts';
import { daysFor, stepsOf } from '../numbers.ts';
import { DAY_MS } from '../../base/time.ts';

const WHERE = '/reputation';
/** Most lines of reports that are shown, the newest first; `posthorn reputation` prints all. */
const MOST_REPORTED = 100;
/** The longest time that is looked at. */
const MOST_DAYS = 365;

export const reputationPages: readonly Page[] = [get(WHERE, show)];

async function show(visit: Visit): Promise<Shown> {
  const { query, now } = visit;
  const range = rangeOf(visit, '30d', ['7d', '30d']);
  const provider = providerNames.find((name) => name === query.get('provider')) ?? null;
  const { filters } = filtersOf(
    WHERE,
    query,
    [{ name: 'provider', choices: providerNames.map((name) => [name, providerText(name)]) }, { name: 'source' }],
    { range, button: 'Show' },
  );
  const { since, ...asked } = daysFor(range, now);
  // Sources are counted by days of UTC.
  const zone = query.has('source') ? 'UTC' : (asked.time_zone ?? 'UTC');
  const days = Math.max(1, Math.min(MOST_DAYS, Math.ceil((now - Date.parse(since)) / DAY_MS)));
  const lastDay = (range.until ?? new Date(now).toISOString()).slice(0, 10);
  const isWithin = ({ day }: { day: string }): boolean => day <= lastDay;
  const overTime = await visit.ask('getStats', { query: { ...asked, since, provider, time_zone: zone } });
  const [apart, reports] = await Promise.all([
    visit.ask('getStats', { query: { since: overTime.since, until: overTime.until, by: 'provider' } }),
    visit.ask('reputation', { body: { account: visit.account.id, days } }),
  ]);
  const providers = apart.data.map(({ key, counts }) => {
    const provider = key ?? 'other';
    const href = linkTo(WHERE, query, { provider, source: null });
    return { provider, name: providerText(provider), href, ...cellsOf(counts) };
  });
  const sources = sourceLines(query, reports.sources.filter(isWithin));
  const source = sources.find((one) => one.source === query.get('source'))?.source ?? null;
  const bySource = sortedRows(sources, { path: WHERE, query, name: 'sources' }, ['source', ...shares], 'source');
  const charted: Charted = source === null ? overTime : daysOf(source, reports.sources, overTime);
  const marks = reports.moments.map(({ at, kind, what }) => ({ at: Date.parse(at), text: `${kind}: ${what}` }));
  const chartOf = (label: string, types: readonly ChartedType[]): string =>
    chartHtml({
      label,
      zone,
      now,
      yAxis: 'Recipients',
      kind: 'bars',
      ...stepsOf(charted),
      series: types.map((name) => ({ name, values: charted.data.map(({ counts }) => counts[name]) })),
      marks,
    });
  return view('reputation', 'Reputation', {
    filters,
    sources: bySource.rows,
    sourceHeadings: bySource.headings,
    ...sortedRows(providers, { path: WHERE, query }, ['provider', ...shares], '-sent'),
    dmarc: reports.dmarc.filter(isWithin).slice(-MOST_REPORTED).reverse(),
    tls: reports.tls.filter(isWithin).slice(-MOST_REPORTED).reverse(),
    moments: reports.moments
      .filter(({ at }) => range.until === null || at < range.until)
      .map((one) => ({ ...one, by: one.by?.replace(/^member:/, '') }))
      .reverse(),
    checks: reports.block_lists,
    isEmpty: apart.total.sent === 0,
    trouble: chartOf('Recipients that bounced and that were deferred, by day', ['bounced', 'deferred']),
    complaints: chartOf('Complaints, by day', ['complained']),
  });
}

const shares = ['sent', 'delivered', 'bounced', 'blocked', 'deferred', 'complained'] as const;
const counted = ['sent', 'delivered', 'bounced', 'bounced_block', 'deferred', 'complained'] as const;
type Counted = (typeof counted)[number];

function cellsOf({ sent, delivered, bounced, bounced_block, deferred, complained }: Record<Counted, number>) {
  const [bounces, complaints] = [part(bounced, sent), part(complained, delivered)];
  return {
    sent,
    delivered,
    bounced: bounces,
    complained: complaints,
    blocked: part(bounced_block, sent),
    deferred: part(deferred, sent),
    bouncedOver: overOf(bounces, limits.bounced, sent),
    complainedOver: overOf(complaints, limits.complained, delivered),
  };
}

type SourceDays = readonly ResultOf<'reputation'>['sources'][number][];

/** Returns a line for each source, with the sums of its days. */
function sourceLines(query: URLSearchParams, days: SourceDays) {
  return [...new Set(days.map(({ source }) => source))].map((source) => {
    const own = days.filter((one) => one.source === source);
    const sum = (type: Counted): number => own.reduce((all, { counts }) => all + counts[type], 0);
    const counts = Object.fromEntries(counted.map((type) => [type, sum(type)])) as Record<Counted, number>;
    return { source, href: linkTo(WHERE, query, { source, provider: null }), ...cellsOf(counts) };
  });
}

/** Returns the days of all mail, with the numbers of one source. */
function daysOf(source: string, days: SourceDays, { bucket, data }: Stats): Charted {
  const own = new Map(days.filter((one) => one.source === source).map(({ day, counts }) => [day, counts]));
  const none = { bounced: 0, deferred: 0, complained: 0 };
  return { bucket, data: data.map(({ at, key }) => ({ at, key, counts: own.get(at.slice(0, 10)) ?? none })) };
}

type ChartedType = 'bounced' | 'deferred' | 'complained';
interface Charted extends Pick<Stats, 'bucket'> {
  data: { at: string; key: string | null; counts: Record<ChartedType, number> }[];
}
