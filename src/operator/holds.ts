/** Operations that hold mail, release it, and slow lanes down: they set and end limits by hand. */
import { z } from 'zod';
import { newId } from '../base/id.ts';
import { limitNumbers, pluralize } from '../base/pluralize.ts';
import { Problem, invalid, missing } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { each, flag, many, maybe, maybeTime, maybeWhole, ofKind, text, time, whole } from '../api/record-schema.ts';
import { DAY_MS } from '../base/time.ts';
import { isOfEngine, readMark, type PoolMark } from '../messages/delivery/hold-mark.ts';
import { settersOfWaits, type LaneFacts, type LaneWait } from '../messages/delivery/why.ts';
import { ANY_SOURCE, isOfPart, keyOf, newLimit, scopeOf, scopeText, type Limit } from '../messages/limits/limit.ts';
import type { Act } from '../operations/act.ts';
import type { OperatorDeps } from './server-route.ts';
import { isLaneKnown, readQueue, type Queue, MOST_DOMAINS, siteOf, type LanesDeps } from './lanes.ts';
import { gauge, type Family } from './metrics/exposition.ts';
import {
  isLane,
  partArguments,
  partFor,
  pointedAt,
  selected,
  selectedText,
  type NamedPart,
  type Part,
  refuseNoDomain,
  LOOK_UPS_MS,
  mailOf,
  selectorMembers,
  changeWaiting,
  countWaiting,
} from './selector.ts';
import { serverRoute } from './server-route.ts';
import { dialectOf } from '../storage/sql.ts';

const YEAR_MS = 366 * DAY_MS;
const forArgument = z.int().min(1000).max(YEAR_MS).optional();
const noteArgument = z.string().min(1).max(200).optional();

/** A limit names no key, bulk send or message: lanes do not know these of their mail. */
const { key_id: _, batch_id: __, message_id: ___, ...limitedArguments } = partArguments;

async function holdsInForce({ limits, nodes }: Pick<OperatorDeps, 'limits' | 'nodes'>): Promise<Limit[]> {
  if (nodes.hasOthers) await limits.reread();
  return limits.listByHand();
}

const heldBys = [
  'route',
  'operator',
  'account_pause',
  'stream_pause',
  'domain_refused',
  'block_list',
  'warm_up',
  'no_source',
  'rest',
] as const;

const Hold = ofKind('hold', {
  id: text(),
  kind: z.enum(['hold', 'limit']),
  ...each(text('The narrowest of what it names, and that in words with the rest.'), 'scope', 'target'),
  // All that mail must have to be of it; null if that does not matter.
  ...each(maybe(), 'account_id', 'domain', 'stream', 'key_id', 'batch_id', 'message_id'),
  catches_new: flag('True if mail that is accepted later is held as well.'),
  ...each(maybeWhole(), ...limitNumbers),
  note: maybe(),
  until: maybeTime(),
  created_at: time(),
  created_by: maybe('The person who set it, as the audit log names them; null if an older version set it.'),
});
export type HoldRecord = z.infer<typeof Hold>;

/** `lane_known` is false if no node and no waiting mail has this lane now: a lane may be held before its first mail. It is null for other parts. */
const SetHold = Hold.extend({ lane_known: flag().nullable() });

const HeldMail = ofKind('held_mail', {
  by: z.enum(heldBys),
  target: text("A recipient domain, a lane, an account's id, `account id/stream`, a sending domain, or a hold's id."),
  account_id: maybe('The account whose mail it is, if the cause concerns one account.'),
  waiting: whole('Recipients that wait for it.'),
  since: maybeTime(),
  until: maybeTime('When it ends by itself or is looked at again, or null.'),
  set_by: z.enum(settersOfWaits),
  message: text(),
});
export type HeldMail = z.infer<typeof HeldMail>;

/** For a lane: domains with waiting mail that may be of it, as DNS has not told where their mail goes. */
export const domainsUnknown = { domains_unknown: whole().optional() };

