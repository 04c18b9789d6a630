/** Operations on the queue: lanes, waiting deliveries, and trying them now. */
import { z } from 'zod';
import { each, flag, many, maybe, maybeTime, maybeWhole, ofKind, text, time, whole } from '../api/record-schema.ts';
import { pluralize } from '../base/pluralize.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS } from '../base/time.ts';
import { notRunning } from '../base/unavailable.ts';
import type { Config } from '../config/schema.ts';
import { SIMULATOR_DOMAIN } from '../messages/delivery/delivery.ts';
import { nextTries } from '../messages/delivery/why.ts';
import { nextAttemptAt } from '../messages/store/message-store.ts';
import type { OperatorDeps, StoreDeps } from './server-route.ts';
import { domainsUnknown, unknownDomains } from './holds.ts';
import {
  Ages,
  agesOf,
  domainsOf,
  Lane,
  LaneAtNode,
  laneAtNode,
  laneRecords,
  oneLane,
  readQueue,
  laneFigures,
  type LaneFigure,
  WaitingDomain,
} from './lanes.ts';
import { figuresOf, serverNames } from './node-figures.ts';
import {
  selected,
  selectedText,
  both,
  conditionOf,
  LOOK_UPS_MS,
  mailOf,
  ofMail,
  selectorMembers,
  changeWaiting,
  countWaiting,
  type Condition,
  type WaitingMail,
} from './selector.ts';
import { serverRoute, storeRoute } from './server-route.ts';
import { deliveryStatuses, type DeliveryRow } from '../storage/tables.ts';

/** By the number that deliveries have. */
const classes = ['transactional', 'broadcast'] as const;
const TEN_YEARS_MS = 3650 * DAY_MS;

const senderKeys = ['account', 'key', 'stream', 'domain', 'tag'] as const;

/** The name that mail is counted by, the id that selects it, and the tables they are in. Domains are those of recipients. */
const senders: Readonly<Record<(typeof senderKeys)[number], { name: string; id: string; from: string }>> = {
  account: { name: 'a.name', id: 'a.id', from: '' },
  key: {
    name: 'k.name',
    id: 'm.key_id',
    from: 'JOIN messages m ON m.id = d.message_id LEFT JOIN api_keys k ON k.id = m.key_id',
  },
  stream: { name: 'm.stream', id: 'm.stream', from: 'JOIN messages m ON m.id = d.message_id' },
  domain: { name: 'd.domain', id: 'd.domain', from: '' },
  tag: {
    name: 't.tag',
    id: 't.tag',
    from: 'JOIN message_tags t ON t.account_id = d.account_id AND t.message_id = d.message_id',
  },
};

const listed = {
  ...selectorMembers,
  status: z.array(z.enum(deliveryStatuses)).min(1).max(deliveryStatuses.length).optional(),
  /** In ms, since acceptance or `send_at`. */
  older_than: z.int().min(1).max(TEN_YEARS_MS).optional(),
  class: z.enum(classes).optional(),
};

const Queued = ofKind('delivery', {
  ...each(text(), 'id', 'message_id', 'account_id', 'recipient', 'domain'),
  class: z.enum(classes),
  status: z.enum(deliveryStatuses),
  queued_at: time('When it was accepted, or the `send_at` that was asked for: its age counts from then.'),
  attempt_count: whole(),
  next_attempt_at: maybeTime('At the earliest; null while it is being tried.'),
  held: flag('`messages why` tells what holds it back.'),
  give_up_at: time(),
  smtp: z.object({ code: maybeWhole(), ...each(maybe(), 'reply', 'mx') }).nullable(),
});

const WaitingMailOf = ofKind('waiting_mail', {
  by: z.enum(senderKeys),
  ...each(maybe(), 'name', 'id', 'account'),
  ...each(whole(), 'waiting', 'held', 'deferred'),
  oldest_at: time(),
});

const Change = z.object({
  at: time(),
  what: z.enum(['connections', 'pace', 'pause', 'rule', 'source']),
  ...each(text(), 'to', 'cause', 'node'),
});

