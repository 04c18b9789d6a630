/**
 * Operations that hold mail, release it, and slow lanes down. Holds and limits are rows of the table `holds`: they survive a
 * restart and may have an end.
 */
import { z } from 'zod';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS } from '../base/time.ts';
import type { HoldRow } from '../storage/tables.ts';
import { accountNamed } from './team/accounts.ts';
import type { Act } from '../operations/act.ts';
import { cancelPages, type HoldTarget } from './cancel-waiting.ts';
import { heldMail, type HeldMail } from './held-mail.ts';
import { isLaneKnown } from './lane-records.ts';
import { LOOK_UPS_MS, mailOfLane } from './mail-of-lane.ts';
import { accountOfMessage } from './messages.ts';
import type { OperatorDeps } from './deps.ts';
import { serverRoute } from './server-route.ts';
import { recipientDomain, refuseNoDomain } from './recipient-domain.ts';

const YEAR_MS = 366 * DAY_MS;
const forArgument = z.int().min(1000).max(YEAR_MS).optional();
const noteArgument = z.string().min(1).max(200).optional();

/** One part of the queue: exactly one of these members, but a stream may have its `account`. */
const targetArguments = {
  domain: recipientDomain.optional(),
  lane: z.string().min(1).max(300).optional(),
  account: z.string().min(1).max(200).optional(),
  stream: z.string().min(1).max(100).optional(),
  message_id: z.string().max(100).optional(),
  source: z.string().min(1).max(100).optional(),
};
type NamedTarget = z.output<z.ZodObject<typeof targetArguments>>;

/** Returns the holds and limits in force, of whichever node they were set at. */
async function holdsInForce({ book, nodes }: Pick<OperatorDeps, 'book' | 'nodes'>): Promise<HoldRow[]> {
  if (nodes.hasOthers) await book.load();
  return book.list();
}

/** The members of a hold or limit that the audit keeps. */
const holdMembers = ['id', 'kind', 'scope', 'target', 'catches_new', 'connections', 'per_minute', 'note', 'until'];

export const holdOperations = {
  /** Holds waiting mail until it is released; with `new`, mail that is accepted later as well. */
  'queue.hold': serverRoute({
    act: { says: 'held the {scope} {target}', type: 'hold', named: 'target', keeps: holdMembers },
    body: z.strictObject({ ...targetArguments, for_ms: forArgument, new: z.boolean().optional(), note: noteArgument }),
    async run(deps, { for_ms: forMs, new: catchesNew = false, note, ...named }, act) {
      const about = await targetFor(deps, named, act);
      if (named.domain !== undefined) refuseNoDomain(named.domain);
      const row = holdRow(
        deps,
        { ...about, catches_new: Number(catchesNew || about.scope === 'lane' || about.scope === 'source') },
        forMs,
        note,
        act,
      );
      act.on({ after: row });
      const others = holdsOf(about, await holdsInForce(deps)).map(({ id }) => id);
      await deps.book.add(row, act.rows());
      noteChange(deps, 'queue_held', row);
      return {
        ...(await setRecord(deps, row)),
        /** Holds of the same part that were in force before: its mail rests until all have ended. */
        others,
      };
    },
  }),
  /** Ends holds: by id, or all those of one part of the queue. */
  'queue.release': serverRoute({
    act: { says: 'released the {scope} {target}', type: 'hold', named: 'target', keeps: holdMembers },
    body: z.strictObject({ ...targetArguments, id: z.string().max(100).optional() }),
    async run(deps, { id, ...named }, act) {
      act.on({ before: id === undefined ? pointedAt(named) : { scope: 'hold', target: id } });
      const all = await holdsInForce(deps);
      const rows = id === undefined ? holdsOf(await findTarget(deps, named), all) : all.filter((row) => row.id === id);
      if (rows.length === 0) throw new Problem('not_found', 'there is no such hold: see `posthorn queue holds`');
      await endHolds(deps, rows, act);
      return { data: rows.map(holdRecord) };
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
        const rows = all.filter(({ kind, target }) => kind === 'limit' && target === lane);
        if (rows.length === 0) throw new Problem('not_found', `the lane ${JSON.stringify(lane)} has no limit of yours`);
        await endHolds(deps, rows, act);
        return { data: [] };
      }
      const about = { scope: 'lane' as const, target: lane, account_id: null, catches_new: 1 };
      const limits = { connections: connections ?? null, per_minute: perMinute ?? null };
      const row: HoldRow = { ...holdRow(deps, about, forMs, note, act), kind: 'limit', ...limits };
      act.on({ after: row });
      await deps.book.add(row, act.rows());
      noteChange(deps, 'lane_limited', row);
      return { data: [await setRecord(deps, row)] };
    },
  }),
  /** Cancels waiting mail. Mail that is being sent cannot be canceled. */
  'queue.cancel': serverRoute({
    act: { says: 'canceled waiting mail of the {scope} {target}', type: 'queue', named: 'target', keeps: ['canceled'] },
    body: z.strictObject({
      domain: targetArguments.domain,
      lane: targetArguments.lane,
      account: targetArguments.account,
      stream: targetArguments.stream,
      message_id: targetArguments.message_id,
    }),
    async run(deps, named, act): Promise<Canceled> {
      const about = await targetFor(deps, named, act, 'a stream (of an account), or a message');
      const mail = about.scope === 'lane' ? await mailOfLane(deps, about.target, LOOK_UPS_MS) : null;
      const canceled = await cancelPages(deps, about, mail, act);
      act.on({ after: { ...about, canceled } });
      if (mail === null) return { canceled };
      return { canceled, domains_unknown: mail.unknown };
    },
  }),
};

