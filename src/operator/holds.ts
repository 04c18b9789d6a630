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
import { partText, type HoldPart } from '../messages/delivery/hold-index.ts';
import type { Act } from '../operations/act.ts';
import { heldMail, type HeldMail } from './held-mail.ts';
import { pluralize } from '../base/pluralize.ts';
import { byWhom } from './lane-acts.ts';
import { laneIfKnown } from './lane-records.ts';
import { askEach, type Question } from './ask-nodes.ts';
import type { OperatorDeps } from './deps.ts';
import { serverRoute } from './server-route.ts';
import { refuseNoDomain } from './recipient-domain.ts';
import { holdMembers, LOOK_UPS_MS, mailOf, partFor, partOf, selectorMembers, type Selector } from './selector.ts';
import { changeWaiting, countWaiting } from './waiting-pages.ts';

const YEAR_MS = 366 * DAY_MS;
const forArgument = z.int().min(1000).max(YEAR_MS).optional();
const noteArgument = z.string().min(1).max(200).optional();

/** Has a node read the holds and limits again, so that they are in force there. */
export const holdsQuestion: Question<Pick<OperatorDeps, 'book' | 'notifiers'>, object, null> = {
  name: 'holds',
  args: z.strictObject({}),
  async answer({ book, notifiers }) {
    if (await book.load()) notifiers.holds.arrive();
    return null;
  },
};

/** Waits until what was set or ended is in force at every node. One that does not answer reads it by itself within two seconds. */
async function inForceEverywhere(deps: OperatorDeps): Promise<void> {
  if (deps.nodes.hasOthers) await askEach(deps, holdsQuestion, {});
}

/** Returns the holds and limits in force, of whichever node they were set at. */
async function holdsInForce({ book, nodes }: Pick<OperatorDeps, 'book' | 'nodes'>): Promise<HoldRow[]> {
  if (nodes.hasOthers) await book.load();
  return book.list();
}

/** The members of a hold or limit that the audit keeps. */
const audited = [
  ...['id', 'kind', 'scope', 'target', 'account_id', 'domain', 'stream', 'key_id', 'tag'],
  ...['catches_new', 'connections', 'per_minute', 'note', 'until'],
];