export const queueOperations = {
  /** Returns the lanes of all nodes, each as one record with the sums over its nodes. */
  'queue.lanes': serverRoute({
    answer: z.object({
      data: many(Lane),
      domains: many(WaitingDomain),
      nodes: many(text()),
      oldest_at: maybeTime('When the oldest waiting mail was accepted, also of domains that are not listed.'),
    }),
    async run(deps) {
      const queue = await readQueue(deps);
      const data = await laneRecords(deps, queue);
      return { data, domains: queue.domains, nodes: serverNames(deps.nodes), oldest_at: queue.oldestAt };
    },
  }),
  /** Returns a lane with the last changes of its limits at each node. */
  'queue.lane': serverRoute({
    answer: z.object({ lane: Lane, changes: many(Change), nodes: many(LaneAtNode), ages: Ages }),
    body: z.strictObject({ lane: z.string().min(1).max(300) }),
    async run(deps, { lane }) {
      const [shown, queue] = await Promise.all([figuresOf(deps, laneFigures, lane), readQueue(deps)]);
      const nodes = shownHere(deps, lane, shown);
      const found = await oneLane(deps, lane, nodes, queue);
      if (found === null)
        throw new Problem('not_found', `there is no lane ${JSON.stringify(lane)}: see \`posthorn queue lanes\``);
      const changes = nodes
        .flatMap(({ node, value }) => value.changes.map((change) => ({ ...change, node })))
        .sort((a, b) => a.at - b.at)
        .map(({ at, ...change }) => ({ at: rfc3339(at), ...change }));
      const domains = domainsOf(found, queue.domains).map(({ domain }) => domain);
      return { lane: found, changes, nodes: nodes.map(laneAtNode), ages: await agesOf(deps, domains) };
    },
  }),
  /** Returns waiting deliveries, the first due first. */
  'queue.list': storeRoute({
    answer: z.object({ data: many(Queued), has_more: flag(), ...domainsUnknown }),
    body: z.strictObject({ ...listed, limit: z.int().min(1).max(1000).optional() }),
    async run(deps, { limit = 100, ...asked }) {
      const { db, config, clock } = deps;
      const mail = await listedMail(deps, asked);
      const { sql, values } = ofMail(db, mail);
      const query = db.reader<DeliveryRow>('deliveries as d').select('d.*');
      query.whereRaw(`d.due_at IS NOT NULL ${sql}`, [...values]);
      const found = (await query.orderBy(['d.due_at', 'd.id']).limit(limit + 1)) as DeliveryRow[];
      const rows = found.slice(0, limit);
      // Only the running server knows what lanes wait for.
      const next = 'mta' in deps ? await nextTries(deps.laneFacts, rows, clock.now()) : rows.map(nextAttemptAt);
      return {
        data: rows.map((row, at) => queuedDelivery(row, next[at] ?? null, config.delivery.routes)),
        has_more: found.length > limit,
        ...unknownDomains(mail.unknown),
      };
    },
  }),
  /** Counts what waits by its domain, account, key, stream or tag, the most first: who sends, and where to. */
  'queue.senders': storeRoute({
    answer: z.object({ data: many(WaitingMailOf), has_more: flag() }),
    body: z.strictObject({ ...listed, by: z.enum(senderKeys), limit: z.int().min(1).max(1000).optional() }),
    run: async (deps, { by, limit = 100, ...asked }) => await sendersOf(deps, await listedMail(deps, asked), by, limit),
  }),
  /** Tries waiting mail now, whatever its schedule says; scheduled mail keeps its time. */
  'queue.flush': serverRoute({
    answer: z.object({ flushed: whole(), ...domainsUnknown }),
    act: {
      says: 'had waiting mail of the {scope} {target} tried now',
      type: 'queue',
      named: 'target',
      keeps: ['flushed'],
    },
    body: z.strictObject(selectorMembers),
    async dryRun(deps, named) {
      const { unknown, ...mail } = await mailOf(deps, named, LOOK_UPS_MS);
      const waiting = await countWaiting(deps, {
        ...mail,
        condition: both(laterThan(deps.clock.now()), mail.condition),
      });
      const would = `try ${pluralize(waiting, 'delivery', 'deliveries')} of ${selectedText(named)} now that would wait`;
      return { would, waiting, ...unknownDomains(unknown) };
    },
    async run(deps, named, act) {
      act.on({ after: selected(named) });
      const { unknown, ...mail } = await mailOf(deps, named, LOOK_UPS_MS, act);
      const later = { ...mail, condition: both(laterThan(deps.clock.now()), mail.condition) };
      const flushed = await changeWaiting(deps, later, { kind: 'flushed' }, act);
      act.on({ after: { ...selected(named), flushed } });
      // Other waits (a rest, a pause between dials, DNS) would outlast the new due time.
      deps.notifiers.tries.notify((await recipientDomainsOf(deps, mail)) ?? ['*']);
      return { flushed, ...unknownDomains(unknown) };
    },
  }),
};

/** Mail that waits for a time after this one, and is not scheduled. */
const laterThan = (at: number): Condition => ({
  sql: `AND d.due_at > ? AND d.status IN ('queued', 'sent', 'deferred')`,
  values: [at],
});

