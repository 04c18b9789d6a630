/** One lane of a fleet from its states at the nodes. Pure. */
import type { LaneLimit, LaneReport } from '../messages/delivery/lane-report.ts';
import type { LaneWait } from '../messages/delivery/why.ts';
import type { NodeLane } from './engines.ts';

/** A lane as an operator of all nodes sees it. */
export interface FleetLane extends Omit<LaneReport, 'limits' | 'waits'> {
  /** The nodes that have it. */
  nodes: readonly string[];
  /** `node` is set if only that one of several has the limit. */
  limits: readonly (LaneLimit & { node: string | null })[];
  waits: readonly (LaneWait & { node: string | null })[];
}

/** Joins the states of one lane: sums of mail and connections, and of what differs by node each with its node. */
export function mergedLane(first: NodeLane, others: readonly NodeLane[]): FleetLane {
  const all = [first, ...others];
  const states = all.map(({ lane }) => lane);
  const newest = states.reduce((a, b) => (b.lastProgressAt > a.lastProgressAt ? b : a));
  const changed = states.reduce((a, b) => ((b.causeAt ?? 0) > (a.causeAt ?? 0) ? b : a));
  const parked = states.flatMap(({ parkedUntil }) => parkedUntil ?? []);
  return {
    name: first.lane.name,
    source: first.lane.source,
    nodes: all.map(({ node }) => node),
    waiting: sum(states, ({ waiting }) => waiting),
    slots: sum(states, ({ slots }) => slots),
    limit: others.length === 0 ? first.lane.limit : limitOf(states),
    perMinute: others.length === 0 ? first.lane.perMinute : rateOf(states),
    cause: changed.cause,
    causeAt: changed.causeAt,
    // If one node still sends, the lane is not parked.
    parkedUntil: parked.length < states.length ? null : Math.min(...parked),
    limits: joined(all, ({ limits }) => limits, limitKey),
    waits: joined(all, ({ waits }) => waits, waitKey),
    lastReply: newest.lastReply,
    lastProgressAt: newest.lastProgressAt,
  };
}

/** Returns how many connections all nodes may have together. */
function limitOf(states: readonly LaneReport[]): number {
  // Lanes that need no network have this many workers on each node; lanes of a site share the site's limit.
  if (states.every(({ limits }) => limits.length === 0)) return sum(states, ({ limit }) => limit);
  const shared = states.flatMap(({ limits }) =>
    limits.flatMap(({ what, by, to, domain }) =>
      what === 'connections' && by !== 'nodes' && domain === undefined ? [to] : [],
    ),
  );
  return Math.min(...shared);
}

/** Returns how many mails a minute all nodes may send together: the operator's limit is for all of them, a receiver's pace for each. */
function rateOf(states: readonly LaneReport[]): number | null {
  const of = (by: LaneLimit['by']): number[] =>
    states.flatMap(({ limits }) => {
      const own = limits.flatMap((one) =>
        one.what === 'mails_per_minute' && one.by === by && one.domain === undefined ? [one.to] : [],
      );
      return own.length === 0 ? [] : [Math.min(...own)];
    });
  const paces = of('receiver');
  const rates = [...of('operator'), ...(paces.length < states.length ? [] : [paces.reduce((a, b) => a + b, 0)])];
  return rates.length === 0 ? null : Math.min(...rates);
}

const sum = (states: readonly LaneReport[], value: (state: LaneReport) => number): number =>
  states.reduce((total, state) => total + value(state), 0);

const limitKey = ({ what, to, by, cause, domain = '' }: LaneLimit): string =>
  `${what} ${String(to)} ${by} ${domain} ${cause}`;
const waitKey = ({ reason, message }: LaneWait): string => `${reason} ${message}`;

/** Lists what the nodes have, each once: what all of them have without a node, the rest with the nodes that have it. */
function joined<One>(
  all: readonly NodeLane[],
  listOf: (lane: LaneReport) => readonly One[],
  keyOf: (one: One) => string,
): (One & { node: string | null })[] {
  const found = new Map<string, { one: One; nodes: string[] }>();
  for (const { node, lane } of all)
    for (const one of listOf(lane)) {
      const before = found.get(keyOf(one));
      if (before === undefined) found.set(keyOf(one), { one, nodes: [node] });
      else before.nodes.push(node);
    }
  return [...found.values()].map(({ one, nodes }) => ({
    ...one,
    node: nodes.length === all.length ? null : nodes.join(', '),
  }));
}
