/** Rows, sums and charts of the queue's page. Pure. */
import type { Moment } from '../operator/metrics/history.ts';
import type { ResultOf } from '../operator/routes.ts';
import { chartHtml } from './chart.ts';
import { linkTo } from './links.ts';
import { reasonsOf, type TimedReason } from './waiting.ts';

type Lanes = ResultOf<'queue.lanes'>;

interface LaneRow {
  name: string;
  href: string | null;
  /** Waiting deliveries, on disk and in memory. */
  waiting: number;
  due: number;
  held: number;
  /** When its mail is tried next: when the first falls due, or later if the lane rests. */
  next: string | null;
  /** When the oldest was accepted. */
  oldest_at: string | null;
  state: Lanes['data'][number];
  reasons: TimedReason[];
  /** The last answer, if no reason quotes it. */
  answer: string | null;
}

/** Lanes of one site that differ by their source share its domains. */
const siteOf = ({ name, source }: Pick<Lanes['data'][number], 'name' | 'source'>): string =>
  source !== null && name.endsWith(`/${source}`) ? name.slice(0, -source.length - 1) : name;

/** Returns the test whether a domain's mail goes by a lane. */
export const isOfLane =
  (state: Pick<Lanes['data'][number], 'name' | 'source'>) =>
  ({ lane }: Pick<Lanes['domains'][number], 'lane'>): boolean =>
    lane === state.name || lane === siteOf(state);

/** Returns a row for each lane that has mail, connections, or a reason why mail waits; the fullest first. */
export function rowsOf({ data, domains }: Lanes): LaneRow[] {
  const rows = data.map((state): LaneRow => {
    const { name, held } = state;
    const own = domains.filter(isOfLane(state));
    const reasons = reasonsOf(state);
    const [first] = own.map(({ oldest_due_at: at }) => at).sort();
    return {
      name,
      href: hrefOf(name),
      waiting: Math.max(state.waiting, state.waiting_in_all),
      due: own.reduce((sum, { due }) => sum + due, 0),
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

/** A lane that rests tries nothing before the rest ends, whatever falls due. */
const nextOf = ({ waits }: Pick<Lanes['data'][number], 'waits'>, due: string): string =>
  waits.reduce((latest, { until }) => (until !== null && until > latest ? until : latest), due);

/** Returns the destinations with the time of their next try, as their lanes tell it. */
export function destinationsOf({ data, domains }: Lanes) {
  const lanes = new Map(data.map((state) => [siteOf(state), state]));
  return domains.map((one) => ({ ...one, next: nextOf(lanes.get(one.lane) ?? { waits: [] }, one.oldest_due_at) }));
}

/** Returns null for mail whose host is not known yet: it has no lane to show. */
export const hrefOf = (name: string): string | null => (name.startsWith('~') ? null : laneLink(name));

export const laneLink = (name: string): string => linkTo('/queue/lane', new URLSearchParams({ name }));
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

/** A bar of the ages of waiting mail. */
interface AgeBar {
  label: string;
  count: number;
}

export function ageBars(ages: ResultOf<'queue.lane'>['ages']): AgeBar[] {
  const bars: readonly (readonly [label: string, count: number])[] = [
    ['under 1 min', ages.under_1m],
    ['1 to 10 min', ages.under_10m],
    ['10 min to 1 h', ages.under_1h],
    ['1 to 6 h', ages.under_6h],
    ['6 to 24 h', ages.under_24h],
    ['over 24 h', ages.older],
  ];
  return bars.map(([label, count]) => ({ label, count }));
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
