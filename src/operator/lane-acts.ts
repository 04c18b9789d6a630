/** Acts of operators on lanes, for each lane's history; kept in memory like the engine's own changes of limits. */
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { rfc3339 } from '../base/rfc3339.ts';
import type { LaneReport } from '../messages/delivery/lane-report.ts';
import type { Question } from './ask-nodes.ts';
import type { OperatorDeps } from './deps.ts';

export interface LaneAct {
  /** Milliseconds since the epoch. */
  at: number;
  /** `limit`, `hold`, `release`, `flush`, `cancel`; of the engine: what it has changed. */
  what: string;
  /** The new state, in words. */
  to: string;
  /** The person who did it, as the audit log names them, and their note. */
  cause: string;
}

const MOST_ACTS = 100;
const MOST_LANES = 1000;

export type LaneActs = ReturnType<typeof createLaneActs>;

export function createLaneActs() {
  const lanes = new LRUCache<string, LaneAct[]>({ max: MOST_LANES });
  return {
    note(lane: string, act: LaneAct): void {
      lanes.set(lane, [...(lanes.get(lane) ?? []), act].slice(-MOST_ACTS));
    },
    /** Oldest first. */
    of: (lane: string): readonly LaneAct[] => lanes.peek(lane) ?? [],
  };
}

/** A lane at one node, with the changes of its limits and the acts of operators that were performed there. */
interface LaneHistory {
  now: LaneReport | null;
  changes: readonly LaneAct[];
}

/** Asks what a node knows of a lane. */
export const laneQuestion: Question<Pick<OperatorDeps, 'mta' | 'laneActs'>, { lane: string }, LaneHistory> = {
  name: 'lane',
  args: z.strictObject({ lane: z.string().max(300) }),
  answer({ mta, laneActs }, { lane }) {
    const found = mta.lane(lane);
    return Promise.resolve({
      now: found?.now ?? null,
      changes: [...(found?.changes ?? []), ...laneActs.of(lane)],
    });
  },
};

/** Merges what the nodes remember in the order of time. */
export const historyOf = (nodes: readonly { node: string; acts: readonly LaneAct[] }[]) =>
  nodes
    .flatMap(({ node, acts }) => acts.map((act) => ({ ...act, node })))
    .sort((a, b) => a.at - b.at)
    .map(({ at, what, to, cause, node }) => ({ at: rfc3339(at), what, to, cause, node }));

/** Returns, for example, `ana@example.com: ticket 99`. */
export const byWhom = (actor: string, note: string | null = null): string =>
  `${actor.replace(/^member:/, '')}${note === null ? '' : `: ${note}`}`;
