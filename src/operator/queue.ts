/** Operations on the queue: lanes, waiting deliveries, and trying them now. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import type { Config } from '../config/schema.ts';
import { SIMULATOR_DOMAIN } from '../messages/delivery/delivery.ts';
import type { LaneFacts } from '../messages/delivery/why.ts';
import { nextAttemptAt } from '../messages/store/message-store.ts';
import { deliveryStatuses, type DeliveryRow } from '../storage/tables.ts';
import { accountNamed } from './accounts.ts';
import type { Act } from '../operations/act.ts';
import { flushPages } from './flush.ts';
import { byWhom, historyOf } from './lane-acts.ts';
import { laneRecords, oneLane, waitingDomains } from './lane-records.ts';
import { onLeader, onStore, type StoreDeps } from './operation.ts';

const domainArgument = z.string().min(1).max(253).toLowerCase();

export const queueOperations = {
  'queue.lanes': onLeader({
    act: null,
    args: z.strictObject({}),
    async run(deps) {
      const domains = await waitingDomains(deps);
      return { data: laneRecords(deps, domains), domains };
    },
  }),
  /** Returns why mails wait, as far as their lanes know it: what other nodes ask the one that delivers. */
  'queue.laneFacts': onLeader({
    act: null,
    args: z.strictObject({
      mails: z
        .array(
          z.strictObject({
            domain: z.string().max(300),
            account: z.string().max(100),
            mark: z.string().max(300).nullable().optional(),
          }),
        )
        .max(1000),
    }),
    run: ({ mta }, { mails }) =>
      Promise.resolve({
        data: mails.map(({ domain, account, mark = null }): LaneFacts => mta.laneFacts({ domain, account, mark })),
      }),
  }),
  /** Returns a lane with the changes of its limits and the acts of operators; the last hundred of each since the start. */
  'queue.lane': onLeader({
    act: null,
    args: z.strictObject({ lane: z.string().min(1).max(300) }),
    async run(deps, { lane }) {
      const found = oneLane(deps, lane, await waitingDomains(deps));
      if (found === null)
        throw new Problem('not_found', `there is no lane ${JSON.stringify(lane)}: see \`posthorn queue lanes\``);
      return { lane: found, changes: historyOf(deps.mta.lane(lane)?.changes ?? [], deps.laneActs.of(lane)) };
    },
  }),
  /** Returns waiting deliveries, the first due first. */
  'queue.list': onStore({
    act: null,
    args: z.strictObject({
      domain: domainArgument.optional(),
      account: z.string().min(1).max(200).optional(),
      status: z.array(z.enum(deliveryStatuses)).max(deliveryStatuses.length).optional(),
      limit: z.int().min(1).max(1000).optional(),
    }),
    async run({ db, config }, { domain, account, status, limit = 100 }) {
      const query = db.reader<DeliveryRow>('deliveries').whereNotNull('due_at');
      if (domain !== undefined) query.andWhere({ domain });
      if (account !== undefined) query.andWhere({ account_id: (await accountNamed({ db }, account)).id });
      if (status !== undefined) query.whereIn('status', status);
      const rows = await query.orderBy(['due_at', 'id']).limit(limit + 1);
      return {
        data: rows.slice(0, limit).map((row) => queuedDelivery(row, config.delivery.routes)),
        has_more: rows.length > limit,
      };
    },
  }),
  /** Tries waiting mail now, whatever its schedule says; scheduled mail keeps its time. */
  'queue.flush': onLeader({
    act: { says: 'had waiting mail of {object} tried now', type: 'queue', keeps: ['flushed'] },
    args: z.strictObject({
      domain: domainArgument.optional(),
      message_id: z.string().max(100).optional(),
      all: z.literal(true).optional(),
    }),
    async run(deps, { domain, message_id: messageId, all }, act) {
      if ([domain, messageId, all].filter((one) => one !== undefined).length !== 1) {
        throw new Problem('invalid_field', 'say what to flush: one of a domain, a message, or everything');
      }
      act.on({ object: domain ?? messageId ?? 'the whole queue' });
      if (messageId !== undefined) await concernsMessage(deps, messageId, act);
      const flushed = await flushPages(deps, { domain, messageId }, act);
      act.on({ after: { flushed } });
      if (domain !== undefined)
        deps.laneActs.note(deps.mta.laneOf(domain), {
          at: deps.clock.now(),
          what: 'flush',
          to: `mail for ${domain} tried now`,
          cause: byWhom(act.actor),
        });
      return { flushed };
    },
  }),
};

async function concernsMessage({ db }: Pick<StoreDeps, 'db'>, id: string, act: Act): Promise<void> {
  const row = (await db.reader('messages').select('account_id').where({ id }).first()) as
    { account_id: string } | undefined;
  if (row === undefined) {
    throw new Problem('not_found', `there is no message ${JSON.stringify(id)}`, { field: 'message_id' });
  }
  act.concerns(row.account_id);
}

const isHeldByRoute = (routes: Config['delivery']['routes'], domain: string): boolean =>
  domain !== SIMULATOR_DOMAIN && (Object.hasOwn(routes, domain) ? routes[domain] : routes['*'])?.kind === 'hold';

function queuedDelivery(row: DeliveryRow, routes: Config['delivery']['routes']) {
  const answered = row.smtp_code !== null || row.smtp_reply !== null;
  return {
    object: 'delivery' as const,
    id: row.id,
    message_id: row.message_id,
    account_id: row.account_id,
    recipient: row.address,
    domain: row.domain,
    status: row.status,
    attempt_count: row.attempt_count,
    /** Null while it is being tried. */
    next_attempt_at: nextAttemptAt(row),
    /** `messages why` tells what holds it back. */
    held: row.held_by !== null || isHeldByRoute(routes, row.domain),
    give_up_at: rfc3339(row.give_up_at),
    smtp: answered ? { code: row.smtp_code, reply: row.smtp_reply, mx: row.mx } : null,
  };
}
