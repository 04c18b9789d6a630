/** Operations that hold mail, release it, and slow lanes down: they set and end limits by hand. */
import { z } from 'zod';
import { newId } from '../base/id.ts';
import { pluralize } from '../base/pluralize.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS } from '../base/time.ts';
import { ANY_SOURCE, keyOf, newLimit, scopeOf, type Limit } from '../messages/limits/limit.ts';
import type { Act } from '../operations/act.ts';
import { type OperatorDeps, serverRoute } from './server-route.ts';
import { heldMail, type HeldMail } from './held-mail.ts';
import { isLaneKnown } from './lane-records.ts';
import {
  isLane,
  partArguments,
  partFor,
  partOfLane,
  pointedAt,
  selected,
  selectedText,
  type NamedPart,
  type Part,
  refuseNoDomain,
} from './parts.ts';
import { LOOK_UPS_MS, mailOf, selectorMembers, changeWaiting, countWaiting } from './selector.ts';

const YEAR_MS = 366 * DAY_MS;
const forArgument = z.int().min(1000).max(YEAR_MS).optional();
const noteArgument = z.string().min(1).max(200).optional();

/** Returns the holds and limits in force, of whichever node they were set at. */
async function holdsInForce({ limits, nodes }: Pick<OperatorDeps, 'limits' | 'nodes'>): Promise<Limit[]> {
  if (nodes.hasOthers) await limits.reread();
  return limits.listByHand();
}

/** The members of a hold or limit that the audit keeps. */
const holdMembers = ['id', 'kind', 'scope', 'target', 'catches_new', 'connections', 'per_minute', 'note', 'until'];

