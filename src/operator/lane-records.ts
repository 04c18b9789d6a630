/** Records of lanes for operators: their limits, why their mail waits, and how much mail waits, in memory and on disk. */
import { idFloor, idTime } from '../base/id.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { groupBy } from '../base/sets.ts';
import { mapInSlices } from '../base/slices.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time.ts';
import { operatorsHold } from '../messages/delivery/holds.ts';
import { limitsByHand } from '../messages/delivery/lane-report.ts';
import { laneWait, type LaneFacts, type LaneWait } from '../messages/delivery/why.ts';
import { EVERYWHERE, scopeOf, type Limit } from '../messages/limits/limit.ts';
import type { OperatorDeps } from './server-route.ts';
import {
  fleetLanes,
  laneFigures,
  mergedLane,
  MOST_DOMAINS,
  MOST_LANES,
  siteOf,
  type FleetLane,
  type LanesDeps,
  type NodeLane,
  laneNamed,
} from './lanes.ts';
import { figuresOf } from './node-figures.ts';
import { dialectOf } from '../storage/sql.ts';

type Deps = LanesDeps & Pick<OperatorDeps, 'db' | 'clock' | 'limits'>;

/** The dependencies of records: what the lanes know of their mail, and what operators have set. */
type RecordDeps = Pick<OperatorDeps, 'laneFacts' | 'limits' | 'config'>;

/** The waiting mail by domain, and the lanes of all nodes. */
export interface Queue {
  lanes: readonly FleetLane[];
  domains: readonly WaitingDomain[];
  /** When the oldest waiting mail was accepted, also of domains that are not listed. */
  oldestAt: string | null;
}

interface WaitingRow {
  domain: string;
  waiting: number;
  due: number;
  oldest: number;
  /** The smallest id, which was accepted first. */
  first: string;
  /** Null if nothing is held. */
  held: number | null;
  held_due: number | null;
  /** The smallest id of all domains. */
  first_of_all: string;
}

/**
 * Reads the partial index of waiting deliveries once, and of the rows only those that are held: about 0.1 s for a million, on a reader, and as
 * much again for 50,000 that are held.
 */
export async function readQueue(deps: Deps): Promise<Queue> {
  const { db, clock, mta } = deps;
  const now = clock.now();
  const rows = await db.reader.raw<WaitingRow[]>(
    `WITH by_domain AS MATERIALIZED (
       SELECT domain, COUNT(*) AS waiting, COUNT(*) FILTER (WHERE due_at <= ?) AS due, MIN(due_at) AS oldest, MIN(id) AS first
       FROM deliveries WHERE due_at IS NOT NULL GROUP BY domain),
     by_hold AS MATERIALIZED (
       SELECT domain, COUNT(*) AS held, COUNT(*) FILTER (WHERE due_at <= ?) AS held_due
       FROM deliveries ${dialectOf(db.reader).using('deliveries_held')} WHERE held_by IS NOT NULL AND due_at IS NOT NULL GROUP BY domain),
     most AS MATERIALIZED (SELECT * FROM by_domain ORDER BY waiting DESC, domain LIMIT ?)
     SELECT m.*, h.held, h.held_due, (SELECT MIN(first) FROM by_domain) AS first_of_all
     FROM most m LEFT JOIN by_hold h ON h.domain = m.domain
     ORDER BY m.waiting DESC, m.domain`,
    [now, now, MOST_DOMAINS],
  );
  const lanes = await fleetLanes(
    deps,
    rows.map(({ domain }) => domain),
  );
  const isHeldWhole = wholeHolds(deps);
  const domains = rows.map((row) => {
    const lane = mta.laneOf(row.domain);
    return waitingDomain(row, { lane, isHeld: isHeldWhole(row.domain, lane) });
  });
  return { lanes, domains, oldestAt: acceptedAt(rows[0]?.first_of_all ?? null) };
}

