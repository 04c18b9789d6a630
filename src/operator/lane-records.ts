/** Records of lanes for operators: their limits, why their mail waits, and how much mail waits, in memory and on disk. */
import { rfc3339 } from '../base/rfc3339.ts';
import type { LaneWait } from '../messages/delivery/why.ts';
import { siteOf } from './held-mail.ts';
import type { LaneState, OperatorDeps } from './operation.ts';

type Deps = Pick<OperatorDeps, 'db' | 'clock' | 'mta'>;
const MOST_DOMAINS = 1000;

/** Reads the partial index of waiting deliveries once: about 0.1 s for a million, on a reader. */
export async function waitingDomains({ db, clock, mta }: Deps) {
  const rows = await db.reader.raw<{ domain: string; waiting: number; due: number; oldest: number; held: number }[]>(
    `SELECT domain, COUNT(*) AS waiting, COUNT(*) FILTER (WHERE due_at <= ? AND held_by IS NULL) AS due, MIN(due_at) AS oldest, COUNT(held_by) AS held FROM deliveries
     WHERE due_at IS NOT NULL GROUP BY domain ORDER BY waiting DESC, domain LIMIT ?`,
    [clock.now(), MOST_DOMAINS],
  );
  return rows.map(({ domain, waiting, due, oldest, held }) => {
    const lane = mta.laneOf(domain);
    return {
      domain,
      /** The lane its mail goes through. */
      lane,
      waiting,
      /** Of the waiting recipients, how many are due now and not held back, and how many are held back: all if a route holds. */
      due: lane === '~hold' ? 0 : due,
      held: lane === '~hold' ? waiting : held,
      /** When the one that has waited longest fell or falls due. */
      oldest_due_at: rfc3339(oldest),
    };
  });
}

type WaitingDomain = Awaited<ReturnType<typeof waitingDomains>>[number];
type LaneRecord = ReturnType<typeof laneRecord>;

/** Returns every lane that has work, waiting mail or a limit; those that the engine has in memory come first. */
export function laneRecords({ mta }: Pick<Deps, 'mta'>, domains: readonly WaitingDomain[]): LaneRecord[] {
  const atWork = mta.lanes();
  const served = new Set(atWork.flatMap(({ name, source }) => [name, siteOf(name, source)]));
  const others = new Set(domains.map(({ lane }) => lane).filter((lane) => !served.has(lane)));
  const atRest = [...others].map((name) => mta.lane(name)?.now ?? unknownLane(name));
  return [...atWork, ...atRest].map((lane) => laneRecord({ mta }, lane, domains));
}

/** Returns one lane; null if neither the engine nor waiting mail has this name. */
export function oneLane(
  { mta }: Pick<Deps, 'mta'>,
  name: string,
  domains: readonly WaitingDomain[],
): LaneRecord | null {
  const known = mta.lane(name)?.now ?? (domains.some(({ lane }) => lane === name) ? unknownLane(name) : null);
  return known === null ? null : laneRecord({ mta }, known, domains);
}

/** Returns the state of a lane whose mail the engine has not tried since the start. */
const unknownLane = (name: string): LaneState => ({
  name,
  source: null,
  waiting: 0,
  slots: 0,
  limit: 0,
  perMinute: null,
  cause: 'not tried since the start',
  causeAt: null,
  limits: [],
  parkedUntil: null,
  waits: [],
  lastReply: null,
  lastProgressAt: 0,
});

function laneRecord({ mta }: Pick<Deps, 'mta'>, lane: LaneState, domains: readonly WaitingDomain[]) {
  const site = siteOf(lane.name, lane.source);
  const own = domains.filter((one) => one.lane === site || one.lane === lane.name);
  return {
    object: 'lane' as const,
    name: lane.name,
    source: lane.source,
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
    limits: lane.limits.map(({ what, to, by, cause, since }) => ({ what, to, by, cause, since: rfc3339(since) })),
    waits: [...aroundLane({ mta }, lane, own), ...lane.waits].map(waitRecord),
    /** Recipients of the domains that go this way; lanes of one site that differ by their source share them. */
    waiting_in_all: own.reduce((sum, { waiting }) => sum + waiting, 0),
    /** Of these, how many are held back. */
    held: own.reduce((sum, { held }) => sum + held, 0),
  };
}

/** Returns waits that are not the lane's own: a hold of the whole lane, and mail that has no mail host yet. */
function aroundLane({ mta }: Pick<Deps, 'mta'>, { name }: LaneState, own: readonly WaitingDomain[]): LaneWait[] {
  const [first] = own;
  if (first === undefined) return [];
  const facts = mta.laneFacts({ domain: first.domain, account: '' });
  if (name === '~hold' || name === '~unresolved')
    return own.length === 1 ? [...facts.waits] : severalDomains(name, facts.waits);
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
  return first === undefined ? [] : [{ ...first, message: `Where this mail goes is not known. ${first.message}` }];
}

const waitRecord = ({ reason, message, since, until, by }: LaneWait) => ({
  reason,
  message,
  since: rfc3339(since),
  until: rfc3339(until),
  by,
});
