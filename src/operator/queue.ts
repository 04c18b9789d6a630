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
import { askEach, unansweredText, type Question } from './ask-nodes.ts';
import { readLanesOf } from './engines.ts';
import { flushPages } from './flush.ts';
import { byWhom, historyOf, laneQuestion } from './lane-acts.ts';
import { LOOK_UPS_MS, mailOfLane, type MailOfLane } from './mail-of-lane.ts';
import { agesOf, oldestRecord } from './queue-ages.ts';
import { domainsOf, laneAtNode, laneRecords, oneLane, readQueue } from './lane-records.ts';
import { accountOfMessage } from './messages.ts';
import type { OperatorDeps, StoreDeps } from './deps.ts';
import { serverRoute, storeRoute } from './server-route.ts';
import { recipientDomain } from './recipient-domain.ts';
import { notRunning } from '../base/unavailable.ts';

/** By the number that deliveries have. */
const classes = ['transactional', 'broadcast'] as const;
const TEN_YEARS_MS = 3650 * DAY_MS;

/** Domains in one question to the nodes. */
const MOST_TRIED = 10_000;

/** Has a node try mail for these domains now, whatever keeps it back; null is all mail. */
export const tryNowQuestion: Question<Pick<OperatorDeps, 'mta'>, { domains: readonly string[] | null }, null> = {
  name: 'tryNow',
  args: z.strictObject({ domains: z.array(z.string().max(300)).max(MOST_TRIED).nullable() }),
  async answer({ mta }, { domains }) {
    for (const domain of domains ?? [null]) await mta.tryNow(domain);
    return null;
  },
};

export const queueOperations = {
  /** Returns the lanes of all nodes, each as one record with the sums over its nodes. */
  'queue.lanes': serverRoute({
    async run(deps) {
      const queue = await readQueue(deps);
      const { nodes, unanswered } = queue.engines;
      const data = await laneRecords(deps, queue);
      return { data, domains: queue.domains, nodes, unanswered, ...oldestRecord(queue.oldest) };
    },
  }),
  /** Returns a lane with the changes of its limits and the acts of operators; the last hundred of each since the start of each node. */
  'queue.lane': serverRoute({
    body: z.strictObject({ lane: z.string().min(1).max(300) }),
    async run(deps, { lane }) {
      const [{ from, unanswered }, queue] = await Promise.all([askEach(deps, laneQuestion, { lane }), readQueue(deps)]);
      const nodes = from.flatMap(({ node, result: { now } }) => (now === null ? [] : [{ node, lane: now }]));
      const found = await oneLane(deps, lane, nodes, queue);
      if (found === null && unanswered.length > 0)
        throw new Problem(
          'service_unavailable',
          `the lane ${JSON.stringify(lane)} is not at the other nodes, and ${unansweredText(unanswered)}`,
        );
      if (found === null)
        throw new Problem('not_found', `there is no lane ${JSON.stringify(lane)}: see \`posthorn queue lanes\``);
      const changes = historyOf(from.map(({ node, result }) => ({ node, acts: result.changes })));
      const ages = await agesOf(deps, domainsOf(found, queue.domains));
      return { lane: found, changes, nodes: nodes.map(laneAtNode), unanswered, ages };
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
      const unanswered = await tryNow(deps, domains);
      const at = deps.clock.now();
      const cause = byWhom(act.actor);
      if (domain !== undefined)
        deps.laneActs.note((await readLanesOf(deps, [domain])).laneOf(domain), {
          at,
          what: 'flush',
          to: `mail for ${domain} tried now`,
          cause,
        });
      if (lane !== undefined) deps.laneActs.note(lane, { at, what: 'flush', to: 'all its mail tried now', cause });
      return { flushed, unanswered, ...(mail === undefined ? {} : { domains_unknown: mail.unknown }) };
    },
  }),
};

interface Flushed {
  flushed: number;
  /** Names of the nodes that have not answered. */
  unanswered: readonly string[];
  /** For a lane: domains with waiting mail that may be of it, as DNS has not told where their mail goes. */
  domains_unknown?: number;
}

/** Has all nodes try mail for these domains now. Returns the names of those that have not answered. */
async function tryNow(deps: OperatorDeps, domains: readonly string[] | null): Promise<readonly string[]> {
  const unanswered = new Set<string>();
  for (let at = 0; at < (domains?.length ?? 1); at += MOST_TRIED) {
    const some = domains?.slice(at, at + MOST_TRIED) ?? null;
    for (const name of (await askEach(deps, tryNowQuestion, { domains: some })).unanswered) unanswered.add(name);
  }
  return [...unanswered];
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