/**
 * Tells of a domain and its lane whether all its mail is held: by its route, or by a hold of the whole lane or domain. Such mail is marked only
 * when its turn comes.
 */
function wholeHolds({ limits }: Pick<Deps, 'limits'>): (domain: string, lane: string) => boolean {
  const held = new Set(
    limits.listByHand().flatMap((limit) => {
      if (limit.kind !== 'hold' || !limit.catchesNew || limit.account !== null) return [];
      const { scope, target } = scopeOf(limit);
      return [`${scope} ${target}`];
    }),
  );
  return (domain, lane) =>
    lane === '~hold' || held.has('all mail') || held.has(`lane ${lane}`) || held.has(`domain ${domain}`);
}

export type WaitingDomain = ReturnType<typeof waitingDomain>;

function waitingDomain(
  { domain, waiting, due, oldest, first, held, held_due: heldDue }: WaitingRow,
  { lane, isHeld }: { lane: string; isHeld: boolean },
) {
  return {
    domain,
    /** The lane its mail goes through. */
    lane,
    waiting,
    /** Of the waiting recipients, how many are due now and not held back, and how many are held back: all if a route or a hold of all its mail holds. */
    due: isHeld ? 0 : due - (heldDue ?? 0),
    held: isHeld ? waiting : (held ?? 0),
    /** When the one that is due first fell or falls due. */
    oldest_due_at: rfc3339(oldest),
    /** When the oldest was accepted. */
    oldest_at: acceptedAt(first),
  };
}

type LaneRecord = ReturnType<typeof laneRecord>;

/**
 * Returns the lanes that have work, waiting mail, a limit or a hold, as far as they were read; those that an engine has in memory come first.
 */
export async function laneRecords(deps: RecordDeps, queue: Queue): Promise<LaneRecord[]> {
  const { domains, lanes } = queue;
  const served = new Set(lanes.flatMap(({ name, source }) => [name, siteOf(name, source)]));
  const set = deps.limits
    .listByHand()
    .filter(({ site }) => site !== EVERYWHERE)
    .slice(0, MOST_LANES)
    .map((limit) => scopeOf(limit).target);
  const others = new Set([...domains.map(({ lane }) => lane), ...set].filter((lane) => !served.has(lane)));
  return await recordsOf(deps, [...lanes, ...[...others].map((name) => unknownLane(deps, name))], domains);
}

/** Returns one lane, which these nodes have; null if neither they nor waiting mail has this name, and nothing is set for it. */
export async function oneLane(
  deps: RecordDeps,
  name: string,
  nodes: readonly NodeLane[],
  { domains }: Pick<Queue, 'domains'>,
): Promise<LaneRecord | null> {
  const lane = mergedLane(nodes) ?? unknownLane(deps, name);
  const isNone = nodes.length === 0 && domainsOf(lane, domains).length === 0 && !isSetByOperator(deps, name);
  return isNone ? null : ((await recordsOf(deps, [lane], domains))[0] ?? null);
}

/** Returns whether an operator's limit or hold of this lane is in force. */
export const isSetByOperator = ({ limits }: Pick<OperatorDeps, 'limits'>, lane: string): boolean =>
  limits.limitOf(lane) !== null || limits.ofLane(lane) !== null;

/** Returns whether a lane has this name, or lanes of several sources share it, at any node or for waiting mail that is listed. */
export async function isLaneKnown(deps: Deps, name: string): Promise<boolean> {
  const lanes = await figuresOf(deps, laneFigures);
  return (
    deps.mta.lane(name) !== null ||
    lanes.some(({ key, value: { lane } }) => key === name || siteOf(key, lane.source) === name) ||
    (await readQueue(deps)).domains.some(({ lane }) => lane === name)
  );
}