const holdMembers = ['id', 'kind', 'scope', 'target', 'catches_new', ...limitNumbers, 'note', 'until'];
const mails = z.int().min(1).max(1_000_000).optional();

export const holdOperations = {
  /** Holds waiting mail until it is released; with `new`, mail that is accepted later as well. */
  'queue.hold': serverRoute({
    answer: SetHold.extend({
      others: many(text()).describe('Holds of the same part that were in force before: its mail rests until all end.'),
    }),
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
      const others = holdsOf(part, await holdsInForce(deps)).map(keyOf);
      await deps.limits.add(limit, act.rows());
      noteChange(deps, 'queue_held', limit);
      return { ...(await setRecord(deps, limit)), others };
    },
  }),
  /** Ends holds: by id, or all those of one part of the queue. */
  'queue.release': serverRoute({
    answer: z.object({ data: many(Hold) }),
    act: { says: 'released the {scope} {target}', type: 'hold', named: 'target', keeps: holdMembers },
    body: z.strictObject({ ...partArguments, id: z.string().max(100).optional() }),
    async dryRun(deps, named) {
      const ended = await holdsNamed(deps, named, noAct);
      const rows = await deps.db
        .reader('deliveries')
        .whereIn('held_by', ended.map(keyOf))
        .count<{ n: number }[]>({ n: '*' });
      const waiting = rows[0]?.n ?? 0;
      return { would: `end ${ended.map(keyOf).join(', ')}: ${deliveriesOf(waiting)} held`, waiting };
    },
    async run(deps, { id, ...named }, act) {
      act.on({ before: id === undefined ? pointedAt(named) : { scope: 'hold', target: id } });
      const ended = await holdsNamed(deps, { id, ...named }, act);
      await endHolds(deps, ended, act);
      return { data: ended.map(holdRecord) };
    },
  }),
  /** Returns holds and limits, and counts all other mail that is kept back: routes, pauses, refused domains, block lists, rests. */
  'queue.holds': serverRoute({
    answer: z.object({ data: many(Hold), others: many(HeldMail) }),
    async run(deps) {
      const [rows, others] = await Promise.all([holdsInForce(deps), heldMail(deps)]);
      return { data: rows.map(holdRecord), others };
    },
  }),
  /** Limits the connections or the mails a minute of a lane, or the mails an hour or a day of any part; without a number the limit ends. */
  'queue.limit': serverRoute({
    answer: z.object({ data: many(SetHold) }),
    act: { says: 'set the limit of the {scope} {target}', type: 'lane', named: 'target', keeps: holdMembers },
    body: z.strictObject({
      ...limitedArguments,
      connections: z.int().min(1).max(1000).optional(),
      ...{ per_minute: mails, per_hour: mails, per_day: mails },
      for_ms: forArgument,
      note: noteArgument,
    }),
    async run(deps, { connections, per_minute, per_hour, per_day, for_ms: forMs, note, ...named }, act) {
      const ofLane = connections ?? per_minute;
      const isEnd = (ofLane ?? per_hour ?? per_day) === undefined;
      if (isEnd && (forMs ?? note) !== undefined)
        throw missing('connections', 'say how many connections, or how many mails a minute, an hour or a day');
      act.on({ [isEnd ? 'before' : 'after']: selected(named) });
      const part = await partFor(deps, named, act, selected);
      const before = (await holdsInForce(deps)).filter((one) => one.kind === 'limit' && isOfPart(one, part));
      if (isEnd) {
        if (before.length === 0) throw new Problem('not_found', `${selectedText(named)} has no limit of yours`);
        await endHolds(deps, before, act);
        return { data: [] };
      }
      const limit: Limit = {
        ...limitByHand(deps, 'limit', part, { forMs, note, catchesNew: true }, act),
        ...{ connections: connections ?? null, perMinute: per_minute ?? null },
        ...{ perHour: per_hour ?? null, perDay: per_day ?? null },
        // Mails that have gone in this hour and on this day count on. Nodes read a row again if it is newer.
        ...(before[0] && { id: before[0].id, changedAt: Math.max(deps.clock.now(), before[0].changedAt + 1) }),
      };
      if (ofLane !== undefined && holdRecord(limit).target !== named.lane)
        throw invalid('lane', 'connections and mails a minute are those of a whole lane');
      act.on({ after: holdRecord(limit) });
      await deps.limits.add(limit, act.rows());
      noteChange(deps, 'lane_limited', limit);
      return { data: [await setRecord(deps, limit)] };
    },
  }),
  /** Cancels waiting mail. Mail that is being sent cannot be canceled. */
  'queue.cancel': serverRoute({
    answer: z.object({ canceled: whole(), ...domainsUnknown }),
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
    async run(deps, named, act) {
      act.on({ after: selected(named) });
      const { unknown, ...mail } = await mailOf(deps, named, LOOK_UPS_MS, act);
      const canceled = await changeWaiting(deps, mail, { kind: 'canceled' }, act);
      act.on({ after: { ...selected(named), canceled } });
      return { canceled, ...unknownDomains(unknown) };
    },
  }),
};

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
async function holdsNamed(
  deps: OperatorDeps,
  { id, ...named }: NamedPart & { id?: string | undefined },
  act: Pick<Act, 'concerns'>,
): Promise<Limit[]> {
  if (id !== undefined && Object.values(named).some((one) => one !== undefined))
    throw new Problem('invalid_field', 'name a hold by its id, or what it is of, but not both');
  const part = id === undefined ? await partFor(deps, named, act) : null;
  const all = await holdsInForce(deps);
  const found = part === null ? all.filter((one) => one.id === id) : holdsOf(part, all);
  if (found.length === 0) throw new Problem('not_found', 'there is no such hold: see `posthorn queue holds`');
  return found;
}

