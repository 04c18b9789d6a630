/** The lanes of all nodes, and the lane of each domain. */
import { mapInSlices } from '../base/slices.ts';
import type { LaneChange, LaneReport } from '../messages/delivery/lane-report.ts';
import type { OperatorDeps } from './deps.ts';
import { figuresOf, type Figures, type FiguresDeps, type NodeFigure } from './node-figures.ts';

export interface Engine {
  mta: Pick<OperatorDeps['mta'], 'lanes' | 'lane' | 'lanesOfSite' | 'laneOf'>;
}

/** The dependencies of those who read the lanes of all nodes. */
export type EngineDeps = FiguresDeps & Engine;

/** Domains with waiting mail that lists have at most. */
export const MOST_DOMAINS = 1000;
/** Lanes of a node that are shown, the fullest first, besides those of the domains. */
export const MOST_LANES = 1000;

/** A lane at a node. */
export interface NodeLane {
  node: string;
  lane: LaneReport;
}

/** A lane with the last changes of its limits. */
interface ShownLane {
  lane: LaneReport;
  changes: readonly LaneChange[];
}
export type LaneFigure = NodeFigure<ShownLane>;

const MOST_CHANGES = 20;
const LANES_MS = 2_000;

/** The lanes of a node, those with work first. */
export const laneFigures: Figures<Engine, ShownLane> = {
  name: 'lanes',
  everyMs: LANES_MS,
  async read({ mta }) {
    const lanes = await mta.lanes(MOST_LANES, 'fullest');
    return await mapInSlices(lanes, (lane) => {
      const changes = mta.lane(lane.name)?.changes ?? [];
      return [lane.name, { lane, changes: changes.slice(-MOST_CHANGES) }] as const;
    });
  },
};

/** Returns the lanes of all nodes that have work or a limit, and those of these domains. */
export async function readLanes(deps: EngineDeps, domains: readonly string[]): Promise<readonly NodeLane[]> {
  const { mta, nodes } = deps;
  const sites = new Set(domains.map((domain) => mta.laneOf(domain)));
  const shown = await figuresOf(deps, laneFigures);
  const lanes = shown.map(({ node, value: { lane } }) => ({ node, lane }));
  const own = new Set(shown.flatMap(({ epoch, key }) => (epoch === nodes.epoch ? [key] : [])));
  const others = [...sites].flatMap((site) => mta.lanesOfSite(site)).filter(({ name }) => !own.has(name));
  return [
    ...lanes.filter(({ lane }) => sites.has(siteOf(lane.name, lane.source)) || !isIdle(lane)),
    ...others.map((lane) => ({ node: nodes.name, lane })),
  ];
}

const isIdle = ({ waiting, slots, waits, limits }: LaneReport): boolean =>
  waiting + slots + waits.length === 0 &&
  !limits.some(({ what, by }) => what === 'mails_per_minute' || by === 'operator');

/** Returns the lane's name without its source, as `laneOf` returns it for a domain. */
export const siteOf = (name: string, source: string | null): string =>
  source === null || !name.endsWith(`/${source}`) ? name : name.slice(0, -source.length - 1);
