/** Operations that hold mail, release it, and slow lanes down: they set and end limits by hand. */
import { z } from 'zod';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS } from '../base/time.ts';
import { ANY_SOURCE, keyOf, newLimit, scopeOf, type Limit } from '../messages/limits/limit.ts';
import type { Act } from '../operations/act.ts';
import { cancelPages } from './cancel-waiting.ts';
import { heldMail, type HeldMail } from './held-mail.ts';
import { isLaneKnown } from './lane-records.ts';
import { LOOK_UPS_MS, mailOfLane } from './mail-of-lane.ts';
import { isLane, mailArguments, partArguments, partFor, partOfLane, pointedAt, type Part } from './parts.ts';
import type { OperatorDeps } from './deps.ts';
import { serverRoute } from './server-route.ts';
import { refuseNoDomain } from './recipient-domain.ts';

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
    async run(deps, { for_ms: forMs, new: isNew = false, note, ...named }, act) {
      act.on({ after: pointedAt(named) });
      const part = await partFor(deps, named, act);
      if (named.domain !== undefined) refuseNoDomain(named.domain);
      const catchesNew = isNew || isLane(part) || part.source !== ANY_SOURCE;
      const limit = limitByHand(deps, 'hold', part, { forMs, note, catchesNew }, act);
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
    async run(deps, { id, ...named }, act) {
      act.on({ before: id === undefined ? pointedAt(named) : { scope: 'hold', target: id } });
      const all = await holdsInForce(deps);
      const ended =
        id === undefined ? holdsOf(await partFor(deps, named, act), all) : all.filter((one) => one.id === id);
      if (ended.length === 0) throw new Problem('not_found', 'there is no such hold: see `posthorn queue holds`');
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
    body: z.strictObject({ ...mailArguments, lane: partArguments.lane, all: partArguments.all }),
    async run(deps, named, act): Promise<Canceled> {
      act.on({ after: pointedAt(named, { mayBeSource: false }) });
      const part = await partFor(deps, named, act);
      const mail = named.lane === undefined ? null : await mailOfLane(deps, named.lane, LOOK_UPS_MS);
      const canceled = await cancelPages(deps, part, mail, act);
      act.on({ after: { ...pointedAt(named, { mayBeSource: false }), canceled } });
      return mail === null ? { canceled } : { canceled, domains_unknown: mail.unknown };
    },
  }),
};

interface Canceled {
  canceled: number;
  /** For a lane: domains with waiting mail that may be of it, as DNS has not told where their mail goes. */
  domains_unknown?: number;
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
