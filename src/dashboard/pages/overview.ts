/** The overview: how much of the mail arrives, against the time before, and what needs a person. */
import { DAY_MS } from '../../base/time.ts';
import { beginOfDay } from '../../base/zones.ts';
import type { Stats } from '../../client/types.ts';
import type { ResultOf } from '../../operator/routes.ts';
import { chartHtml, type Chart } from '../chart.ts';
import { comparable, deliveredText, ENOUGH, figureOf, sumUntil, type Counts } from '../comparison.ts';
import { linkTo } from '../links.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { destinationsOf } from '../queue-rows.ts';
import { numberText } from '../words.ts';

const MOST_SHOWN = 8;

export const overviewPages: readonly Page[] = [get('/', overview)];

/** The spans to choose from, with their days and what they are called. */
const spans = {
  today: { days: 1, label: 'Today', now: 'today', before: 'by this hour yesterday' },
  '7d': { days: 7, label: '7 days', now: 'in 7 days', before: 'in the 7 days before' },
  '30d': { days: 30, label: '30 days', now: 'in 30 days', before: 'in the 30 days before' },
} as const;
type Span = keyof typeof spans;

const isSpan = (name: string | null): name is Span => name !== null && Object.hasOwn(spans, name);

async function overview(visit: Visit): Promise<Shown> {
  const { query, isAdmin } = visit;
  const asked = query.get('range');
  const span: Span = isSpan(asked) ? asked : 'today';
  const [{ now, before, chart }, listed, queue, deferred, needs] = await Promise.all([
    numbersOf(visit, span),
    visit.ask('listDomains', { query: { status: 'any', limit: '1' } }),
    isAdmin ? visit.ask('queue.lanes') : null,
    isAdmin ? null : visit.ask('getMessageCount', { query: { status: 'deferred' } }),
    visit.ask('needs', { body: { account: visit.account.id } }),
  ]);
  const isAll = query.get('needs') === 'all';
  const words = spans[span];
  return view('overview', 'Overview', {
    chips: Object.entries(spans).map(([value, { label }]) => ({ label, href: `?range=${value}`, on: value === span })),
    sentence: deliveredText(now, before, words),
    sent: now.sent,
    sentBefore: before === null ? null : `${numberText(before.sent)} ${words.before}`,
    isFew: now.sent < ENOUGH,
    figures: (['bounced', 'complained'] as const).map((name) => ({
      ...figureOf(name, now, before),
      href: linkTo('/messages', { status: name, range: span === 'today' ? '24h' : span }),
    })),
    chart,
    isEmpty: now.sent === 0 && before === null,
    needs: isAll ? needs.data : needs.data.slice(0, MOST_SHOWN),
    moreNeeds: isAll ? 0 : Math.max(0, needs.data.length - MOST_SHOWN),
    poll: linkTo('/', query),
    here: '/',
    hasDomains: listed.data.length > 0,
    queue: queue === null ? null : waitingIn(queue),
    deferred: deferred === null ? null : deferred.count,
  });
}

/**
 * Reads the numbers of the span and of the one before it, up to the same hour. Today's are by the hour in the viewer's zone, which the
 * API knows for a month; longer spans are of days of UTC.
 */
async function numbersOf(visit: Visit, span: Span): Promise<{ now: Counts; before: Counts | null; chart: string }> {
  const { days } = spans[span];
  const isDay = days === 1;
  const zone = isDay ? visit.zone : 'UTC';
  const begin = beginOfDay(visit.now, zone) - (days - 1) * DAY_MS;
  const ask = (since: number, until: number): Promise<Stats> =>
    visit.ask('getStats', {
      query: {
        bucket: isDay ? 'hour' : 'day',
        since: new Date(since).toISOString(),
        until: new Date(until).toISOString(),
      },
    });
  const [now, before] = await Promise.all([ask(begin, begin + days * DAY_MS), ask(begin - days * DAY_MS, begin)]);
  const end = isDay ? visit.now - DAY_MS : begin;
  const past = comparable(now.total, sumUntil(before, end));
  const chart = volumeChart(now, past === null ? null : before, {
    outcomes: ['delivered', 'bounced'],
    zone,
    height: 150,
  });
  return { now: now.total, before: past, chart };
}

function waitingIn(lanes: ResultOf<'queue.lanes'>): object {
  const destinations = destinationsOf(lanes);
  return {
    waiting: destinations.reduce((sum, one) => sum + one.waiting, 0),
    oldest: lanes.oldest_at,
    next: destinations.flatMap(({ next }) => next ?? []).sort()[0] ?? null,
  };
}

/** Draws the outcomes over time, with times or days of the zone; and what was sent in the time before. */
export const volumeChart = (
  stats: Stats,
  before: Stats | null,
  { outcomes, ...more }: Pick<Chart, 'zone' | 'height'> & { outcomes: readonly (keyof Counts)[] },
): string =>
  chartHtml({
    label: 'Recipients by outcome, over time, with all that were sent in the time before',
    yAxis: 'Recipients',
    kind: 'bars',
    ...more,
    ...stepsOf(stats),
    series: [
      ...outcomes.map((name) => ({ name, values: stats.data.map(({ counts }) => counts[name]) })),
      ...(before === null
        ? []
        : [{ name: 'before', values: stats.data.map((_, place) => before.data[place]?.counts.sent ?? null) }]),
    ],
  });

export const stepsOf = ({
  data,
  bucket,
}: Pick<Stats, 'bucket'> & { data: readonly { at: string }[] }): Pick<Chart, 'times' | 'step'> => ({
  times: data.map(({ at }) => Date.parse(at)),
  step: bucket === 'hour' ? 'hour' : 'day',
});