const holdsOf = (part: Part, all: readonly Limit[]): Limit[] =>
  all.filter((one) => one.kind === 'hold' && isOfPart(one, part));

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
  const { id, scope, target, connections, per_minute, per_hour, per_day, until, note } = holdRecord(limit);
  log.info(
    { event, hold_id: id, scope, target, connections, per_minute, per_hour, per_day, until, note },
    'the operator has changed what the queue may do',
  );
}

export const holdRecord = (limit: Limit): HoldRecord => ({
  object: 'hold',
  id: keyOf(limit),
  kind: limit.kind === 'limit' ? 'limit' : 'hold',
  ...scopeOf(limit),
  account_id: limit.account,
  domain: limit.domain,
  stream: limit.stream,
  key_id: limit.key,
  batch_id: limit.batch,
  message_id: limit.message,
  catches_new: limit.catchesNew,
  connections: limit.connections,
  per_minute: limit.perMinute,
  per_hour: limit.perHour,
  per_day: limit.perDay,
  note: limit.cause === '' ? null : limit.cause,
  until: rfc3339(limit.until === 0 ? null : limit.until),
  created_at: rfc3339(limit.since),
  created_by: limit.actor,
});

async function setRecord(deps: OperatorDeps, limit: Limit) {
  const record = holdRecord(limit);
  return { ...record, lane_known: record.scope === 'lane' ? await isLaneKnown(deps, record.target) : null };
}

type Deps = LanesDeps & Pick<OperatorDeps, 'db' | 'clock' | 'laneFacts' | 'limits'>;

/** The most marks, domains and parts of resting lanes that are read, the largest first. */
const MOST = MOST_DOMAINS;

/** The kinds of limits that close a lane or a part of it. */
const kinds = ['sender', 'block_list', 'load', 'tls', 'rule', 'warm_up'] as const satisfies readonly LaneWait['kind'][];

/** Returns whether a wait is for a limit that closes the lane or a part of it. */
export const isRest = ({ kind }: Pick<LaneWait, 'kind'>): boolean => kind !== undefined;

export async function heldMail(deps: Deps): Promise<HeldMail[]> {
  return await heldIn(deps, await readQueue(deps));
}

