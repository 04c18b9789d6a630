/** The overview: how much of the mail arrives, against the time before, and what needs a person. */
import type { ResultOf } from '../../operator/routes.ts';
import { deliveredText, ENOUGH, figureOf } from '../comparison.ts';
import { linkTo } from '../links.ts';
import { numbersOf, volumeChart } from '../numbers.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { destinationsOf } from '../queue-rows.ts';
import { rangeOf } from '../range.ts';
import { numberText, titleOf } from '../words.ts';

const MOST_SHOWN = 8;

export const overviewPages: readonly Page[] = [get('/', overview)];

async function overview(visit: Visit): Promise<Shown> {
  const { query, isAdmin } = visit;
  const range = rangeOf(visit, 'today', ['today', '7d', '30d']);
  const [{ overTime, past, before, zone, words }, listed, queue, deferred, needs] = await Promise.all([
    numbersOf(visit, range),
    visit.ask('listDomains', { query: { status: 'any', limit: '1' } }),
    isAdmin ? visit.ask('queue.lanes') : null,
    isAdmin ? null : visit.ask('getMessageCount', { query: { status: 'deferred' } }),
    visit.ask('needs', { body: { account: visit.account.id } }),
  ]);
  const isAll = query.get('needs') === 'all';
  const now = overTime.total;
  return view('overview', 'Overview', {
    chips: range.choices
      .filter(({ value }) => value !== 'custom')
      .map(({ value, label, on }) => ({ label: titleOf(label.replace('last ', '')), href: `?range=${value}`, on })),
    sentence: deliveredText(now, past, words),
    sent: now.sent,
    stats: linkTo('/stats', { range: range.value }),
    sentBefore: past === null ? null : `${numberText(past.sent)} ${words.before}`,
    isFew: now.sent < ENOUGH,
    figures: (['bounced', 'complained'] as const).map((name) => ({
      ...figureOf(name, now, past),
      href: linkTo('/messages', { status: name, range: range.value }),
    })),
    chart: volumeChart(overTime, before, { outcomes: ['delivered', 'bounced'], zone, height: 150, now: visit.now }),
    isEmpty: now.sent === 0 && past === null,
    needs: isAll ? needs.data : needs.data.slice(0, MOST_SHOWN),
    moreNeeds: isAll ? 0 : Math.max(0, needs.data.length - MOST_SHOWN),
    poll: linkTo('/', query),
    here: '/',
    hasDomains: listed.data.length > 0,
    queue: queue === null ? null : waitingIn(queue),
    deferred: deferred === null ? null : deferred.count,
  });
}

function waitingIn(lanes: ResultOf<'queue.lanes'>): object {
  const destinations = destinationsOf(lanes);
  return {
    waiting: destinations.reduce((sum, one) => sum + one.waiting, 0),
    oldest: lanes.oldest_at,
    next: destinations.flatMap(({ next }) => next ?? []).sort()[0] ?? null,
  };
}
