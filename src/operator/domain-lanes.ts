/** The lanes of domains, which this node may not have looked up since it was started. */
import { MOST_DOMAINS, siteOf } from './lanes.ts';
import type { OperatorDeps } from './deps.ts';

/** The lane of a domain that has not been looked up, or of which DNS does not tell. */
const UNRESOLVED = '~unresolved';
/** Domains that are looked up at the same time. */
const AT_ONCE = 20;

/**
 * Returns the lane of each domain; null if it is not known. A domain that was not looked up yet is looked up now, except after `until`, a time
 * of the monotonic clock.
 */
export async function lanesOfDomains(
  { mta, clock }: Pick<OperatorDeps, 'mta' | 'clock'>,
  domains: readonly string[],
  until: number,
): Promise<Map<string, string | null>> {
  const known = (domain: string): string | null => {
    const lane = mta.laneOf(domain);
    return lane === UNRESOLVED ? null : lane;
  };
  const missing = domains.filter((domain) => known(domain) === null);
  for (let at = 0; at < missing.length && clock.monotonic() < until; at += AT_ONCE)
    await Promise.all(missing.slice(at, at + AT_ONCE).map((domain) => mta.resolve(domain)));
  return new Map(domains.map((domain) => [domain, known(domain)]));
}

/** The site of a lane, and the source it sends by; null for the system's address. */
export interface NamedLane {
  site: string;
  source: string | null;
  /** The pool of the source, which decides what mail may go by it; null if no source is named. */
  pool: string | null;
}

/** The sources are the same in the settings of all nodes; a lane that has had no mail since the start is in no memory. */
export function laneNamed({ config }: Pick<OperatorDeps, 'config'>, lane: string): NamedLane {
  const found = config.delivery.sources.find(({ name }) => lane.endsWith(`/${name}`));
  const source = found?.name ?? null;
  return { site: siteOf(lane, source), source, pool: found?.pool ?? null };
}

/** Domains with waiting mail whose mail goes by a lane. */
export interface LaneDomains {
  domains: string[];
  /** The number of domains that may be of the lane, as it is not known where their mail goes. */
  unknown: number;
}

/**
 * Returns the domains of a site that have waiting mail, in the order of their names. Domains that were not looked up yet are looked up for
 * `lookUpsMs`.
 */
export async function waitingDomainsOf(
  deps: OperatorDeps,
  { site }: Pick<NamedLane, 'site'>,
  lookUpsMs: number,
): Promise<LaneDomains> {
  // A look-up would take the domains out of this one.
  const isUnknown = site === UNRESOLVED;
  const until = deps.clock.monotonic() + (isUnknown ? 0 : lookUpsMs);
  const found: LaneDomains = { domains: [], unknown: 0 };
  let page: string[] = [];
  do {
    page = await domainsAfter(deps, page.at(-1) ?? '');
    const lanes = await lanesOfDomains(deps, page, until);
    for (const domain of page) {
      const lane = lanes.get(domain) ?? null;
      if (lane === site || (isUnknown && lane === null)) found.domains.push(domain);
      else if (lane === null) found.unknown++;
    }
  } while (page.length === MOST_DOMAINS);
  return found;
}

/** Jumps from one domain to the next in the partial index of waiting deliveries: a row each, however much waits. */
async function domainsAfter({ db }: Pick<OperatorDeps, 'db'>, after: string): Promise<string[]> {
  const rows = await db.reader.raw<{ domain: string }[]>(
    `WITH RECURSIVE steps (domain) AS (
       SELECT MIN(domain) FROM deliveries WHERE due_at IS NOT NULL AND domain > ?
       UNION ALL
       SELECT (SELECT MIN(d.domain) FROM deliveries d WHERE d.due_at IS NOT NULL AND d.domain > steps.domain)
       FROM steps WHERE steps.domain IS NOT NULL)
     SELECT domain FROM steps WHERE domain IS NOT NULL LIMIT ?`,
    [after, MOST_DOMAINS],
  );
  return rows.map(({ domain }) => domain);
}