async function heldIn(deps: Deps, queue: Queue): Promise<HeldMail[]> {
  const all = await Promise.all([markedMail(deps), routedMail(deps, queue), restingMail(deps, queue)]);
  return all.flat().sort((a, b) => b.waiting - a.waiting);
}

interface Mark {
  mark: string;
  waiting: number;
  since: number | null;
  domain: string;
}

/** Counts deliveries that are marked with their hold (messages/delivery/holds.ts), from the index alone. */
async function markedMail(deps: Deps): Promise<HeldMail[]> {
  const marks = await deps.db.reader.raw<Mark[]>(
    `SELECT m.mark, m.waiting, d.held_at AS since, d.domain FROM (
       SELECT held_by AS mark, COUNT(*) AS waiting, MIN(id) AS id FROM deliveries
       WHERE held_by IS NOT NULL GROUP BY held_by ORDER BY waiting DESC, held_by LIMIT ?) m
     JOIN deliveries d ON d.id = m.id`,
    [MOST],
  );
  const asked = marks.filter(({ mark }) => isOfEngine(mark));
  const found = await deps.laneFacts(asked.map(({ mark, domain }) => ({ domain, account: '', mark })));
  const facts = new Map(asked.map(({ mark }, at) => [mark, found[at] ?? null]));
  const holds = new Map(deps.limits.listByHand().map((limit) => [limit.id, limit]));
  return marks.map((mark) => ofMark(mark, facts.get(mark.mark) ?? null, holds));
}

function ofMark(
  { mark: text, waiting, since }: Mark,
  facts: LaneFacts | null,
  holds: ReadonlyMap<string | null, Limit>,
): HeldMail {
  const mark = readMark(text);
  const given = { object: 'held_mail', account_id: null, waiting, since: rfc3339(since), until: null } as const;
  switch (mark?.kind) {
    case 'account': {
      const message = 'Sending is paused for this account.';
      const { accountId } = mark;
      return { ...given, by: 'account_pause', target: accountId, account_id: accountId, set_by: 'operator', message };
    }
    case 'stream': {
      const { accountId, stream } = mark;
      const target = `${accountId}/${stream}`;
      const message = 'The stream is paused.';
      return { ...given, by: 'stream_pause', target, account_id: accountId, set_by: 'sender', message };
    }
    case 'domain': {
      const { accountId, domain } = mark;
      const message = `Mail from ${domain} is refused: the domain is not verified.`;
      return { ...given, by: 'domain_refused', target: domain, account_id: accountId, set_by: 'dns', message };
    }
    case 'rule': {
      const by = holds.has(mark.rule) ? 'operator' : 'rest';
      const message = `The ${by === 'operator' ? 'limit' : 'rule'} ${mark.rule} lets no more of it go now.`;
      return { ...given, by, target: mark.rule, until: rfc3339(mark.until), set_by: 'operator', message };
    }
    case 'pool':
    case 'paused':
      return { ...given, ...ofPool(mark, facts), target: mark.site };
    case 'hold':
    case undefined: {
      const limit = holds.get(text);
      const held = { ...given, by: 'operator', target: text, set_by: 'operator' } as const;
      if (limit === undefined) return { ...held, message: 'There is a hold on it.' };
      const who =
        limit.actor === null || limit.actor === 'operator' ? 'The operator' : limit.actor.replace(/^member:/, '');
      const message = `${who} holds ${scopeText(limit)}${limit.cause === '' ? '' : ` (${limit.cause})`}.`;
      return { ...held, since: rfc3339(limit.since), until: rfc3339(limit.until || null), message };
    }
  }
}

