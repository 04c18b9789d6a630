/** The lanes of domains that may have no mail waiting, so that their nodes may not have looked them up since they were started. */
import { z } from 'zod';
import { askOwner, unansweredText, type Question } from './ask-nodes.ts';
import { MOST_DOMAINS, readLanesOf } from './engines.ts';
import { Problem } from '../base/problem.ts';
import type { OperatorDeps } from './operation.ts';

/** The lane of a domain that has not been looked up, or of which DNS does not tell. */
const UNRESOLVED = '~unresolved';
/** Domains that are looked up at the same time, and the longest time that an answer of DNS takes. */
const AT_ONCE = 20;
const WITHIN_MS = 10_000;

/** Has a node look up where mail for a domain goes. Returns its lane. */
export const domainLaneQuestion: Question<Pick<OperatorDeps, 'mta'>, { domain: string }, string> = {
  name: 'domainLane',
  args: z.strictObject({ domain: z.string().max(253) }),
  async answer({ mta }, { domain }) {
    await mta.resolve(domain);
    return mta.laneOf(domain);
  },
};

/**
 * Returns the lane of each domain; null where it is not known. A domain that its node has not looked up yet is looked up now, except after
 * `until`, a time of the monotonic clock. Throws a `Problem` where a node does not answer.
 */
export async function lanesOfDomains(
  deps: OperatorDeps,
  domains: readonly string[],
  until: number,
): Promise<Map<string, string | null>> {
  const lanes = new Map<string, string | null>();
  for (let at = 0; at < domains.length; at += MOST_DOMAINS) {
    const some = domains.slice(at, at + MOST_DOMAINS);
    const { laneOf, unanswered } = await readLanesOf(deps, some);
    if (unanswered.length > 0)
      throw new Problem('service_unavailable', `the mail of the lane is not known: ${unansweredText(unanswered)}`);
    for (const domain of some) lanes.set(domain, knownOf(laneOf(domain)));
  }
  const missing = domains.filter((domain) => lanes.get(domain) === null);
  for (let at = 0; at < missing.length && deps.clock.monotonic() < until; at += AT_ONCE)
    await Promise.all(
      missing.slice(at, at + AT_ONCE).map(async (domain) => {
        const answer = await askOwner(deps, domain, domainLaneQuestion, { domain }, WITHIN_MS);
        if (answer.kind === 'answered') lanes.set(domain, knownOf(answer.result));
      }),
    );
  return lanes;
}

const knownOf = (lane: string): string | null => (lane === UNRESOLVED ? null : lane);