/** Returns the state of a lane whose mail the engine has not tried since the start: its only limits are those that an operator has set. */
function unknownLane({ limits, config }: RecordDeps, name: string): FleetLane {
  const { source, site } = laneNamed({ config }, name);
  const given = limits.limitOf(name) ?? limits.limitOf(site);
  return {
    name,
    source,
    nodes: [],
    waiting: 0,
    slots: 0,
    limit: given?.connections ?? 0,
    perMinute: given?.perMinute ?? null,
    cause: 'not tried since the start',
    causeAt: null,
    limits: given === null ? [] : limitsByHand(given),
    parkedUntil: null,
    waits: [],
    lastReply: null,
    lastProgressAt: 0,
  };
}

/** Returns the domains whose mail goes by a lane. Lanes of one site that differ by their source share them. */
export const domainsOf = (
  { name, source }: Pick<FleetLane, 'name' | 'source'>,
  domains: readonly WaitingDomain[],
): WaitingDomain[] => {
  const site = siteOf(name, source);
  return domains.filter(({ lane }) => lane === name || lane === site);
};

/** Makes the records. What holds a whole lane is asked with the first domain of each. */
async function recordsOf(
  { laneFacts, limits }: RecordDeps,
  lanes: readonly FleetLane[],
  domains: readonly WaitingDomain[],
): Promise<LaneRecord[]> {
  const byLane = groupBy(domains, ({ lane }) => lane);
  const all = lanes.map((lane) => {
    const site = siteOf(lane.name, lane.source);
    const own = [...(byLane.get(site) ?? []), ...(site === lane.name ? [] : (byLane.get(lane.name) ?? []))];
    return { lane, own };
  });
  const asked = all.filter(({ own }) => own.length > 0);
  const found = await laneFacts(asked.map(({ own: [first] }) => ({ domain: first?.domain ?? '', account: '' })));
  const facts = new Map(asked.map(({ lane }, at) => [lane, found[at] ?? null]));
  return await mapInSlices(all, ({ lane, own }) => {
    const set = limits.ofLane(siteOf(lane.name, lane.source)) ?? limits.ofLane(lane.name) ?? holdOfDomains(limits, own);
    const around = facts.get(lane) ?? { waits: [], held: null };
    return laneRecord(lane, own, { ...around, held: around.held ?? (set === null ? null : operatorsHold(set)) });
  });
}

/** Returns the hold of a domain of the lane if all its mail is held, so that the lane has no other reason to wait. */
function holdOfDomains(limits: RecordDeps['limits'], own: readonly WaitingDomain[]): Limit | null {
  if (own.some(({ held, waiting }) => held < waiting)) return null;
  return own.map(({ domain }) => limits.ofDomain(domain)).find((limit) => limit !== null) ?? null;
}

function laneRecord(lane: FleetLane, own: readonly WaitingDomain[], facts: LaneFacts) {
  return {
    object: 'lane' as const,
    name: lane.name,
    source: lane.source,
    /** The nodes that have it in memory. */
    nodes: lane.nodes,
    /** In memory; the rest of a long queue waits on disk, see `waiting_in_all`. */
    waiting: lane.waiting,
    connections: lane.slots,
    limit: lane.limit,
    per_minute: lane.perMinute,
    cause: lane.cause,
    cause_at: rfc3339(lane.causeAt),
    /** Until then every host of the site is left alone. */
    parked_until: rfc3339(lane.parkedUntil),
    last_reply: lane.lastReply,
    last_progress_at: lane.lastProgressAt === 0 ? null : rfc3339(lane.lastProgressAt),
    limits: lane.limits.map(({ what, domain = null, to, by, cause, since }) => ({
      what,
      domain,
      to,
      by,
      cause,
      since: rfc3339(since),
    })),
    waits: [...aroundLane(lane, own, facts), ...lane.waits].map(waitRecord),
    /** Recipients of the domains that go this way; lanes of one site that differ by their source share them. */
    waiting_in_all: own.reduce((sum, { waiting }) => sum + waiting, 0),
    /** Of these, how many are held back. */
    held: own.reduce((sum, { held }) => sum + held, 0),
  };
}

