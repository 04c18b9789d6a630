/** Records of lanes for operators: their limits, why their mail waits, and how much mail waits, in memory and on disk. */
import { rfc3339 } from '../base/rfc3339.ts';
import { groupBy } from '../base/sets.ts';
import { mapInSlices } from '../base/slices.ts';
import type { LaneLimits } from '../messages/delivery/hold-book.ts';
import { isOfAll } from '../messages/delivery/hold-index.ts';
import { operatorsHold } from '../messages/delivery/holds.ts';
import { operatorCause } from '../messages/delivery/lane-report.ts';
import type { LaneFacts, LaneWait } from '../messages/delivery/why.ts';
import { askEach, unansweredText } from './ask-nodes.ts';
import {
  MOST_DOMAINS,
  MOST_LANES,
  readEngines,
  UNANSWERED,
  type EngineDeps,
  type Engines,
  type NodeLane,
} from './engines.ts';
import { laneNamed } from './domain-lanes.ts';
import { siteOf } from './held-mail.ts';
import { laneQuestion } from './lane-acts.ts';
import { mergedLane, type FleetLane } from './merged-lane.ts';
import type { OperatorDeps } from './deps.ts';
import { noMail, oldestAmong, oldestOf, oldestRecord, timeOfFirst, type First, type Oldest } from './queue-ages.ts';
import { dialectOf } from '../storage/sql.ts';
import type { HoldRow } from '../storage/tables.ts';

type Deps = EngineDeps & Pick<OperatorDeps, 'db' | 'clock' | 'book'>;

/** The dependencies of records: what the lanes know of their mail, and what operators have set. */
type RecordDeps = Pick<OperatorDeps, 'laneFacts' | 'book' | 'config'>;

/** The waiting mail by domain, and the engines of all nodes. */
export interface Queue {
  engines: Engines;
  domains: readonly WaitingDomain[];
  /** The oldest waiting mail of all domains, also of those that are not listed. */
  oldest: Oldest;
}

interface WaitingRow extends First {
  due: number;
  oldest: number;
  /** Null if nothing is held. */
  held: number | null;
  held_due: number | null;
  /** The smallest id of all domains. */
  first_of_all: string;
}

/**
 * Reads the partial index of waiting deliveries once, and of the rows only those that are held and the first of each domain: about 0.1 s for a
 * million, on a reader, and as much again for 50,000 that are held.
 */
export async function readQueue(deps: Deps): Promise<Queue> {
  const { db, clock } = deps;
  const now = clock.now();
  const rows = await db.reader.raw<WaitingRow[]>(
    `WITH by_domain AS MATERIALIZED (
       SELECT domain, COUNT(*) AS waiting, COUNT(*) FILTER (WHERE due_at <= ?) AS due, MIN(due_at) AS oldest, MIN(id) AS first
       FROM deliveries WHERE due_at IS NOT NULL GROUP BY domain),
     by_hold AS MATERIALIZED (
       SELECT domain, COUNT(*) AS held, COUNT(*) FILTER (WHERE due_at <= ?) AS held_due
       FROM deliveries ${dialectOf(db.reader).using('deliveries_held')} WHERE held_by IS NOT NULL AND due_at IS NOT NULL GROUP BY domain),
     most AS MATERIALIZED (SELECT * FROM by_domain ORDER BY waiting DESC, domain LIMIT ?)
     SELECT m.*, h.held, h.held_due, f.status AS first_status, f.queued_at AS first_queued_at,
       (SELECT MIN(first) FROM by_domain) AS first_of_all
     FROM most m LEFT JOIN by_hold h ON h.domain = m.domain JOIN deliveries f ON f.id = m.first
     ORDER BY m.waiting DESC, m.domain`,
    [now, now, MOST_DOMAINS],
  );
  const [engines, oldest] = await Promise.all([
    readEngines(
      deps,
      rows.map(({ domain }) => domain),
    ),
    oldestOf(deps, rows),
  ]);
  const isHeldWhole = wholeHolds(deps);
  const domains = rows.map((row) => {
    const lane = engines.laneOf(row.domain);
    return waitingDomain(row, { lane, isHeld: isHeldWhole(row.domain, lane) }, oldest.get(row.domain) ?? noMail);
  });
  return { engines, domains, oldest: await oldestOfAll(deps, rows, oldest) };
}

