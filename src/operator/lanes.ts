/** The lanes of all nodes, each as one, and why mails wait in them at any node. Each node shows its lanes in its figures. */
import { z } from 'zod';
import { each, many, maybe, maybeTime, maybeWhole, ofKind, text, time, whole } from '../api/record-schema.ts';
import type { Clock } from '../base/clock.ts';
import { idFloor, idTime } from '../base/id.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { groupBy } from '../base/sets.ts';
import { mapInSlices } from '../base/slices.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time.ts';
import { isOfEngine } from '../messages/delivery/hold-mark.ts';
import { type Hold, operatorsHold } from '../messages/delivery/holds.ts';
import {
  type LaneReport,
  laneWait,
  settersOfWaits,
  waitReasons,
  waitsOfSoonest,
  type LaneFacts,
  type LaneFactsOf,
  type LaneWait,
  type MailOfLane,
  blankLane,
  limitedWhats,
  limitsByHand,
} from '../messages/delivery/why.ts';
import { EVERYWHERE, isWhole, scopeOf } from '../messages/limits/limit.ts';
import type { OperatorDeps } from './server-route.ts';
import { figuresOf, type Figures, type FiguresDeps, type NodeFigure } from './node-figures.ts';
import type { Owners } from '../storage/owners.ts';
import { dialectOf } from '../storage/sql.ts';

export interface LanesDeps extends FiguresDeps {
  mta: Pick<OperatorDeps['mta'], 'reports'>;
}

/** Domains with waiting mail that lists have at most. */
export const MOST_DOMAINS = 1000;
/** Lanes of a node that are shown, the fullest first, besides those of the domains. */
export const MOST_LANES = 1000;

export type LaneFigure = NodeFigure<LaneReport>;

/** The lanes of a node, those with work first. */
export const laneFigures: Figures<Pick<LanesDeps, 'mta'>, LaneReport> = {
  name: 'lanes',
  everyMs: 2_000,
  read: async ({ mta }) => (await mta.reports.lanes(MOST_LANES, 'fullest')).map((lane) => [lane.name, lane]),
};

export interface FleetLane extends LaneReport {
  /** The nodes that have it. */
  nodes: readonly string[];
}

/** Returns the lanes of all nodes that have work or a limit, and those of these domains. */
export async function fleetLanes(deps: LanesDeps, domains: readonly string[]): Promise<FleetLane[]> {
  const { mta, nodes } = deps;
  const sites = new Set(domains.map((domain) => mta.reports.laneOf(domain)));
  const shown = await figuresOf(deps, laneFigures);
  const own = new Set(shown.flatMap(({ epoch, key }) => (epoch === nodes.epoch ? [key] : [])));
  const others = [...sites].flatMap((site) => mta.reports.lanesOfSite(site)).filter(({ name }) => !own.has(name));
  const all = [
    ...shown.filter(({ value: lane }) => sites.has(siteOf(lane.name, lane.source)) || !isIdle(lane)),
    ...others.map((value) => ({ node: nodes.name, value })),
  ];
  return [...groupBy(all, ({ value }) => value.name).values()].flatMap((states) => mergedLane(states) ?? []);
}