/** Returns the recipient domains of the mail; null means all. */
async function recipientDomainsOf(
  { db }: Pick<OperatorDeps, 'db'>,
  { domains, condition }: WaitingMail,
): Promise<readonly string[] | null> {
  if (domains !== null || condition.sql === '') return domains;
  const rows = await db.reader.raw<{ domain: string }[]>(
    `SELECT DISTINCT d.domain FROM deliveries d WHERE d.due_at IS NOT NULL ${condition.sql}`,
    [...condition.values],
  );
  return rows.map(({ domain }) => domain);
}

/** Returns a lane at each node; at this one also if it has no work and no limit, so that it is not shown to others. */
function shownHere({ mta, nodes }: OperatorDeps, name: string, shown: readonly LaneFigure[]): readonly LaneFigure[] {
  const { epoch, name: node } = nodes;
  if (shown.some((one) => one.epoch === epoch)) return shown;
  const own = mta.reports.lane(name);
  return own === null ? shown : [...shown, { node, epoch, key: name, value: own }];
}

/** A list looks no domain up: it does not wait for DNS. Only the running server knows the lanes. */
async function listedMail(
  deps: StoreDeps | OperatorDeps,
  { status, older_than: olderThan, class: order, ...named }: z.output<z.ZodObject<typeof listed>>,
): Promise<Pick<WaitingMail, 'domains' | 'condition'> & { unknown?: number }> {
  const { domain, lane } = named;
  if (!('mta' in deps) && lane !== undefined) throw notRunning();
  const mail =
    'mta' in deps
      ? await mailOf(deps, named, 0)
      : { domains: domain === undefined ? null : [domain], condition: await conditionOf(deps, named) };
  const further: Condition[] = [
    ...(status === undefined
      ? []
      : [{ sql: `AND d.status IN (${status.map(() => '?').join(', ')})`, values: [...status] }]),
    ...(olderThan === undefined ? [] : [{ sql: 'AND d.queued_at <= ?', values: [deps.clock.now() - olderThan] }]),
    ...(order === undefined ? [] : [{ sql: 'AND d.class = ?', values: [classes.indexOf(order)] }]),
  ];
  return { ...mail, condition: further.reduce(both, mail.condition) };
}

async function sendersOf(
  { db }: StoreDeps,
  mail: Pick<WaitingMail, 'domains' | 'condition'>,
  by: keyof typeof senders,
  limit: number,
) {
  const { name, id, from } = senders[by];
  const { sql, values } = ofMail(db, mail);
  const account = by === 'domain' ? 'NULL' : 'a.name';
  const rows = await db.maintenance.all<{
    name: string | null;
    id: string | null;
    account: string | null;
    waiting: number;
    held: number;
    deferred: number;
    oldest: number;
  }>(
    `SELECT ${name} AS name, ${id} AS id, ${account} AS account, COUNT(*) AS waiting,
       COUNT(d.held_by) AS held, SUM(CASE WHEN d.status = 'deferred' THEN 1 ELSE 0 END) AS deferred, MIN(d.queued_at) AS oldest
     FROM deliveries d JOIN accounts a ON a.id = d.account_id ${from}
     WHERE d.due_at IS NOT NULL ${sql}
     GROUP BY ${[...new Set([name, id, ...(by === 'domain' ? [] : ['a.name'])])].join(', ')}
     ORDER BY waiting DESC, 1 LIMIT ?`,
    [...values, limit + 1],
  );
  return {
    data: rows.slice(0, limit).map(({ oldest, ...row }) => ({
      object: 'waiting_mail' as const,
      by,
      ...row,
      oldest_at: rfc3339(oldest),
    })),
    has_more: rows.length > limit,
  };
}

const isHeldByRoute = (routes: Config['delivery']['routes'], domain: string): boolean =>
  domain !== SIMULATOR_DOMAIN && (Object.hasOwn(routes, domain) ? routes[domain] : routes['*'])?.kind === 'hold';

function queuedDelivery(row: DeliveryRow, next: string | null, routes: Config['delivery']['routes']) {
  const answered = row.smtp_code !== null || row.smtp_reply !== null;
  return {
    object: 'delivery' as const,
    id: row.id,
    message_id: row.message_id,
    account_id: row.account_id,
    recipient: row.address,
    domain: row.domain,
    class: classes[row.class] ?? 'broadcast',
    status: row.status,
    queued_at: rfc3339(row.queued_at),
    attempt_count: row.attempt_count,
    next_attempt_at: next,
    held: row.held_by !== null || isHeldByRoute(routes, row.domain),
    give_up_at: rfc3339(row.give_up_at),
    smtp: answered ? { code: row.smtp_code, reply: row.smtp_reply, mx: row.mx } : null,
  };
}