interface Canceled {
  canceled: number;
  /** For a lane: domains with waiting mail that may be of it, as DNS has not told where their mail goes. */
  domains_unknown?: number;
}

/**
 * Returns the part as it was named, whether it exists or not. Throws `invalid_field` if it is not exactly one; `last` ends the list of
 * what may be named.
 */
function pointedAt(
  { domain, lane, account, stream, message_id: messageId, source }: NamedTarget,
  last = 'a stream (of an account), a message, or a source',
): Omit<HoldTarget, 'account_id'> {
  const given = [domain, lane, stream ?? account, messageId, source].filter((one) => one !== undefined);
  if (given.length !== 1) throw new Problem('invalid_field', `name exactly one: a domain, a lane, an account, ${last}`);
  if (domain !== undefined) return { scope: 'domain', target: domain };
  if (lane !== undefined) return { scope: 'lane', target: lane };
  if (source !== undefined) return { scope: 'source', target: source };
  if (messageId !== undefined) return { scope: 'message', target: messageId };
  return stream === undefined ? { scope: 'account', target: account ?? '' } : { scope: 'stream', target: stream };
}

/** Finds the part for an act, which names it in the audit even if it does not exist. Throws as `findTarget` does. */
async function targetFor(
  deps: Pick<OperatorDeps, 'db' | 'config'>,
  named: NamedTarget,
  act: Act,
  last?: string,
): Promise<HoldTarget> {
  act.on({ after: pointedAt(named, last) });
  const about = await findTarget(deps, named);
  if (about.account_id !== null) act.concerns(about.account_id);
  act.on({ after: about });
  return about;
}

/** Throws `invalid_field` if it is not exactly one part, `not_found` if it does not exist. */
async function findTarget(
  { db, config }: Pick<OperatorDeps, 'db' | 'config'>,
  named: NamedTarget,
): Promise<HoldTarget> {
  const { account, stream, message_id: messageId, source } = named;
  const pointed = pointedAt(named);
  if (pointed.scope === 'domain' || pointed.scope === 'lane') return { ...pointed, account_id: null };
  if (source !== undefined) {
    if (!config.delivery.sources.some(({ name }) => name === source))
      throw new Problem('not_found', `there is no source ${JSON.stringify(source)}: see \`posthorn queue sources\``, {
        field: 'source',
      });
    return { scope: 'source', target: source, account_id: null };
  }
  if (messageId !== undefined)
    return { scope: 'message', target: messageId, account_id: await accountOfMessage({ db }, messageId) };
  const { id } = await accountNamed({ db }, account);
  if (stream === undefined) return { scope: 'account', target: id, account_id: id };
  const known = (await db.reader('streams').where({ account_id: id, slug: stream }).first()) as object | undefined;
  if (known === undefined)
    throw new Problem('not_found', `there is no stream ${JSON.stringify(stream)}`, { field: 'stream' });
  return { scope: 'stream', target: stream, account_id: id };
}