/** Returns the oldest of all domains, those that are not listed among them. */
async function oldestOfAll(
  { db }: Pick<Deps, 'db'>,
  rows: readonly WaitingRow[],
  oldest: ReadonlyMap<string, Oldest>,
): Promise<Oldest> {
  const listed = oldestAmong([...oldest.values()]);
  const first = rows[0]?.first_of_all;
  if (first === undefined || rows.some((row) => row.first === first)) return listed;
  const [row] = await db.reader.raw<Pick<First, 'first_status' | 'first_queued_at'>[]>(
    'SELECT status AS first_status, queued_at AS first_queued_at FROM deliveries WHERE id = ?',
    [first],
  );
  const at = row === undefined ? null : timeOfFirst({ first, ...row });
  return oldestAmong([listed, { at, isExact: at !== null }]);
}

/**
 * Tells of a domain and its lane whether all its mail is held: by its route, or by a hold of the whole lane or domain. Such mail is marked only
 * when its turn comes.
 */
function wholeHolds({ book }: Pick<Deps, 'book'>): (domain: string, lane: string) => boolean {
  const held = new Set(
    book
      .list()
      .flatMap((row) =>
        row.kind === 'hold' && row.catches_new === 1 && isOfAll(row) ? [`${row.scope} ${row.target}`] : [],
      ),
  );
  return (domain, lane) =>
    lane === '~hold' || held.has('all ') || held.has(`lane ${lane}`) || held.has(`domain ${domain}`);
}

export type WaitingDomain = ReturnType<typeof waitingDomain>;

function waitingDomain(
  { domain, waiting, due, oldest: oldestDue, held, held_due: heldDue }: WaitingRow,
  { lane, isHeld }: { lane: string; isHeld: boolean },
  oldest: Oldest,
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
    oldest_due_at: rfc3339(oldestDue),
    ...oldestRecord(oldest),
  };
}

type LaneRecord = ReturnType<typeof laneRecord>;

/**
 * Returns the lanes that have work, waiting mail, a limit or a hold, as far as they were read; those that an engine has in memory come first.
 */
export async function laneRecords(deps: RecordDeps, queue: Queue): Promise<LaneRecord[]> {
  const { engines, domains } = queue;
  const lanes = fleetLanes(engines);
  const served = new Set(lanes.flatMap(({ name, source }) => [name, siteOf(name, source)]));
  const rows = deps.book.list().filter(({ scope }) => scope === 'lane');
  const set = rows.slice(0, MOST_LANES).map(({ target }) => target);
  const others = new Set([...domains.map(({ lane }) => lane), ...set].filter((lane) => !served.has(lane)));
  return await recordsOf(deps, [...lanes, ...[...others].map((name) => unknownLane(deps, name, engines))], domains);
}

/** Returns one lane, which these nodes have; null if neither they nor waiting mail has this name, and nothing is set for it. */
export async function oneLane(
  deps: RecordDeps,
  name: string,
  [first, ...others]: readonly NodeLane[],
  { engines, domains }: Queue,
): Promise<LaneRecord | null> {
  const lane = first === undefined ? unknownLane(deps, name, engines) : mergedLane(first, others);
  const isNone = first === undefined && domainsOf(lane, domains).length === 0 && !isSetByOperator(deps, name);
  return isNone ? null : ((await recordsOf(deps, [lane], domains))[0] ?? null);
}

/** Returns whether an operator's limit or hold of this lane is in force. */
export const isSetByOperator = ({ book }: Pick<OperatorDeps, 'book'>, lane: string): boolean =>
  book.limitsOf(lane) !== null || book.ofLane(lane) !== null;

/**
 * Returns whether a lane has this name, or lanes of several sources share it, at any node or for waiting mail. Null if a node that may have it
 * did not answer, or there are more domains or lanes than are read.
 */
export async function isLaneKnown(
  deps: Deps & Pick<OperatorDeps, 'mta' | 'laneActs'>,
  name: string,
): Promise<boolean | null> {
  const [{ from, unanswered }, { engines, domains }] = await Promise.all([
    askEach(deps, laneQuestion, { lane: name }),
    readQueue(deps),
  ]);
  const isKnown =
    from.some(({ result }) => result.now !== null) ||
    engines.lanes.some(({ lane }) => siteOf(lane.name, lane.source) === name) ||
    domains.some(({ lane }) => lane === name);
  const isAll =
    [...unanswered, ...engines.unanswered].length === 0 &&
    domains.length < MOST_DOMAINS &&
    engines.lanes.length < MOST_LANES;
  return isKnown || isAll ? isKnown : null;
}

/** Does the same for an act that must not fail for it. */
export const laneIfKnown = (deps: OperatorDeps, lane: string): Promise<boolean | null> =>
  isLaneKnown(deps, lane).catch((error: unknown) => {
    deps.log.warn({ event: 'lane_unknown', lane, err: error }, 'whether a lane is known could not be found out');
    return null;
  });

