/** The lanes of all nodes, each as one, and why mails wait in them at any node. What a lane is at each node is in the figures of the nodes. */
import type { Clock } from '../base/clock.ts';
import { groupBy } from '../base/sets.ts';
import { mapInSlices } from '../base/slices.ts';
import { isOfPool } from '../messages/delivery/hold-mark.ts';
import type { Hold } from '../messages/delivery/holds.ts';
import type { LaneChange, LaneReport } from '../messages/delivery/lane-report.ts';
import {
  laneWait,
  waitsOfSoonest,
  type LaneFacts,
  type LaneFactsOf,
  type LaneWait,
  type MailOfLane,
} from '../messages/delivery/why.ts';
import type { OperatorDeps } from './server-route.ts';
import { figuresOf, type Figures, type FiguresDeps, type NodeFigure } from './node-figures.ts';
import type { Owners } from '../storage/owners.ts';

/** The dependencies of those who read the lanes of all nodes. */
export interface LanesDeps extends FiguresDeps {
  mta: Pick<OperatorDeps['mta'], 'lanes' | 'lane' | 'lanesOfSite' | 'laneOf'>;
}

/** Domains with waiting mail that lists have at most. */
export const MOST_DOMAINS = 1000;
/** Lanes of a node that are shown, the fullest first, besides those of the domains. */
export const MOST_LANES = 1000;
const MOST_CHANGES = 20;

/** A lane with the last changes of its limits. */
interface ShownLane {
  lane: LaneReport;
  changes: readonly LaneChange[];
}
export type LaneFigure = NodeFigure<ShownLane>;

/** The lanes of a node, those with work first. */
export const laneFigures: Figures<Pick<LanesDeps, 'mta'>, ShownLane> = {
  name: 'lanes',
  everyMs: 2_000,
  async read({ mta }) {
    const lanes = await mta.lanes(MOST_LANES, 'fullest');
    return await mapInSlices(lanes, (lane) => {
      const changes = mta.lane(lane.name)?.changes ?? [];
      return [lane.name, { lane, changes: changes.slice(-MOST_CHANGES) }] as const;
    });
  },
};

/** A lane at a node. */
export interface NodeLane {
  node: string;
  lane: LaneReport;
}

/** A lane as an operator of all nodes sees it. */
export interface FleetLane extends LaneReport {
  /** The nodes that have it. */
  nodes: readonly string[];
}

/** Returns the lanes of all nodes that have work or a limit, and those of these domains. */
export async function fleetLanes(deps: LanesDeps, domains: readonly string[]): Promise<FleetLane[]> {
  const { mta, nodes } = deps;
  const sites = new Set(domains.map((domain) => mta.laneOf(domain)));
  const shown = await figuresOf(deps, laneFigures);
  const own = new Set(shown.flatMap(({ epoch, key }) => (epoch === nodes.epoch ? [key] : [])));
  const others = [...sites].flatMap((site) => mta.lanesOfSite(site)).filter(({ name }) => !own.has(name));
  const all = [
    ...shown
      .map(({ node, value: { lane } }) => ({ node, lane }))
      .filter(({ lane }) => sites.has(siteOf(lane.name, lane.source)) || !isIdle(lane)),
    ...others.map((lane) => ({ node: nodes.name, lane })),
  ];
  return [...groupBy(all, ({ lane }) => lane.name).values()].flatMap((states) => mergedLane(states) ?? []);
}

