/** Rows, sums, charts and reasons of the queue's page. Pure. */
import { limitWords } from '../base/pluralize.ts';
import type { Moment } from '../operator/metrics/meters.ts';
import type { ResultOf } from '../operator/routes.ts';
import { chartHtml } from './chart.ts';
import { linkTo } from './links.ts';

type Lanes = ResultOf<'queue.lanes'>;
type Lane = Lanes['data'][number];
type Kept = ResultOf<'queue.holds'>['others'][number];

/** Lanes of one site that differ by their source share its domains. */
const siteOf = ({ name, source }: Pick<Lane, 'name' | 'source'>): string =>
  source !== null && name.endsWith(`/${source}`) ? name.slice(0, -source.length - 1) : name;

/** Returns the test whether a domain's mail goes by a lane. */
export const isOfLane =
  (state: Pick<Lane, 'name' | 'source'>) =>
  ({ lane }: Pick<Lanes['domains'][number], 'lane'>): boolean =>
    lane === state.name || lane === siteOf(state);

/** Returns a row for each lane that has mail, connections, or a reason why mail waits; the fullest first. */
export function rowsOf({ data, domains }: Lanes) {
  const rows = data.map((state) => {
    const { name, held } = state;
    const own = domains.filter(isOfLane(state));
    const reasons = reasonsOf(state);
    const [first] = own.flatMap((one) => (isAllHeld(one) ? [] : one.oldest_due_at)).sort();
    return {
      name,
      href: hrefOf(name),
      // On disk and in memory.
      waiting: Math.max(state.waiting, state.waiting_in_all),
      held,
      next: first === undefined ? null : nextOf(state, first),
      oldest_at: own.flatMap(({ oldest_at: at }) => at ?? []).sort()[0] ?? null,
      state,
      reasons,
      answer: isQuoted(state.last_reply, reasons) ? null : state.last_reply,
    };
  });
  return rows
    .filter(({ waiting, state, reasons }) => waiting > 0 || state.connections > 0 || reasons.length > 0)
    .sort((a, b) => b.waiting - a.waiting);
}

/** Returns whether a reason has the words of an answer, which are shown there without its code. */
const isQuoted = (answer: string | null, reasons: readonly TimedReason[]): boolean =>
  answer !== null && reasons.some(({ message }) => message.includes(answer.replace(/^\d{3}[ -]/, '')));

export const isAllHeld = ({ held, waiting }: Lanes['domains'][number]): boolean => held === waiting;

/** A lane that rests tries nothing before the rest ends, whatever falls due. */
const nextOf = ({ waits }: Pick<Lane, 'waits'>, due: string): string =>
  waits.reduce((latest, { until }) => (until !== null && until > latest ? until : latest), due);

/** Returns the destinations with the time of their next try, as their lanes tell it; null if all mail there is held. */
export function destinationsOf({ data, domains }: Lanes) {
  const lanes = new Map(data.map((state) => [siteOf(state), state]));
  return domains.map((one) => ({
    ...one,
    next: isAllHeld(one) ? null : nextOf(lanes.get(one.lane) ?? { waits: [] }, one.oldest_due_at),
  }));
}

/** Returns null for mail whose host is not known yet: it has no lane to show. */
export const hrefOf = (name: string): string | null => (name.startsWith('~') ? null : laneLink(name));

export const laneLink = (name: string): string => linkTo('/queue/lane', { name });
export function sumOf({ data, domains, oldest_at: oldestAt }: Lanes): object {
  const sum = (value: (one: Lanes['domains'][number]) => number): number =>
    domains.reduce((total, one) => total + value(one), 0);
  return {
    waiting: sum(({ waiting }) => waiting),
    due: sum(({ due }) => due),
    held: sum(({ held }) => held),
    oldestAt,
    connections: data.reduce((total, { connections }) => total + connections, 0),
  };
}

/** The last four hours, one point a minute. */
const SHOWN_MOMENTS = 240;

export function plotsOf(all: readonly Moment[], zone: string): object | null {
  const moments = all.slice(-SHOWN_MOMENTS);
  if (moments.length < 2) return null;
  const times = moments.map(({ at }) => at);
  const accept = moments.some((one) => one.accept !== null);
  return {
    depth: chartHtml({
      label: 'Recipients that wait, one point a minute',
      yAxis: 'Recipients waiting',
      kind: 'lines',
      step: 'minute',
      zone,
      times,
      series: [{ name: 'waiting', values: moments.map(({ waiting }) => waiting) }],
    }),
    accept: accept
      ? chartHtml({
          label: 'Time to answer a send request, one point a minute',
          yAxis: 'Milliseconds',
          kind: 'lines',
          unit: 'ms',
          step: 'minute',
          zone,
          times,
          series: (['p50', 'p95', 'p99'] as const).map((name) => ({
            name,
            values: moments.map((one) => one.accept?.[name] ?? null),
          })),
        })
      : null,
  };
}

export interface TimedReason {
  message: string;
  since: string | null;
  until: string | null;
}

/** Returns why mail of a lane waits, then each limit that was set, with its cause. */
export function reasonsOf({ waits, limits }: Pick<Lane, 'waits' | 'limits'>): TimedReason[] {
  const set = limits
    // The connections that other nodes have are a reason only if mail waits for one: it is among the waits then.
    .filter(({ by }) => by !== 'start' && by !== 'nodes')
    // A rate limit that mail waits for is already among the reasons.
    .filter(({ what }) => what === 'connections' || !waits.some(({ reason }) => reason === 'rate_limited'))
    .map(({ what, to, cause, since }) => ({ message: `${limitWords(what, to)}: ${cause}`, since, until: null }));
  return [...waits.map(({ message, since, until }) => ({ message, since, until })), ...set];
}

/** The page about each kind of hold or limit, and what its link is called. */
const keptPages: Readonly<Record<Kept['by'], (target: string) => readonly [href: string, link: string]>> = {
  rest: (lane) => [laneLink(lane), 'The lane'],
  block_list: () => ['/settings/sources', 'Addresses'],
  warm_up: () => ['/settings/sources', 'Addresses'],
  no_source: () => ['/settings/sources', 'Addresses'],
  route: (domain) => [linkTo('/queue', { domain }), 'Its mail'],
  domain_refused: () => ['/domains', 'Domains'],
  stream_pause: () => ['/streams', 'Streams'],
  operator: () => ['/queue#holds', 'Holds'],
  account_pause: () => ['/queue#holds', 'Holds'],
};

/** Returns lines about mail that is held or limited; with the domain that `Try now` applies to, if one does. */
export const keptLines = (others: readonly Kept[], domains: readonly { domain: string; lane: string }[]) =>
  others.map(({ by, target, message, since, until, waiting }) => {
    const [href, link] = keptPages[by](target);
    const isTried = by === 'rest' || by === 'block_list';
    const domain = isTried ? (domains.find(({ lane }) => lane === target)?.domain ?? null) : null;
    return { message, since, until, waiting, href, link, domain };
  });
