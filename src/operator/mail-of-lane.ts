/** The mail that waits for a lane, for operations on all of it. */
import { Problem } from '../base/problem.ts';
import { laneNamed, waitingDomainsOf, type LaneDomains } from './domain-lanes.ts';
import { isLaneKnown, isSetByOperator } from './lane-records.ts';
import type { OperatorDeps } from './deps.ts';
import { ofPool, type Condition } from './waiting-pages.ts';

/** The longest that an act looks up domains whose lane is not known, in ms: a page waits for it. */
export const LOOK_UPS_MS = 10_000;

export interface MailOfLane extends LaneDomains {
  /** Which of the mail for these domains is of the lane: the mail of a pool's streams if the lane names a source. */
  condition: Condition;
}

/**
 * Finds the mail of a lane by the domains that go by it now. Lanes that differ by their sources share the mail of their pool: the source of a
 * mail is chosen when it is sent. Throws `not_found` if there is no such lane.
 */
export async function mailOfLane(deps: OperatorDeps, lane: string, lookUpsMs: number): Promise<MailOfLane> {
  const named = laneNamed(deps, lane);
  const found = await waitingDomainsOf(deps, named, lookUpsMs);
  if (found.domains.length === 0 && !isSetByOperator(deps, lane) && !(await isLaneKnown(deps, lane)))
    throw new Problem('not_found', `there is no lane ${JSON.stringify(lane)}: see \`posthorn queue lanes\``, {
      field: 'lane',
    });
  return { ...found, condition: ofPool(deps, named.pool) };
}