/** Returns the lanes of all nodes, each once. */
function fleetLanes({ lanes }: Engines): FleetLane[] {
  const found = groupBy(lanes, ({ lane }) => lane.name);
  return [...found.values()].flatMap(([first, ...others]) => (first === undefined ? [] : [mergedLane(first, others)]));
}

/** Returns the state of a lane whose mail the engine has not tried since the start: its only limits are those that an operator has set. */
function unknownLane({ book, config }: RecordDeps, name: string, { unanswered }: Engines): FleetLane {
  const { source, site } = laneNamed({ config }, name);
  const given = book.limitsOf(name) ?? book.limitsOf(site);
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
    limits: given === null ? [] : givenLimits(given),
    parkedUntil: null,
    waits: name === UNANSWERED ? [{ ...unansweredWait(unanswered), node: null }] : [],
    lastReply: null,
    lastProgressAt: 0,
  };
}

function givenLimits({ connections, perMinute, since, note }: LaneLimits): FleetLane['limits'] {
  const cause = operatorCause({ note });
  const numbers = [['connections', connections] as const, ['mails_per_minute', perMinute] as const];
  return numbers.flatMap(([what, to]) =>
    to === null ? [] : [{ what, to, by: 'operator' as const, cause, since, node: null }],
  );
}

function unansweredWait(names: readonly string[]): LaneWait {
  const text = names.length === 0 ? 'a node has ended, and another one takes over' : unansweredText(names);
  const message = `Where this mail goes is not known now: ${text}.`;
  return { reason: 'queued', message, since: null, until: null, by: 'us', stops: false };
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
  { laneFacts, book }: RecordDeps,
  lanes: readonly FleetLane[],
  domains: readonly WaitingDomain[],
): Promise<LaneRecord[]> {
  const byLane = groupBy(domains, ({ lane }) => lane);
  const all = lanes.map((lane) => {
    const site = siteOf(lane.name, lane.source);
    const own = [...(byLane.get(site) ?? []), ...(site === lane.name ? [] : (byLane.get(lane.name) ?? []))];
    return { lane, own };
  });
  const asked = all.filter(({ lane, own }) => own.length > 0 && lane.name !== UNANSWERED);
  const found = await laneFacts(asked.map(({ own: [first] }) => ({ domain: first?.domain ?? '', account: '' })));
  const facts = new Map(asked.map(({ lane }, at) => [lane, found[at] ?? null]));
  return await mapInSlices(all, ({ lane, own }) => {
    const set = book.ofLane(siteOf(lane.name, lane.source)) ?? book.ofLane(lane.name) ?? holdOfDomains(book, own);
    const around = facts.get(lane) ?? { waits: [], held: null };
    return laneRecord(lane, own, { ...around, held: around.held ?? (set === null ? null : operatorsHold(set)) });
  });
}

/** Returns the hold of a domain of the lane if all its mail is held, so that the lane has no other reason to wait. */
function holdOfDomains(book: RecordDeps['book'], own: readonly WaitingDomain[]): HoldRow | null {
  if (own.some(({ held, waiting }) => held < waiting)) return null;
  return own.map(({ domain }) => book.ofDomain(domain)).find((row) => row !== null) ?? null;
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
    /** With several nodes `node` names those that have the limit, or the reason to wait, if not all have it. */
    limits: lane.limits.map(({ what, domain = null, to, by, cause, since, node }) => ({
      what,
      domain,
      to,
      by,
      cause,
      since: rfc3339(since),
      node,
    })),
    waits: [...aroundLane(lane, own, facts).map((wait) => ({ ...wait, node: null })), ...lane.waits].map(waitRecord),
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
  return [{ reason: 'held', message: `It is held: ${why}.`, since, until, by: setBy, stops: true }];
}

function severalDomains(name: string, waits: readonly LaneWait[]): LaneWait[] {
  const [first] = waits;
  if (name === '~hold')
    return [
      {
        reason: 'held',
        message: 'Routes in delivery.routes hold this mail, whose time runs on. It goes when the routes are others.',
        since: null,
        until: null,
        by: 'operator',
        stops: true,
      },
    ];
  const message = `Where this mail goes is not known.${first === undefined ? '' : ` ${first.message}`}`;
  return [{ reason: 'resolving', since: null, until: null, by: 'us', stops: true, ...first, message }];
}

const waitRecord = ({ reason, message, since, until, by, node }: FleetLane['waits'][number]) => ({
  reason,
  message,
  since: rfc3339(since),
  until: rfc3339(until),
  by,
  node,
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