export const holdOperations = {
  /** Holds waiting mail until it is released; with `new`, mail that is accepted later as well. */
  'queue.hold': serverRoute({
    act: { says: 'held the {scope} {target}', type: 'hold', named: 'target', keeps: holdMembers },
    body: z.strictObject({ ...partArguments, for_ms: forArgument, new: z.boolean().optional(), note: noteArgument }),
    async dryRun(deps, { for_ms: forMs, new: isNew = false, note: _, ...named }) {
      const part = await partFor(deps, named, noAct);
      const waiting = await waitingOf(deps, named);
      const now = waiting === null ? 'what would go by it' : deliveriesOf(waiting);
      const end = forMs === undefined ? 'until it is released' : `until ${rfc3339(deps.clock.now() + forMs)}`;
      return {
        would: `hold ${selectedText(named)}: ${now}${catchesNew(isNew, part) ? ', and what is accepted later' : ''}, ${end}`,
        waiting,
      };
    },
    async run(deps, { for_ms: forMs, new: isNew = false, note, ...named }, act) {
      act.on({ after: pointedAt(named) });
      const part = await partFor(deps, named, act);
      if (named.domain !== undefined) refuseNoDomain(named.domain);
      const given = { forMs, note, catchesNew: catchesNew(isNew, part) };
      const limit = limitByHand(deps, 'hold', part, given, act);
      act.on({ after: holdRecord(limit) });
      const others = holdsOf(part, await holdsInForce(deps)).map(({ id }) => id);
      await deps.limits.add(limit, act.rows());
      noteChange(deps, 'queue_held', limit);
      return {
        ...(await setRecord(deps, limit)),
        /** Holds of the same part that were in force before: its mail rests until all have ended. */
        others,
      };
    },
  }),
  /** Ends holds: by id, or all those of one part of the queue. */
  'queue.release': serverRoute({
    act: { says: 'released the {scope} {target}', type: 'hold', named: 'target', keeps: holdMembers },
    body: z.strictObject({ ...partArguments, id: z.string().max(100).optional() }),
    async dryRun(deps, { id, ...named }) {
      const ended = await holdsNamed(deps, id ?? (await partFor(deps, named, noAct)));
      const rows = await deps.db
        .reader('deliveries')
        .whereIn('held_by', ended.map(keyOf))
        .count<{ n: number }[]>({ n: '*' });
      const waiting = rows[0]?.n ?? 0;
      return { would: `end ${ended.map(keyOf).join(', ')}: ${deliveriesOf(waiting)} held`, waiting };
    },
    async run(deps, { id, ...named }, act) {
      act.on({ before: id === undefined ? pointedAt(named) : { scope: 'hold', target: id } });
      const ended = await holdsNamed(deps, id ?? (await partFor(deps, named, act)));
      await endHolds(deps, ended, act);
      return { data: ended.map(holdRecord) };
    },
  }),
  /** Returns holds and limits, and counts all other mail that is kept back: routes, pauses, refused domains, block lists, rests. */
  'queue.holds': serverRoute({
    async run(deps) {
      const [rows, others] = await Promise.all([holdsInForce(deps), heldMail(deps)]);
      return { data: rows.map(holdRecord), others: others.map((one) => withHold(one, rows)) };
    },
  }),
  /** Limits the connections or the mails a minute of a lane; without either the limit ends. */
  'queue.limit': serverRoute({
    act: { says: 'set the limit of the lane {target}', type: 'lane', named: 'target', keeps: holdMembers },
    body: z.strictObject({
      lane: z.string().min(1).max(300),
      connections: z.int().min(1).max(1000).optional(),
      per_minute: z.int().min(1).max(1_000_000).optional(),
      for_ms: forArgument,
      note: noteArgument,
    }),
    async run(deps, { lane, connections, per_minute: perMinute, for_ms: forMs, note }, act) {
      if (connections === undefined && perMinute === undefined) {
        if (forMs !== undefined || note !== undefined)
          throw new Problem('missing_field', 'say how many connections, or how many mails a minute', {
            field: 'connections',
          });
        act.on({ object: lane });
        const all = await holdsInForce(deps);
        const { site, source } = partOfLane(lane);
        const ended = all.filter((one) => one.kind === 'limit' && one.site === site && one.source === source);
        if (ended.length === 0)
          throw new Problem('not_found', `the lane ${JSON.stringify(lane)} has no limit of yours`);
        await endHolds(deps, ended, act);
        return { data: [] };
      }
      const limit: Limit = {
        ...limitByHand(deps, 'limit', partOfLane(lane), { forMs, note, catchesNew: true }, act),
        connections: connections ?? null,
        perMinute: perMinute ?? null,
      };
      act.on({ after: holdRecord(limit) });
      await deps.limits.add(limit, act.rows());
      noteChange(deps, 'lane_limited', limit);
      return { data: [await setRecord(deps, limit)] };
    },
  }),
  /** Cancels waiting mail. Mail that is being sent cannot be canceled. */
  'queue.cancel': serverRoute({
    act: { says: 'canceled waiting mail of the {scope} {target}', type: 'queue', named: 'target', keeps: ['canceled'] },
    body: z.strictObject(selectorMembers),
    async dryRun(deps, named) {
      const { unknown, ...mail } = await mailOf(deps, named, LOOK_UPS_MS);
      const waiting = await countWaiting(deps, mail);
      return {
        would: `cancel ${deliveriesOf(waiting)} of ${selectedText(named)}`,
        waiting,
        ...unknownDomains(unknown),
      };
    },
    async run(deps, named, act): Promise<Canceled> {
      act.on({ after: selected(named) });
      const { unknown, ...mail } = await mailOf(deps, named, LOOK_UPS_MS, act);
      const canceled = await changeWaiting(deps, mail, { kind: 'canceled' }, act);
      act.on({ after: { ...selected(named), canceled } });
      return { canceled, ...unknownDomains(unknown) };
    },
  }),
};

interface Canceled extends ReturnType<typeof unknownDomains> {
  canceled: number;
}

/** For a lane: domains with waiting mail that may be of it, as DNS has not told where their mail goes. */
export const unknownDomains = (unknown: number | undefined): { domains_unknown?: number } =>
  unknown === undefined ? {} : { domains_unknown: unknown };

const noAct = { concerns: () => undefined };
const deliveriesOf = (count: number): string => pluralize(count, 'waiting delivery', 'waiting deliveries');
/** Counts the mail of a part; null for a source, by which the mail is sent that comes next. */
async function waitingOf(deps: OperatorDeps, { source, ...named }: NamedPart): Promise<number | null> {
  return source === undefined ? await countWaiting(deps, await mailOf(deps, named, LOOK_UPS_MS)) : null;
}

/** A lane and a source are held as a whole. */
const catchesNew = (isNew: boolean, part: Part): boolean => isNew || isLane(part) || part.source !== ANY_SOURCE;