/** Joins the states of one lane: sums of mail and connections, each limit and wait once, and the rest from the node that made progress last. */
export function mergedLane(all: readonly Pick<LaneFigure, 'node' | 'value'>[]): FleetLane | null {
  const states = all.map(({ value }) => value).sort((a, b) => b.lastProgressAt - a.lastProgressAt);
  const [newest] = states;
  if (newest === undefined) return null;
  const parked = states.map(({ parkedUntil }) => parkedUntil ?? 0);
  return {
    ...newest,
    nodes: all.map(({ node }) => node),
    waiting: states.reduce((sum, { waiting }) => sum + waiting, 0),
    slots: states.reduce((sum, { slots }) => sum + slots, 0),
    // If one node still sends, the lane is not parked.
    parkedUntil: Math.min(...parked) || null,
    limits: once(
      states.flatMap(({ limits }) => limits),
      ({ what, to, by, cause, domain = '' }) => [what, to, by, domain, cause].join(' '),
    ),
    waits: once(
      states.flatMap(({ waits }) => waits),
      ({ message }) => message,
    ),
  };
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

export interface LaneFactsDeps extends LanesDeps {
  clock: Pick<Clock, 'now'>;
  owners: Pick<Owners, 'ownerOf'>;
}

export function createLaneFacts(deps: LaneFactsDeps): LaneFactsOf {
  const { nodes, mta, owners, clock } = deps;

  async function factsOf(mail: MailOfLane, shown: ReadonlyMap<string, readonly LaneReport[]>): Promise<LaneFacts> {
    const owner = owners.ownerOf(mail.domain);
    if (owner === null) return nobody;
    const here = await mta.reports.laneFacts(mail);
    if (owner.epoch === nodes.epoch) return here;
    const lanes = shown.get(`${String(owner.epoch)} ${mta.reports.laneOf(mail.domain)}`);
    const waits = lanes?.map((lane) => lane.waits.filter((wait) => coversMail(wait, mail)));
    return {
      held: here.held ?? heldThere(mail, clock.now()),
      waits: waits === undefined ? here.waits : waitsOfSoonest(waits),
    };
  }

  return async (mails) => {
    const isElsewhere = mails.some(({ domain }) => (owners.ownerOf(domain)?.epoch ?? nodes.epoch) !== nodes.epoch);
    const shown = isElsewhere ? await figuresOf(deps, laneFigures) : [];
    const lanes = groupBy(shown, ({ epoch, value }) => `${String(epoch)} ${siteOf(value.name, value.source)}`);
    const reports = new Map([...lanes].map(([name, all]) => [name, all.map(({ value }) => value)]));
    return await Promise.all(mails.map((mail) => factsOf(mail, reports)));
  };
}

/** Which sources a pool has, and whether they may send, is known to the node that sends from them. */
const heldThere = ({ mark = null }: MailOfLane, now: number): Hold | null =>
  mark === null || !isOfEngine(mark)
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
const AT_ONCE = 20;

/**
 * Returns the site of a lane, its source (null for the system's address) and the pool of that, which decides what mail may go by it. The sources are
 * the same in the settings of all nodes; a lane that has had no mail since the start is in no memory.
 */
export function laneNamed({ config }: Pick<OperatorDeps, 'config'>, lane: string) {
  const found = config.delivery.sources.find(({ name }) => lane.endsWith(`/${name}`));
  const source = found?.name ?? null;
  return { site: siteOf(lane, source), source, pool: found?.pool ?? null };
}

/**
 * Returns the domains of a site that have waiting mail, in the order of their names, and counts those of which it is not known whether they are of
 * it. Domains that were not looked up yet are looked up for `lookUpsMs`.
 */
export async function waitingDomainsOf(
  deps: OperatorDeps,
  site: string,
  lookUpsMs: number,
): Promise<{ domains: string[]; unknown: number }> {
  const { mta, clock } = deps;
  const until = clock.monotonic() + lookUpsMs;
  const found = { domains: [] as string[], unknown: 0 };
  let page: string[] = [];
  do {
    page = await domainsAfter(deps, page.at(-1) ?? '');
    // A look-up would take the domains out of the lane of those that are not resolved.
    const missing = site === UNRESOLVED ? [] : page.filter((domain) => mta.reports.laneOf(domain) === UNRESOLVED);
    for (let at = 0; at < missing.length && clock.monotonic() < until; at += AT_ONCE)
      await Promise.all(missing.slice(at, at + AT_ONCE).map((domain) => mta.reports.resolve(domain)));
    for (const domain of page) {
      const lane = mta.reports.laneOf(domain);
      if (lane === site) found.domains.push(domain);
      else if (lane === UNRESOLVED) found.unknown++;
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

/** Reads the partial index of waiting deliveries once, on a reader, and only held rows: 0.1 s for a million, as much again for 50,000 held. */
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
  const domains = rows.map((row) => waitingDomain(row, mta.reports.laneOf(row.domain)));
  return { lanes, domains, oldestAt: acceptedAt(rows[0]?.first_of_all ?? null) };
}

export const WaitingDomain = z.object({
  domain: text(),
  lane: text('The lane its mail goes through.'),
  waiting: whole(),
  due: whole('Of the waiting recipients, those that are due now and not held back.'),
  held: whole(),
  oldest_due_at: time('When the one that is due first fell or falls due.'),
  oldest_at: maybeTime('When the oldest was accepted.'),
});
export type WaitingDomain = z.infer<typeof WaitingDomain>;

function waitingDomain(
  { domain, waiting, due, oldest, first, held, held_due: heldDue }: WaitingRow,
  lane: string,
): WaitingDomain {
  const isHeld = lane === '~hold';
  return {
    domain,
    lane,
    waiting,
    // Mail is marked as held when its turn comes.
    due: isHeld ? 0 : due - (heldDue ?? 0),
    held: isHeld ? waiting : (held ?? 0),
    oldest_due_at: rfc3339(oldest),
    oldest_at: acceptedAt(first),
  };
}

/** The members that a lane and its part at one node have in common. */
const state = {
  waiting: whole('In memory; the rest of a long queue waits on disk, see `waiting_in_all`.'),
  ...each(whole(), 'connections', 'limit'),
  per_minute: maybeWhole(),
  parked_until: maybeTime('Until then every host of the site is left alone.'),
  last_reply: maybe(),
  last_progress_at: maybeTime(),
};

export const Lane = ofKind('lane', {
  name: text(),
  source: maybe(),
  nodes: many(text()).describe('The nodes that have it in memory.'),
  ...state,
  cause: text(),
  cause_at: maybeTime(),
  limits: many(
    z.object({
      what: z.enum(limitedWhats),
      domain: maybe(),
      to: whole(),
      by: z.enum(['receiver', 'rule', 'operator', 'start', 'nodes']),
      cause: text(),
      since: maybeTime(),
    }),
  ),
  waits: many(
    z.object({
      reason: z.enum(waitReasons),
      message: text(),
      ...each(maybeTime(), 'since', 'until'),
      by: z.enum(settersOfWaits),
    }),
  ),
  waiting_in_all: whole('Recipients of the domains that go this way; lanes of one site share them.'),
  held: whole('Of these, those that are held back.'),
});
type LaneRecord = z.infer<typeof Lane>;

export const LaneAtNode = z.object({ node: text(), ...state });

/** Returns the lanes that have work, waiting mail, a limit or a hold, as far as they were read; those that an engine has in memory come first. */
export async function laneRecords(deps: RecordDeps, queue: Queue): Promise<LaneRecord[]> {
  const { domains, lanes } = queue;
  const served = new Set(lanes.flatMap(({ name, source }) => [name, siteOf(name, source)]));
  const set = deps.limits
    .listByHand()
    .filter((limit) => limit.site !== EVERYWHERE && isWhole(limit))
    .slice(0, MOST_LANES)
    .map((limit) => scopeOf(limit).target);
  const others = new Set([...domains.map(({ lane }) => lane), ...set].filter((lane) => !served.has(lane)));
  return await recordsOf(deps, [...lanes, ...[...others].map((name) => unknownLane(deps, name))], domains);
}

/** Returns one lane, which these nodes have; null if neither they nor waiting mail has this name, and nothing is set for it. */
export async function oneLane(
  deps: RecordDeps,
  name: string,
  nodes: readonly LaneFigure[],
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
    deps.mta.reports.lane(name) !== null ||
    lanes.some(({ key, value }) => key === name || siteOf(key, value.source) === name) ||
    (await readQueue(deps)).domains.some(({ lane }) => lane === name)
  );
}

/** Returns the state of a lane whose mail the engine has not tried since the start: its only limits are those that an operator has set. */
function unknownLane({ limits, config }: RecordDeps, name: string): FleetLane {
  const { source, site } = laneNamed({ config }, name);
  const given = limits.limitOf(name) ?? limits.limitOf(site);
  return {
    ...blankLane(name),
    source,
    nodes: [],
    limit: given?.connections ?? 0,
    perMinute: given?.perMinute ?? null,
    limits: given === null ? [] : limitsByHand(given),
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
    const set = limits.ofLane(siteOf(lane.name, lane.source)) ?? limits.ofLane(lane.name);
    const around = facts.get(lane) ?? { waits: [], held: null };
    return laneRecord(lane, own, { ...around, held: around.held ?? (set === null ? null : operatorsHold(set)) });
  });
}

function laneRecord(lane: FleetLane, own: readonly WaitingDomain[], facts: LaneFacts): LaneRecord {
  return {
    object: 'lane',
    name: lane.name,
    source: lane.source,
    nodes: lane.nodes,
    ...stateOf(lane),
    cause: lane.cause,
    cause_at: rfc3339(lane.causeAt),
    limits: lane.limits.map(({ domain = null, since, ...one }) => ({ ...one, domain, since: rfc3339(since) })),
    waits: [...aroundLane(lane, own, facts), ...lane.waits].map(waitRecord),
    waiting_in_all: own.reduce((sum, { waiting }) => sum + waiting, 0),
    held: own.reduce((sum, { held }) => sum + held, 0),
  };
}

/** Returns waits that are not the lane's own: a hold of the whole lane, and why mail of a first domain has no lane. */
function aroundLane({ name }: FleetLane, own: readonly WaitingDomain[], facts: LaneFacts): readonly LaneWait[] {
  const also = own.length > 1 ? ' Mail for other domains waits for such a reason, too.' : '';
  if (name === '~hold' || name === '~unresolved')
    return facts.waits.map((wait) => ({ ...wait, message: `${wait.message}${also}` }));
  if (facts.held === null) return [];
  const { why, since, until, setBy = 'operator' } = facts.held;
  return [laneWait('held', `It is held: ${why}.`, { since, until, by: setBy, stops: true })];
}

const waitRecord = ({ reason, message, since, until, by }: LaneWait) => ({
  reason,
  message,
  since: rfc3339(since),
  until: rfc3339(until),
  by,
});

/** Returns the figures of a lane at one node, for the page of a lane that several nodes have. */
export const laneAtNode = ({ node, value }: LaneFigure) => ({ node, ...stateOf(value) });

const stateOf = (lane: LaneReport) => ({
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

export const Ages = z.object({
  waiting: whole('Recipients that wait.'),
  // Each has what is not in those before it.
  ...each(whole(), 'under_1m', 'under_10m', 'under_1h', 'under_6h', 'under_24h', 'older'),
  oldest_at: maybeTime(),
});

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
    waiting: counts?.waiting ?? 0,
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
