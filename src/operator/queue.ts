/** Operations on the queue: what waits where and why, and trying it now. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { nextAttemptAt } from '../messages/message-store.ts';
import type { DeliveryRow } from '../storage/tables.ts';
import { accountNamed } from './accounts.ts';
import type { Act } from './act.ts';
import { flushPages } from './flush.ts';
import { statusArgument } from './messages.ts';
import { onServer, onStore, type LaneState, type OperatorDeps, type StoreDeps } from './operation.ts';

export interface LaneRecord {
  object: 'lane';
  name: string;
  /** The source it sends by; null for the system's address. */
  source: string | null;
  /** In memory; the rest of a long queue waits on disk, see `domains`. */
  waiting: number;
  connections: number;
  limit: number;
  /** Mails a minute, or null where nothing limits them. */
  per_minute: number | null;
  /** Why the limit is what it is, and since when. */
  cause: string;
  cause_at: string | null;
  /** Parked: every host of the site is left alone until then. */
  parked_until: string | null;
  last_reply: string | null;
  last_progress_at: string | null;
}

export interface WaitingDomain {
  domain: string;
  /** The lane it goes through. */
  lane: string;
  waiting: number;
  /** Of these, how many are due now. */
  due: number;
  /** How many are kept back here. */
  held: number;
  /** When the one that has waited longest fell or falls due. */
  oldest_due_at: string;
}

export interface QueuedDelivery {
  object: 'delivery';
  id: string;
  message_id: string;
  account_id: string;
  recipient: string;
  domain: string;
  status: DeliveryRow['status'];
  attempt_count: number;
  /** When it is tried next; null while it is being tried. */
  next_attempt_at: string | null;
  /** Kept back here: `messages why` tells by what. */
  held: boolean;
  give_up_at: string;
  smtp: { code: number | null; reply: string | null; mx: string | null } | null;
}

const domainArgument = z.string().min(1).max(253).toLowerCase();
const MOST_DOMAINS = 1000;

export const queueOperations = {
  'queue.lanes': onServer({
    acts: false,
    args: z.strictObject({}),
    async run(deps) {
      const domains = await waitingDomains(deps);
      const atWork = deps.mta.lanes();
      // A lane rests while all of its mail waits for a later try: what it was told last is what one wants to know then.
      const names = new Set(domains.map(({ lane }) => lane));
      for (const { name } of atWork) names.delete(name);
      const atRest = [...names].flatMap((name) => deps.mta.lane(name)?.now ?? []);
      return { data: [...atWork, ...atRest].map(laneRecord), domains };
    },
  }),
  /** How the limits of a lane have changed, and why; the last hundred changes since the start. */
  'queue.lane': onServer({
    acts: false,
    args: z.strictObject({ lane: z.string().min(1).max(300) }),
    run({ mta }, { lane }) {
      const found = mta.lane(lane);
      if (found === null)
        throw new Problem('not_found', `there is no lane ${JSON.stringify(lane)}: see \`posthorn queue lanes\``);
      const changes = found.changes.map(({ at, what, to, cause }) => ({ at: rfc3339(at), what, to, cause }));
      return Promise.resolve({ lane: laneRecord(found.now), changes });
    },
  }),
  /** What is due first comes first. */
  'queue.list': onStore({
    acts: false,
    args: z.strictObject({
      domain: domainArgument.optional(),
      account: z.string().min(1).max(200).optional(),
      status: statusArgument,
      limit: z.int().min(1).max(1000).optional(),
    }),
    async run({ db }, { domain, account, status, limit = 100 }) {
      const query = db.read<DeliveryRow>('deliveries').whereNotNull('due_at');
      if (domain !== undefined) query.andWhere({ domain });
      if (account !== undefined) query.andWhere({ account_id: (await accountNamed({ db }, account)).id });
      if (status !== undefined) query.whereIn('status', status);
      const rows = await query.orderBy(['due_at', 'id']).limit(limit + 1);
      return { data: rows.slice(0, limit).map(queuedDelivery), has_more: rows.length > limit };
    },
  }),
  /** Waiting mail is tried now, whatever its schedule says; scheduled mail keeps its time. */
  'queue.flush': onServer({
    acts: true,
    args: z.strictObject({
      domain: domainArgument.optional(),
      message_id: z.string().max(100).optional(),
      all: z.literal(true).optional(),
    }),
    async run(deps, { domain, message_id: messageId, all }, act) {
      if ([domain, messageId, all].filter((one) => one !== undefined).length !== 1) {
        throw new Problem('invalid_field', 'say what to flush: one of a domain, a message, or everything');
      }
      if (messageId !== undefined) await concernsMessage(deps, messageId, act);
      return { flushed: await flushPages(deps, { domain, messageId }, act) };
    },
  }),
};

async function concernsMessage({ db }: Pick<StoreDeps, 'db'>, id: string, act: Act): Promise<void> {
  const row = (await db.read('messages').select('account_id').where({ id }).first()) as
    { account_id: string } | undefined;
  if (row === undefined) {
    throw new Problem('not_found', `there is no message ${JSON.stringify(id)}`, { field: 'message_id' });
  }
  act.concerns(row.account_id);
}

/** One pass over the partial index of what waits: about 0.1 s for a million, on a reader. */
async function waitingDomains({
  db,
  clock,
  mta,
}: Pick<OperatorDeps, 'db' | 'clock' | 'mta'>): Promise<WaitingDomain[]> {
  const rows = await db.read.raw<{ domain: string; waiting: number; due: number; oldest: number; held: number }[]>(
    `SELECT domain, COUNT(*) AS waiting, SUM(due_at <= ?) AS due, MIN(due_at) AS oldest, SUM(held_by IS NOT NULL) AS held FROM deliveries
     WHERE due_at IS NOT NULL GROUP BY domain ORDER BY waiting DESC, domain LIMIT ?`,
    [clock.now(), MOST_DOMAINS],
  );
  return rows.map(({ domain, waiting, due, oldest, held }) => ({
    domain,
    lane: mta.laneOf(domain),
    waiting,
    due,
    held,
    oldest_due_at: rfc3339(oldest),
  }));
}

function laneRecord(lane: LaneState): LaneRecord {
  return {
    object: 'lane',
    name: lane.name,
    source: lane.source,
    waiting: lane.waiting,
    connections: lane.slots,
    limit: lane.limit,
    per_minute: lane.perMinute,
    cause: lane.cause,
    cause_at: rfc3339(lane.causeAt),
    parked_until: rfc3339(lane.parkedUntil),
    last_reply: lane.lastReply,
    last_progress_at: lane.lastProgressAt === 0 ? null : rfc3339(lane.lastProgressAt),
  };
}

function queuedDelivery(row: DeliveryRow): QueuedDelivery {
  const answered = row.smtp_code !== null || row.smtp_reply !== null;
  return {
    object: 'delivery',
    id: row.id,
    message_id: row.message_id,
    account_id: row.account_id,
    recipient: row.address,
    domain: row.domain,
    status: row.status,
    attempt_count: row.attempt_count,
    next_attempt_at: nextAttemptAt(row),
    held: row.held_by !== null,
    give_up_at: rfc3339(row.give_up_at),
    smtp: answered ? { code: row.smtp_code, reply: row.smtp_reply, mx: row.mx } : null,
  };
}