/** Adds the facts of the hold to mail that is marked with a hold's id. */
export function withHold(one: HeldMail, rows: readonly HoldRow[]): HeldMail {
  const row = one.by === 'operator' ? rows.find(({ id }) => id === one.target) : undefined;
  if (row === undefined) return one;
  const { scope, target, note, until, created_at: since, created_by: by } = row;
  const who = by === null || by === 'operator' ? 'The operator' : by.replace(/^member:/, '');
  const message = `${who} holds the ${scope} ${target}${note === null ? '' : ` (${note})`}.`;
  return { ...one, since: rfc3339(since), until: rfc3339(until), message };
}

const holdsOf = ({ scope, target, account_id: account }: HoldTarget, all: readonly HoldRow[]): HoldRow[] =>
  all.filter(
    (row) => row.kind === 'hold' && row.scope === scope && row.target === target && row.account_id === account,
  );

function holdRow(
  { clock }: Pick<OperatorDeps, 'clock'>,
  about: HoldTarget & Pick<HoldRow, 'catches_new'>,
  forMs: number | undefined,
  note: string | undefined,
  { actor }: Act,
): HoldRow {
  const now = clock.now();
  return {
    id: newId('hld', now),
    kind: 'hold',
    ...about,
    connections: null,
    per_minute: null,
    note: note ?? null,
    until: forMs === undefined ? null : now + forMs,
    created_at: now,
    created_by: actor,
  };
}

async function endHolds(deps: OperatorDeps, rows: readonly HoldRow[], act: Act): Promise<void> {
  const ids = rows.map(({ id }) => id);
  const [account] = rows.map(({ account_id: accountId }) => accountId);
  if (account != null) act.concerns(account);
  act.on({ before: rows[0] ?? null });
  await deps.book.end(ids, act.rows());
  for (const row of rows) noteChange(deps, row.kind === 'hold' ? 'queue_released' : 'lane_limit_ended', row);
}

type HoldEvent = 'queue_held' | 'queue_released' | 'lane_limited' | 'lane_limit_ended';

function noteChange({ log }: Pick<OperatorDeps, 'log'>, event: HoldEvent, row: HoldRow): void {
  const { id, scope, target, connections, per_minute: perMinute, until, note } = row;
  log.info(
    { event, hold_id: id, scope, target, connections, per_minute: perMinute, until: rfc3339(until), note },
    'the operator has changed what the queue may do',
  );
}

const holdRecord = (row: HoldRow) => ({
  object: 'hold' as const,
  id: row.id,
  kind: row.kind,
  scope: row.scope,
  target: row.target,
  account_id: row.account_id,
  /** True if mail that is accepted later is held as well. */
  catches_new: row.catches_new === 1,
  connections: row.connections,
  per_minute: row.per_minute,
  note: row.note,
  until: rfc3339(row.until),
  created_at: rfc3339(row.created_at),
  /** The person who set it, as the audit log names them; null if an older version set it. */
  created_by: row.created_by,
});

/** Returns the record of a hold or limit that was set just now. */
const setRecord = async (deps: OperatorDeps, row: HoldRow) => ({
  ...holdRecord(row),
  /** False if no node and no waiting mail has this lane now: a lane may be held before its first mail. Null for other parts. */
  lane_known: row.scope === 'lane' ? await isLaneKnown(deps, row.target) : null,
});
