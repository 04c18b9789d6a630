/** The lanes of all nodes, and the lane of each domain as the node that delivers to it knows it. */
import { z } from 'zod';
import { groupBy } from '../base/sets.ts';
import { askEach, ownerOf, type AskDeps, type Question } from './ask-nodes.ts';
import type { LaneReport } from '../messages/delivery/lane-report.ts';
import type { OperatorDeps } from './deps.ts';

interface Engine {
  mta: Pick<OperatorDeps['mta'], 'lanes' | 'lanesOfSite' | 'laneOf'>;
}

/** The dependencies of those who read the engines of all nodes. */
export type EngineDeps = AskDeps & Engine;

/** The lane of domains whose node has not answered. */
export const UNANSWERED = '~unanswered';
/** Domains in one question, which is the most that lists of waiting domains have. */
export const MOST_DOMAINS = 1000;
/** Lanes of a node that are read, the fullest first, besides those of the domains. */
export const MOST_LANES = 1000;

/** A lane at a node. */
export interface NodeLane {
  node: string;
  lane: LaneReport;
}

export interface Engines {
  lanes: readonly NodeLane[];
  laneOf: (domain: string) => string;
  /** Names of all nodes that have answered. */
  nodes: readonly string[];
  /** Names of the nodes that have not. */
  unanswered: readonly string[];
}

interface Known {
  /** The lanes that have work or a limit, then the other lanes of the domains. */
  lanes: readonly LaneReport[];
  /** The lanes of the domains, in their order. */
  lanesOf: readonly string[];
}

/** Asks what a node knows of its lanes, and of the lanes of these domains. `most` bounds the lanes, the fullest first; 0 asks for none. */
export const engineQuestion: Question<Engine, { domains: readonly string[]; most: number }, Known> = {
  name: 'engine',
  args: z.strictObject({
    domains: z.array(z.string().max(300)).max(MOST_DOMAINS),
    most: z.int().min(0),
  }),
  async answer({ mta }, { domains, most }) {
    const lanesOf = domains.map((domain) => mta.laneOf(domain));
    if (most === 0) return { lanes: [], lanesOf };
    const atWork = await mta.lanes(most, 'fullest');
    const names = new Set(atWork.map(({ name }) => name));
    const atRest = [...new Set(lanesOf)]
      .flatMap((site) => mta.lanesOfSite(site))
      .filter(({ name }) => !names.has(name));
    return { lanes: [...atWork, ...atRest], lanesOf };
  },
};

/** Asks every node for the lanes of domains: at most `MOST_DOMAINS`, but for one node alone. Makes no report of any lane. */
export const readLanesOf = (
  deps: EngineDeps,
  domains: readonly string[],
): Promise<Pick<Engines, 'laneOf' | 'unanswered'>> => readEngines(deps, domains, { withLanes: false });

/** Asks every node for its fullest lanes as well. */
export async function readEngines(
  deps: EngineDeps,
  domains: readonly string[],
  { withLanes = true }: { withLanes?: boolean } = {},
): Promise<Engines> {
  const owned = groupBy(domains, (domain) => ownerOf(deps, domain)?.epoch ?? deps.nodes.epoch);
  // A node of an older version refuses to answer with no lane.
  const [own, others] = withLanes ? [MOST_LANES, MOST_LANES] : [0, 1];
  const { from, unanswered } = await askEach(deps, engineQuestion, ({ epoch }) => ({
    domains: owned.get(epoch) ?? [],
    most: epoch === deps.nodes.epoch ? own : others,
  }));
  const lanes = new Map<string, string>();
  for (const { epoch, result } of from)
    for (const [at, domain] of (owned.get(epoch) ?? []).entries()) lanes.set(domain, result.lanesOf[at] ?? UNANSWERED);
  return {
    lanes: from.flatMap(({ node, result }) => result.lanes.map((lane) => ({ node, lane }))),
    laneOf: (domain) => lanes.get(domain) ?? UNANSWERED,
    nodes: from.map(({ node }) => node),
    unanswered,
  };
}