/** Returns the holds with this id or of this part. Throws `not_found`. */
async function holdsNamed(deps: OperatorDeps, named: string | Part): Promise<Limit[]> {
  const all = await holdsInForce(deps);
  const found = typeof named === 'string' ? all.filter(({ id }) => id === named) : holdsOf(named, all);
  if (found.length === 0) throw new Problem('not_found', 'there is no such hold: see `posthorn queue holds`');
  return found;
}

/** Adds the facts of the hold to mail that is marked with a hold's id. */
export function withHold(one: HeldMail, limits: readonly Limit[]): HeldMail {
  const limit = one.by === 'operator' ? limits.find(({ id }) => id === one.target) : undefined;
  if (limit === undefined) return one;
  const { note, until, created_at: since, created_by: by, scope, target } = holdRecord(limit);
  const who = by === null || by === 'operator' ? 'The operator' : by.replace(/^member:/, '');
  const message = `${who} holds ${scope === 'all' ? 'all' : `the ${scope}`} ${target}${note === null ? '' : ` (${note})`}.`;
  return { ...one, since, until, message };
}

const partMembers = ['site', 'source', 'domain', 'account', 'stream', 'key', 'batch', 'message'] as const;

const holdsOf = (part: Part, all: readonly Limit[]): Limit[] =>
  all.filter((one) => one.kind === 'hold' && partMembers.every((name) => one[name] === part[name]));

function limitByHand(
  { clock }: Pick<OperatorDeps, 'clock'>,
  kind: 'hold' | 'limit',
  part: Part,
  { forMs, note, catchesNew }: { forMs: number | undefined; note: string | undefined; catchesNew: boolean },
  { actor }: Act,
): Limit {
  const now = clock.now();
  return {
    ...newLimit(kind, part, now),
    ...part,
    id: newId('hld', now),
    by: 'operator',
    until: forMs === undefined ? 0 : now + forMs,
    step: 0,
    cause: note ?? '',
    actor,
    catchesNew,
    evidence: null,
  };
}

async function endHolds(deps: OperatorDeps, ended: readonly Limit[], act: Act): Promise<void> {
  const [first] = ended;
  if (first === undefined) return;
  if (first.account !== null) act.concerns(first.account);
  act.on({ before: holdRecord(first) });
  await deps.limits.endByHand(ended.map(keyOf), act.rows());
  for (const one of ended) noteChange(deps, one.kind === 'hold' ? 'queue_released' : 'lane_limit_ended', one);
}

type HoldEvent = 'queue_held' | 'queue_released' | 'lane_limited' | 'lane_limit_ended';

function noteChange({ log }: Pick<OperatorDeps, 'log'>, event: HoldEvent, limit: Limit): void {
  const { id, scope, target, connections, per_minute, until, note } = holdRecord(limit);
  log.info(
    { event, hold_id: id, scope, target, connections, per_minute, until, note },
    'the operator has changed what the queue may do',
  );
}

export const holdRecord = (limit: Limit) => ({
  object: 'hold' as const,
  id: keyOf(limit),
  kind: limit.kind === 'limit' ? ('limit' as const) : ('hold' as const),
  /** The narrowest of what it names, and that in words with the rest. */
  ...scopeOf(limit),
  account_id: limit.account,
  /** All that mail must have to be of it; null if that does not matter. */
  domain: limit.domain,
  stream: limit.stream,
  key_id: limit.key,
  batch_id: limit.batch,
  message_id: limit.message,
  /** True if mail that is accepted later is held as well. */
  catches_new: limit.catchesNew,
  connections: limit.connections,
  per_minute: limit.perMinute,
  note: limit.cause === '' ? null : limit.cause,
  until: rfc3339(limit.until === 0 ? null : limit.until),
  created_at: rfc3339(limit.since),
  /** The person who set it, as the audit log names them; null if an older version set it. */
  created_by: limit.actor,
});

/** Returns the record of a hold or limit that was set just now. */
const setRecord = async (deps: OperatorDeps, limit: Limit) => ({
  ...holdRecord(limit),
  /** False if no node and no waiting mail has this lane now: a lane may be held before its first mail. Null for other parts. */
  lane_known: isLane(limit) ? await isLaneKnown(deps, scopeOf(limit).target) : null,
});