export const holdOperations = {
  /** Holds waiting mail until it is released; with `new`, mail that is accepted later as well. */
  'queue.hold': serverRoute({
    act: { says: 'held the {part}', type: 'hold', named: 'target', keeps: audited },
    body: z.strictObject({ ...holdMembers, for_ms: forArgument, new: z.boolean().optional(), note: noteArgument }),
    async dryRun(deps, { for_ms: forMs, new: catchesNew = false, note: _, ...named }) {
      const part = await holdPart(deps, named);
      const { source } = named;
      const waiting = source === undefined ? await countWaiting(deps, await mailOf(deps, named, LOOK_UPS_MS)) : null;
      const now = waiting === null ? 'what would go by it' : `${deliveriesOf(waiting)} of it`;
      const end = forMs === undefined ? 'until it is released' : `until ${rfc3339(deps.clock.now() + forMs)}`;
      const isAll = catchesNew || isWhole(part);
      return {
        would: `hold the ${partText(part)}: ${now}${isAll ? ', and what is accepted later' : ''}, ${end}`,
        waiting,
      };
    },
    async run(deps, { for_ms: forMs, new: catchesNew = false, note, ...named }, act) {
      const about = await holdPart(deps, named, act);
      const row = holdRow(deps, { ...about, catches_new: Number(catchesNew || isWhole(about)) }, forMs, note, act);
      act.on({ after: { ...row, part: partText(row) } });
      const laneKnown = about.scope === 'lane' ? laneIfKnown(deps, about.target) : null;
      const others = holdsOf(about, await holdsInForce(deps)).map(({ id }) => id);
      await deps.book.add(row, act.rows());
      await inForceEverywhere(deps);
      noteChange(deps, 'queue_held', row, act);
      return {
        ...setRecord(row, await laneKnown),
        /** Holds of the same part that were in force before: its mail rests until all have ended. */
        others,
      };
    },
  }),
  /** Ends holds: by id, or all those of one part of the queue. */
  'queue.release': serverRoute({
    act: { says: 'released the {part}', type: 'hold', named: 'target', keeps: audited },
    body: z.strictObject({ ...holdMembers, id: z.string().max(100).optional() }),
    async dryRun(deps, { id, ...named }) {
      const rows = await holdsNamed(deps, id ?? (await partOf(deps, named)));
      const waiting = await deps.db
        .reader('deliveries')
        .whereIn(
          'held_by',
          rows.map((row) => row.id),
        )
        .count({ n: '*' });
      const n = Number((waiting as { n: number }[])[0]?.n ?? 0);
      return {
        would: `end ${rows.map((row) => `${row.id} of the ${partText(row)}`).join(', ')}: ${deliveriesOf(n)} held`,
        waiting: n,
      };
    },
    async run(deps, { id, ...named }, act) {
      if (id !== undefined) act.on({ before: { part: `hold ${id}`, target: id } });
      const rows = await holdsNamed(deps, id ?? (await partFor(deps, named, act, 'before')));
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
    act: { says: 'set the limit of the lane {target}', type: 'lane', named: 'target', keeps: audited },
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
      const none = { account_id: null, domain: null, stream: null, key_id: null, tag: null };
      const about = { ...none, scope: 'lane' as const, target: lane, catches_new: 1 };
      const limits = { connections: connections ?? null, per_minute: perMinute ?? null };
      const row: HoldRow = { ...holdRow(deps, about, forMs, note, act), kind: 'limit', ...limits };
      act.on({ after: row });
      const laneKnown = laneIfKnown(deps, lane);
      await deps.book.add(row, act.rows());
      await inForceEverywhere(deps);
      noteChange(deps, 'lane_limited', row, act);
      return { data: [setRecord(row, await laneKnown)] };
    },
  }),
  /** Cancels waiting mail. Mail that is being sent cannot be canceled. */
  'queue.cancel': serverRoute({
    act: { says: 'canceled waiting mail of the {part}', type: 'queue', named: 'target', keeps: ['canceled'] },
    body: z.strictObject(selectorMembers),
    async dryRun(deps, named) {
      const part = await partOf(deps, named);
      const { unknown, ...mail } = await mailOf(deps, named, LOOK_UPS_MS);
      const waiting = await countWaiting(deps, mail);
      return { would: `cancel ${deliveriesOf(waiting)} of the ${partText(part)}`, waiting, ...unknownDomains(unknown) };
    },
    async run(deps, named, act): Promise<Canceled> {
      const about = await partFor(deps, named, act);
      const { unknown, ...mail } = await mailOf(deps, named, LOOK_UPS_MS);
      const canceled = await changeWaiting(deps, mail, { kind: 'canceled' }, act);
      act.on({ after: { ...about, part: partText(about), canceled } });
      if (about.scope === 'lane' && canceled > 0)
        deps.laneActs.note(about.target, {
          at: deps.clock.now(),
          what: 'cancel',
          to: `${pluralize(canceled, 'waiting mail')} canceled`,
          cause: byWhom(act.actor),
        });
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

const deliveriesOf = (count: number): string => pluralize(count, 'waiting delivery', 'waiting deliveries');

/** Returns whether a hold is of a lane or source, which is held as a whole: no mail of it is looked at. */
const isWhole = ({ scope }: Pick<HoldPart, 'scope'>): boolean => scope === 'lane' || scope === 'source';

/** Finds what is to be held. Throws `invalid_field` for a part of the mail of a lane or source. */
async function holdPart(deps: OperatorDeps, named: Selector, act?: Act): Promise<HoldPart> {
  const part = act === undefined ? await partOf(deps, named) : await partFor(deps, named, act);
  if (named.domain !== undefined) refuseNoDomain(named.domain);
  if (isWhole(part) && Object.values(named).filter((one) => one !== undefined).length > 1)
    throw new Problem('invalid_field', `a ${part.scope} can only be held as a whole: leave the others out`, {
      field: part.scope,
    });
  return part;
}

/** Adds the facts of the hold to mail that is marked with a hold's id. */
export function withHold(one: HeldMail, rows: readonly HoldRow[]): HeldMail {
  const row = one.by === 'operator' ? rows.find(({ id }) => id === one.target) : undefined;
  if (row === undefined) return one;
  const { note, until, created_at: since, created_by: by } = row;
  const who = by === null || by === 'operator' ? 'The operator' : by.replace(/^member:/, '');
  const message = `${who} holds the ${partText(row)}${note === null ? '' : ` (${note})`}.`;
  return { ...one, since: rfc3339(since), until: rfc3339(until), message };
}

const holdsOf = (part: HoldPart, all: readonly HoldRow[]): HoldRow[] =>
  all.filter((row) => row.kind === 'hold' && partText(row) === partText(part) && row.account_id === part.account_id);

/** Returns the holds with this id or of this part. Throws `not_found`. */
async function holdsNamed(deps: OperatorDeps, named: string | HoldPart): Promise<readonly HoldRow[]> {
  const all = await holdsInForce(deps);
  const rows = typeof named === 'string' ? all.filter(({ id }) => id === named) : holdsOf(named, all);
  if (rows.length === 0) throw new Problem('not_found', 'there is no such hold: see `posthorn queue holds`');
  return rows;
}

function holdRow(
  { clock }: Pick<OperatorDeps, 'clock'>,
  about: HoldPart & Pick<HoldRow, 'catches_new'>,
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
  const [first] = rows;
  act.on({ before: first === undefined ? null : { ...first, part: partText(first) } });
  await deps.book.end(ids, act.rows());
  await inForceEverywhere(deps);
  for (const row of rows) noteChange(deps, row.kind === 'hold' ? 'queue_released' : 'lane_limit_ended', row, act);
}

const changeTexts = {
  queue_held: () => 'paused',
  queue_released: () => 'released',
  lane_limited: (row: HoldRow) => `at most ${limitWords(row)}`,
  lane_limit_ended: (row: HoldRow) => `no longer at most ${limitWords(row)}`,
} as const;
type HoldEvent = keyof typeof changeTexts;

const limitWords = ({ connections, per_minute: perMinute }: HoldRow): string =>
  [
    ...(connections === null ? [] : [pluralize(connections, 'connection')]),
    ...(perMinute === null ? [] : [`${pluralize(perMinute, 'mail')} a minute`]),
  ].join(', ');

function noteChange({ log, clock, laneActs }: OperatorDeps, event: HoldEvent, row: HoldRow, { actor }: Act): void {
  const { id, scope, target, connections, per_minute: perMinute, until, note } = row;
  log.info(
    { event, hold_id: id, scope, target, connections, per_minute: perMinute, until: rfc3339(until), note },
    'the operator has changed what the queue may do',
  );
  if (scope !== 'lane') return;
  const cause = byWhom(actor, event === 'queue_held' || event === 'lane_limited' ? note : null);
  laneActs.note(target, { at: clock.now(), what: row.kind, to: changeTexts[event](row), cause });
}

const holdRecord = (row: HoldRow) => ({
  object: 'hold' as const,
  id: row.id,
  kind: row.kind,
  scope: row.scope,
  target: row.target,
  account_id: row.account_id,
  domain: row.domain,
  stream: row.stream,
  key_id: row.key_id,
  tag: row.tag,
  /** What it is about, in words. */
  part: partText(row),
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
const setRecord = (row: HoldRow, laneKnown: boolean | null) => ({
  ...holdRecord(row),
  /** False if no node and no waiting mail has this lane now: a lane may be held before its first mail. Null for other parts, or if it is not known. */
  lane_known: laneKnown,
});