/** Returns waits that are not the lane's own: a hold of the whole lane, and mail that has no mail host yet. */
function aroundLane({ name }: FleetLane, own: readonly WaitingDomain[], facts: LaneFacts): readonly LaneWait[] {
  if (name === '~hold' || name === '~unresolved')
    return own.length === 1 && facts.waits.length > 0 ? facts.waits : severalDomains(name, facts.waits);
  if (facts.held === null) return [];
  const { why, since, until, setBy = 'operator' } = facts.held;
  return [laneWait('held', `It is held: ${why}.`, { since, until, by: setBy, stops: true })];
}

function severalDomains(name: string, waits: readonly LaneWait[]): LaneWait[] {
  const [first] = waits;
  if (name === '~hold')
    return [
      laneWait(
        'held',
        'Routes in delivery.routes hold this mail, whose time runs on. It goes when the routes are others.',
        { by: 'operator', stops: true },
      ),
    ];
  const message = `Where this mail goes is not known.${first === undefined ? '' : ` ${first.message}`}`;
  return [{ ...laneWait('resolving', message, { stops: true }), ...first, message }];
}

const waitRecord = ({ reason, message, since, until, by }: LaneWait) => ({
  reason,
  message,
  since: rfc3339(since),
  until: rfc3339(until),
  by,
});

/** Returns the figures of a lane at one node, for the page of a lane that several nodes have. */
export const laneAtNode = ({ node, lane }: NodeLane) => ({
  node,
  waiting: lane.waiting,
  connections: lane.slots,
  limit: lane.limit,
  per_minute: lane.perMinute,
  parked_until: rfc3339(lane.parkedUntil),
  last_reply: lane.lastReply,
  last_progress_at: lane.lastProgressAt === 0 ? null : rfc3339(lane.lastProgressAt),
});

/** The members of the histogram, with the age below which mail is in each. */
const steps = [
  ['under_1m', MINUTE_MS],
  ['under_10m', 10 * MINUTE_MS],
  ['under_1h', HOUR_MS],
  ['under_6h', 6 * HOUR_MS],
  ['under_24h', DAY_MS],
] as const;

type Counts = Record<(typeof steps)[number][0] | 'waiting', number> & { first: string | null };

/** Counts the waiting mail of these domains by its age: about 0.1 s for a million, on a reader. */
export async function agesOf({ db, clock }: Pick<OperatorDeps, 'db' | 'clock'>, domains: readonly string[]) {
  const now = clock.now();
  const { among, using } = dialectOf(db.reader);
  const [counts] = await db.reader.raw<Counts[]>(
    `SELECT COUNT(*) AS waiting, MIN(id) AS first, ${steps.map(([name]) => `COUNT(*) FILTER (WHERE id >= ?) AS ${name}`).join(', ')}
     FROM deliveries ${using('deliveries_due')} WHERE due_at IS NOT NULL AND domain ${among('text')}`,
    [...steps.map(([, below]) => idFloor('dlv', now - below)), JSON.stringify(domains)],
  );
  const upTo = [0, ...steps.map(([name]) => counts?.[name] ?? 0), counts?.waiting ?? 0];
  const [under1m = 0, under10m = 0, under1h = 0, under6h = 0, under24h = 0, older = 0] = upTo
    .slice(1)
    .map((count, at) => count - (upTo[at] ?? 0));
  return {
    /** Recipients that wait. */
    waiting: counts?.waiting ?? 0,
    /** Each has what is not in those before it. */
    under_1m: under1m,
    under_10m: under10m,
    under_1h: under1h,
    under_6h: under6h,
    under_24h: under24h,
    older,
    oldest_at: acceptedAt(counts?.first ?? null),
  };
}

/** Returns when the delivery with this id was accepted; null without one. */
const acceptedAt = (id: string | null): string | null => rfc3339(id === null ? null : idTime(id));
