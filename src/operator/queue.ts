/** Operations on the queue: lanes, waiting deliveries, and trying them now. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS } from '../base/time.ts';
import type { Config } from '../config/schema.ts';
import { SIMULATOR_DOMAIN } from '../messages/delivery/delivery.ts';
import { nextTries } from '../messages/delivery/why.ts';
import { nextAttemptAt } from '../messages/store/message-store.ts';
import type { Value } from '../storage/connection.ts';
import { dialectOf } from '../storage/sql.ts';
import { deliveryStatuses, type DeliveryRow } from '../storage/tables.ts';
import { accountNamed } from './team/accounts.ts';
import { laneFigures, type LaneFigure } from './engines.ts';
import { flushPages } from './flush.ts';
import { historyOf } from './lane-history.ts';
import { LOOK_UPS_MS, mailOfLane, type MailOfLane } from './mail-of-lane.ts';
import { figuresOf, serverNames } from './node-figures.ts';
import { agesOf } from './queue-ages.ts';
import { domainsOf, laneAtNode, laneRecords, oneLane, readQueue } from './lane-records.ts';
import { accountOfMessage } from './messages.ts';
import type { OperatorDeps, StoreDeps } from './deps.ts';
import { serverRoute, storeRoute } from './server-route.ts';
import { recipientDomain } from './recipient-domain.ts';
import { notRunning } from '../base/unavailable.ts';

/** By the number that deliveries have. */
const classes = ['transactional', 'broadcast'] as const;
const TEN_YEARS_MS = 3650 * DAY_MS;

export const queueOperations = {
  /** Returns the lanes of all nodes, each as one record with the sums over its nodes. */
  'queue.lanes': serverRoute({
    async run(deps) {
      const queue = await readQueue(deps);
      const data = await laneRecords(deps, queue);
      return { data, domains: queue.domains, nodes: serverNames(deps.nodes), oldest_at: queue.oldestAt };
    },
  }),
  /** Returns a lane with the changes of its limits and the acts of operators; the last of each. */
  'queue.lane': serverRoute({
    body: z.strictObject({ lane: z.string().min(1).max(300) }),
    async run(deps, { lane }) {
      const [shown, queue] = await Promise.all([figuresOf(deps, laneFigures, lane), readQueue(deps)]);
      const known = shownHere(deps, lane, shown);
      const nodes = known.map(({ node, value }) => ({ node, lane: value.lane }));
      const found = await oneLane(deps, lane, nodes, queue);
      if (found === null)
        throw new Problem('not_found', `there is no lane ${JSON.stringify(lane)}: see \`posthorn queue lanes\``);
      const [changes, ages] = await Promise.all([
        historyOf(
          deps,
          lane,
          known.map(({ node, value }) => ({ node, changes: value.changes })),
        ),
        agesOf(
          deps,
          domainsOf(found, queue.domains).map(({ domain }) => domain),
        ),
      ]);
      return { lane: found, changes, nodes: nodes.map(laneAtNode), ages };
    },
  }),
  /** Returns waiting deliveries, the first due first. */
  'queue.list': storeRoute({
    body: z.strictObject({
      domain: recipientDomain.optional(),
      /** Only the running server knows the lanes. */
      lane: z.string().min(1).max(300).optional(),
      account: z.string().min(1).max(200).optional(),
      status: z.array(z.enum(deliveryStatuses)).max(deliveryStatuses.length).optional(),
      /** In ms, since acceptance or `send_at`. */
      older_than: z.int().min(1).max(TEN_YEARS_MS).optional(),
      class: z.enum(classes).optional(),
      limit: z.int().min(1).max(1000).optional(),
    }),
    async run(deps, { domain, lane, account, status, older_than: olderThan, class: order, limit = 100 }) {
      const { db, config, clock } = deps;
      const query = db.reader<DeliveryRow>('deliveries as d').select('d.*').whereNotNull('d.due_at');
      if (domain !== undefined) query.andWhere('d.domain', domain);
      const mail = lane === undefined ? null : await knownMailOf(deps, lane);
      if (mail !== null) query.andWhereRaw(...among(db, mail));
      if (account !== undefined) query.andWhere('d.account_id', (await accountNamed({ db }, account)).id);
      if (status !== undefined) query.whereIn('d.status', status);
      if (olderThan !== undefined) query.andWhere('d.queued_at', '<=', clock.now() - olderThan);
      if (order !== undefined) query.andWhere('d.class', classes.indexOf(order));
      const found = (await query.orderBy(['d.due_at', 'd.id']).limit(limit + 1)) as DeliveryRow[];
      const rows = found.slice(0, limit);
      // Only the running server knows what lanes wait for.
      const next = 'mta' in deps ? await nextTries(deps.laneFacts, rows, clock.now()) : rows.map(nextAttemptAt);
      return {
        data: rows.map((row, at) => queuedDelivery(row, next[at] ?? null, config.delivery.routes)),
        has_more: found.length > limit,
        ...(mail === null ? {} : { domains_unknown: mail.unknown }),
      };
    },
  }),
  /** Tries waiting mail now, whatever its schedule says; scheduled mail keeps its time. */
  'queue.flush': serverRoute({
    act: { says: 'had waiting mail of {object} tried now', type: 'queue', keeps: ['flushed'] },
    body: z.strictObject({
      domain: recipientDomain.optional(),
      lane: z.string().min(1).max(300).optional(),
      message_id: z.string().max(100).optional(),
      all: z.literal(true).optional(),
    }),
    async run(deps, { domain, lane, message_id: messageId, all }, act): Promise<Flushed> {
      if ([domain, lane, messageId, all].filter((one) => one !== undefined).length !== 1) {
        throw new Problem('invalid_field', 'name exactly one to flush: a domain, a lane, a message, or everything');
      }
      act.on({
        object: domain ?? (lane === undefined ? undefined : `the lane ${lane}`) ?? messageId ?? 'the whole queue',
      });
      if (messageId !== undefined) act.concerns(await accountOfMessage(deps, messageId));
      const mail = lane === undefined ? undefined : await mailOfLane(deps, lane, LOOK_UPS_MS);
      const { flushed, domains } = await flushPages(deps, { domain, messageId, lane: mail }, act);
      act.on({ after: { flushed } });
      // Other waits (a rest, a pause between dials, DNS) would outlast the new due time.
      deps.notifiers.tries.notify(domains ?? ['*']);
      return { flushed, ...(mail === undefined ? {} : { domains_unknown: mail.unknown }) };
    },
  }),
};

