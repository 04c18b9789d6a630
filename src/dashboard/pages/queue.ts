/** The queue, for administrators: a row a lane with why it is so, what waits on disk by domain, and trying it now. */
import { linkTo } from '../links.ts';
import { adminGet, adminPost, move, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/queue';
const ROWS = 100;

export function queuePages(): Page[] {
  return [adminGet(WHERE, show), adminPost(`${WHERE}/flush`, flush)];
}

async function show(visit: Visit): Promise<Shown> {
  const { query } = visit;
  const domain = (query.get('domain') ?? '').trim().toLowerCase();
  const { data: lanes, domains } = await visit.operate('queue.lanes', {});
  const inside = domain === '' ? null : await visit.operate('queue.list', { domain, limit: ROWS });
  return view('queue', 'Queue', {
    lanes: lanes.filter(({ waiting, connections, parked_until: parked }) => waiting > 0 || connections > 0 || parked !== null),
    domains,
    waiting: domains.reduce((sum, one) => sum + one.waiting, 0),
    domain,
    inside,
    all: linkTo(WHERE, new URLSearchParams()),
  }); // prettier-ignore
}

async function flush(visit: Visit): Promise<Shown> {
  const domain = (visit.form.get('domain') ?? '').trim();
  const { flushed } = await visit.operate('queue.flush', domain === '' ? { all: true } : { domain });
  const back = domain === '' ? WHERE : linkTo(WHERE, new URLSearchParams({ domain }));
  return move(back, flushed === 0 ? 'Nothing waits for a later try.' : `${String(flushed)} are tried now.`);
}