/** Joins the states of one lane: sums of mail and connections, and each limit and wait once. Null without any. */
export function mergedLane(all: readonly NodeLane[]): FleetLane | null {
  const [first] = all;
  if (first === undefined) return null;
  if (all.length === 1) return { ...first.lane, nodes: [first.node] };
  const states = all.map(({ lane }) => lane);
  const newest = states.reduce((a, b) => (b.lastProgressAt > a.lastProgressAt ? b : a));
  const parked = states.flatMap(({ parkedUntil }) => parkedUntil ?? []);
  const rates = states.flatMap(({ perMinute }) => perMinute ?? []);
  return {
    ...states.reduce((a, b) => ((b.causeAt ?? 0) > (a.causeAt ?? 0) ? b : a)),
    nodes: all.map(({ node }) => node),
    waiting: states.reduce((sum, { waiting }) => sum + waiting, 0),
    slots: states.reduce((sum, { slots }) => sum + slots, 0),
    limit: limitOf(states),
    perMinute: rates.length === 0 ? null : Math.min(...rates),
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
    limits.filter(({ what, by, domain }) => what === 'connections' && by !== 'nodes' && domain === undefined),
  );
  return shared.length === 0
    ? states.reduce((sum, { limit }) => sum + limit, 0)
    : Math.min(...shared.map(({ to }) => to));
}

const once = <One>(all: readonly One[], keyOf: (one: One) => string): One[] => [
  ...new Map(all.map((one) => [keyOf(one), one])).values(),
];

const isIdle = ({ waiting, slots, waits, limits }: LaneReport): boolean =>
  waiting + slots + waits.length === 0 &&
  !limits.some(({ what, by }) => what === 'mails_per_minute' || by === 'operator');

/** Returns the lane's name without its source, as `laneOf` returns it for a domain. */
export const siteOf = (name: string, source: string | null): string =>
  source === null || !name.endsWith(`/${source}`) ? name : name.slice(0, -source.length - 1);

/** The dependencies of those who explain mails that any node delivers. */
export interface LaneFactsDeps extends FiguresDeps {
  clock: Pick<Clock, 'now'>;
  mta: LanesDeps['mta'] & { laneFacts(mail: MailOfLane): Promise<LaneFacts> };
  owners: Pick<Owners, 'ownerOf'>;
}

export function createLaneFacts(deps: LaneFactsDeps): LaneFactsOf {
  const { nodes, mta, owners, clock } = deps;

  async function factsOf(mail: MailOfLane, shown: ReadonlyMap<string, readonly LaneReport[]>): Promise<LaneFacts> {
    const owner = owners.ownerOf(mail.domain);
    if (owner === null) return nobody;
    const here = await mta.laneFacts(mail);
    if (owner.epoch === nodes.epoch) return here;
    const lanes = shown.get(`${String(owner.epoch)} ${mta.laneOf(mail.domain)}`);
    const waits = lanes?.map((lane) => lane.waits.filter((wait) => coversMail(wait, mail)));
    return {
      held: here.held ?? heldThere(mail, clock.now()),
      waits: waits === undefined ? here.waits : waitsOfSoonest(waits),
    };
  }

  return async (mails) => {
    const isElsewhere = mails.some(({ domain }) => (owners.ownerOf(domain)?.epoch ?? nodes.epoch) !== nodes.epoch);
    const shown = isElsewhere ? await figuresOf(deps, laneFigures) : [];
    const lanes = groupBy(shown, ({ epoch, value: { lane } }) => `${String(epoch)} ${siteOf(lane.name, lane.source)}`);
    const reports = new Map([...lanes].map(([name, all]) => [name, all.map(({ value }) => value.lane)]));
    return await Promise.all(mails.map((mail) => factsOf(mail, reports)));
  };
}

/** Which sources a pool has, and whether they may send, is known to the node that sends from them. */
const heldThere = ({ mark = null }: MailOfLane, now: number): Hold | null =>
  mark === null || !isOfPool(mark)
    ? null
    : {
        by: mark,
        why: 'no source of its pool could send to its site when it was last tried',
        since: now,
        until: null,
        setBy: 'us',
      };

const coversMail = ({ domain, account }: LaneWait, mail: MailOfLane): boolean =>
  (domain === undefined || domain === mail.domain) && (account === undefined || account === mail.account);

const nobody: LaneFacts = {
  held: null,
  waits: [laneWait('queued', 'No node delivers mail now: none that runs has the role delivery (node.roles).')],
};

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