interface Flushed {
  flushed: number;
  /** For a lane: domains with waiting mail that may be of it, as DNS has not told where their mail goes. */
  domains_unknown?: number;
}

/** Returns a lane at each node; at this one also if it has no work and no limit, so that it is not shown to others. */
function shownHere({ mta, nodes }: OperatorDeps, name: string, shown: readonly LaneFigure[]): readonly LaneFigure[] {
  const { epoch, name: node } = nodes;
  if (shown.some((one) => one.epoch === epoch)) return shown;
  const own = mta.lane(name);
  return own === null ? shown : [...shown, { node, epoch, key: name, value: { lane: own.now, changes: own.changes } }];
}

/** A list looks no domain up: it does not wait for DNS. */
async function knownMailOf(deps: StoreDeps | OperatorDeps, lane: string): Promise<MailOfLane> {
  if (!('mta' in deps)) throw notRunning();
  return await mailOfLane(deps, lane, 0);
}

/** Returns the condition that a delivery is of the lane. */
const among = ({ reader }: Pick<StoreDeps['db'], 'reader'>, { domains, condition }: MailOfLane): [string, Value[]] => [
  `d.domain ${dialectOf(reader).among('text')} ${condition.sql}`,
  [JSON.stringify(domains), ...condition.values],
];

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
    /** When it was accepted, or the `send_at` that was asked for: its age counts from then. */
    queued_at: rfc3339(row.queued_at),
    attempt_count: row.attempt_count,
    /** At the earliest; null while it is being tried. */
    next_attempt_at: next,
    /** `messages why` tells what holds it back. */
    held: row.held_by !== null || isHeldByRoute(routes, row.domain),
    give_up_at: rfc3339(row.give_up_at),
    smtp: answered ? { code: row.smtp_code, reply: row.smtp_reply, mx: row.mx } : null,
  };
}
