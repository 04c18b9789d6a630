/** One lane of a fleet from its states at the nodes. Pure. */
import type { LaneLimit, LaneReport } from '../messages/delivery/lane-report.ts';
import type { NodeLane } from './engines.ts';

/** A lane as an operator of all nodes sees it. */
export interface FleetLane extends LaneReport {
  /** The nodes that have it. */
  nodes: readonly string[];
}

/** Joins the states of one lane: sums of mail and connections, and each limit and wait once. */
export function mergedLane(first: NodeLane, others: readonly NodeLane[]): FleetLane {
  const all = [first, ...others];
  if (others.length === 0) return { ...first.lane, nodes: [first.node] };
  const states = all.map(({ lane }) => lane);
  const changed = states.reduce((a, b) => ((b.causeAt ?? 0) > (a.causeAt ?? 0) ? b : a));
  const newest = states.reduce((a, b) => (b.lastProgressAt > a.lastProgressAt ? b : a));
  const parked = states.flatMap(({ parkedUntil }) => parkedUntil ?? []);
  return {
    name: first.lane.name,
    source: first.lane.source,
    nodes: all.map(({ node }) => node),
    waiting: sum(states, ({ waiting }) => waiting),
    slots: sum(states, ({ slots }) => slots),
    limit: limitOf(states),
    perMinute: rateOf(states),
    cause: changed.cause,
    causeAt: changed.causeAt,
    // If one node still sends, the lane is not parked.
    parkedUntil: parked.length < states.length ? null : Math.min(...parked),
    limits: once(
      states.flatMap(({ limits }) => limits),
      ({ what, to, by, cause, domain = '' }) => [what, to, by, domain, cause].join(' '),
    ),
    waits: once(
      states.flatMap(({ waits }) => waits),
      ({ message }) => message,
    ),
    lastReply: newest.lastReply,
    lastProgressAt: newest.lastProgressAt,
  };
}

/** Returns how many connections all nodes may have together: lanes that need no network have this many workers at each node. */
function limitOf(states: readonly LaneReport[]): number {
  const shared = states.flatMap(({ limits }) =>
    limits.flatMap(({ what, by, to, domain }) =>
      what === 'connections' && by !== 'nodes' && domain === undefined ? [to] : [],
    ),
  );
  return shared.length === 0 ? sum(states, ({ limit }) => limit) : Math.min(...shared);
}

/** Returns how many mails a minute all nodes may send together: the operator's limit is for all of them, a receiver's pace for each. */
function rateOf(states: readonly LaneReport[]): number | null {
  const of = (by: LaneLimit['by']): number[] =>
    states.flatMap(({ limits }) => {
      const own = limits.filter((one) => one.what === 'mails_per_minute' && one.by === by && one.domain === undefined);
      return own.length === 0 ? [] : [Math.min(...own.map(({ to }) => to))];
    });
  const paces = of('receiver');
  const rates = [...of('operator'), ...(paces.length < states.length ? [] : [paces.reduce((a, b) => a + b, 0)])];
  return rates.length === 0 ? null : Math.min(...rates);
}

const sum = (states: readonly LaneReport[], value: (state: LaneReport) => number): number =>
  states.reduce((total, state) => total + value(state), 0);

const once = <One>(all: readonly One[], keyOf: (one: One) => string): One[] => [
  ...new Map(all.map((one) => [keyOf(one), one])).values(),
];