function ofPool(
  { kind }: PoolMark,
  facts: LaneFacts | null,
): Pick<HeldMail, 'by' | 'set_by' | 'message'> & Partial<HeldMail> {
  const hold = facts?.held ?? null;
  const by = kind === 'paused' ? 'operator' : 'no_source';
  const setBy = hold?.setBy ?? (by === 'operator' ? 'operator' : 'us');
  if (hold !== null)
    return { by, set_by: setBy, message: sentence(hold.why), since: rfc3339(hold.since), until: rfc3339(hold.until) };
  return { by, set_by: setBy, message: 'Its hold has ended; it will be sent within half a minute.' };
}

const sentence = (words: string): string => `${words.slice(0, 1).toUpperCase()}${words.slice(1)}.`;

async function routedMail(deps: Deps, { domains }: Queue): Promise<HeldMail[]> {
  const rows = domains.filter(({ lane }) => lane === '~hold');
  const facts = await deps.laneFacts(rows.map(({ domain }) => ({ domain, account: '' })));
  return rows.map(({ domain, waiting: count, oldest_due_at: oldest }, at) => ({
    object: 'held_mail',
    by: 'route',
    target: domain,
    account_id: null,
    waiting: count,
    since: rfc3339(Math.min(Date.parse(oldest), deps.clock.now())),
    until: null,
    set_by: 'operator',
    message: facts[at]?.waits[0]?.message ?? `The route of ${domain} in delivery.routes holds its mail.`,
  }));
}

/** Counts the mail of each lane that rests. A rest may concern one domain or one account only. */
async function restingMail({ db, laneFacts, mta }: Deps, queue: Queue): Promise<HeldMail[]> {
  const resting = new Set(
    queue.lanes.flatMap(({ name, source, waits }) => (waits.some(isRest) ? [siteOf(name, source)] : [])),
  );
  if (resting.size === 0) return [];
  const domains = queue.domains.filter(({ lane }) => resting.has(lane)).map(({ domain }) => domain);
  const parts = await db.reader.raw<{ domain: string; account: string; waiting: number }[]>(
    `SELECT domain, account_id AS account, COUNT(*) AS waiting FROM deliveries
     WHERE due_at IS NOT NULL AND held_by IS NULL AND domain ${dialectOf(db.reader).among('text')}
     GROUP BY domain, account_id ORDER BY waiting DESC LIMIT ?`,
    [JSON.stringify(domains), MOST],
  );
  const found = new Map<string, HeldMail>();
  const facts = await laneFacts(parts);
  for (const [at, part] of parts.entries()) {
    const rest = facts[at]?.waits.find(isRest);
    if (rest === undefined) continue;
    const target = mta.reports.laneOf(part.domain);
    const key = `${target} ${rest.message}`;
    const before = found.get(key)?.waiting ?? 0;
    found.set(key, {
      object: 'held_mail',
      by: rest.kind === 'block_list' || rest.kind === 'warm_up' ? rest.kind : 'rest',
      target,
      account_id: null,
      waiting: before + part.waiting,
      since: rfc3339(rest.since),
      until: rfc3339(rest.until),
      set_by: rest.by,
      message: rest.message,
    });
  }
  return [...found.values()];
}

/** Returns the figures for Prometheus. Each label always has a sample, so that an alert ends when the mail is gone. */
export async function heldFigures(deps: Deps): Promise<Family[]> {
  const queue = await readQueue(deps);
  const held = await heldIn(deps, queue);
  const resting = new Set(
    queue.lanes.flatMap(({ name, waits }) =>
      waits.flatMap(({ kind }) => (kind === undefined ? [] : [`${kind} ${name}`])),
    ),
  );
  return [
    gauge(
      'posthorn_queue_held',
      'Recipients whose mail is kept back, by what keeps it back.',
      heldBys.map((by) => ({
        labels: { by },
        value: held.filter((one) => one.by === by).reduce((sum, one) => sum + one.waiting, 0),
      })),
    ),
    gauge(
      'posthorn_lanes_resting',
      'Lanes that rest because of what the receiver answers, or by a shaping rule.',
      kinds.map((kind) => ({
        labels: { kind },
        value: [...resting].filter((one) => one.startsWith(`${kind} `)).length,
      })),
    ),
  ];
}
