/** Acts of operators on lanes, for each lane's history; kept in memory like the engine's own changes of limits. */
import { LRUCache } from 'lru-cache';
import { rfc3339 } from '../base/rfc3339.ts';

export interface LaneAct {
  at: number;
  /** `limit`, `hold`, `release`, `flush`, `resend`. */
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

/** Merges the engine's changes and the operators' acts in the order of time. */
export const historyOf = (...lists: (readonly LaneAct[])[]) =>
  lists
    .flat()
    .sort((a, b) => a.at - b.at)
    .map(({ at, what, to, cause }) => ({ at: rfc3339(at), what, to, cause }));

/** Returns, for example, `ana@example.com: ticket 99`. */
export const byWhom = (actor: string, note: string | null = null): string =>
  `${actor.replace(/^member:/, '')}${note === null ? '' : `: ${note}`}`;
