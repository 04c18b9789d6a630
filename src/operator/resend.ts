/**
 * Sends mail again that a receiver refused because it came from us (bounces of the class `block`): each such recipient gets a new
 * message, once. The transaction that accepts the new message also writes the table `resends`, so that a second or concurrent run
 * sends nothing twice.
 */
import { z } from 'zod';
import { idFloor } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { groupBy } from '../base/sets.ts';
import { acceptSingle } from '../messages/accept/accept.ts';
import { withRecipients, storedDraft } from '../messages/request/stored-draft.ts';
import type { Value } from '../storage/connection.ts';
import type { MessageRow } from '../storage/tables.ts';
import { dialectOf } from '../storage/sql.ts';
import { accountNamed } from './accounts.ts';
import type { Act } from '../operations/act.ts';
import { byWhom } from './lane-acts.ts';
import { laneNamed, lanesOfDomains, type NamedLane } from './domain-lanes.ts';
import { onServer, type OperatorDeps } from './operation.ts';
import { recipientDomain } from './recipient-domain.ts';
import { HOUR_MS } from '../base/time.ts';

export interface Resent {
  object: 'resend';
  /** Recipients that get their mail again, and the new messages they are in. */
  recipients: number;
  messages: number;
  /** Recipients whose mail cannot be sent again, and why the first of them cannot. */
  left_out: number;
  left_out_because: string | null;
  /** Recipients of domains whose lane DNS has not told, so that a resend by lane leaves them out. */
  lane_unknown: number;
  /** There are more than one run sends to: run it again. */
  has_more: boolean;
  dry_run: boolean;
}

const USUAL_PAST_MS = 2 * HOUR_MS;
/** Attempts that are read in one step, and messages that are sent at the same time. */
const STEP = 2000;
const AT_ONCE = 20;
/** Time in which a run looks up domains whose lane is not known. */
const LOOK_UPS_MS = 20_000;
/** Recipients that one run sends to. Those left out do not count: the next run meets them again, and would not get past them. */
const MOST = 10_000;
/** Attempts are written nearly in the order of their ids: at most this many may precede an older one. */
const DISORDER = 2000;

const resendArguments = z.strictObject({
  lane: z.string().min(1).max(300).optional(),
  domain: recipientDomain.optional(),
  account: z.string().min(1).max(200).optional(),
  reason: z.string().min(1).max(100).optional(),
  /** How far back, in ms. */
  past: z
    .int()
    .min(1000)
    .max(30 * 24 * HOUR_MS)
    .optional(),
  dry_run: z.boolean().optional(),
});
type ResendFilter = z.output<typeof resendArguments>;

export const resendOperations = {
  'messages.resend': onServer({
    act: {
      says: 'sent bounced mail again',
      type: 'queue',
      keeps: ['recipients', 'messages', 'left_out', 'lane_unknown', 'dry_run'],
    },
    args: resendArguments,
    run: resendBounced,
  }),
};

interface Bounced {
  message_id: string;
  delivery_id: string;
  address: string;
  domain: string;
  source: string | null;
}

async function resendBounced(deps: OperatorDeps, filter: ResendFilter, act: Act): Promise<Resent> {
  act.on({ object: filter.lane ?? filter.domain ?? filter.account ?? null });
  const accountId = filter.account === undefined ? null : (await accountNamed(deps, filter.account)).id;
  if (accountId !== null) act.concerns(accountId);
  const floor = idFloor('att', deps.clock.now() - (filter.past ?? USUAL_PAST_MS));
  const lane = filter.lane === undefined ? null : laneNamed(deps, filter.lane);
  const until = deps.clock.monotonic() + LOOK_UPS_MS;
  const dryRun = filter.dry_run === true;
  const result: Resent = {
    object: 'resend',
    recipients: 0,
    messages: 0,
    left_out: 0,
    left_out_because: null,
    lane_unknown: 0,
    has_more: false,
    dry_run: dryRun,
  };
  const top = await newestRowId(deps);
  for (let from = Math.max(1, (await firstRowId(deps, floor, top)) - DISORDER); from <= top; from += STEP) {
    if (result.recipients >= MOST) {
      result.has_more = true;
      break;
    }
    const rows = await bouncedBetween(deps, { ...filter, accountId, floor }, from, Math.min(top, from + STEP - 1));
    const found = lane === null ? { rows, unknown: 0 } : await ofLane(deps, lane, rows, until);
    result.lane_unknown += found.unknown;
    const groups = [...groupBy(found.rows, ({ message_id: id }) => id)];
    for (let at = 0; at < groups.length; at += AT_ONCE)
      await Promise.all(groups.slice(at, at + AT_ONCE).map(([id, rows]) => resendMessage(deps, act, result, id, rows)));
  }
  act.on({ after: result });
  if (filter.lane !== undefined && !dryRun && result.recipients > 0)
    deps.laneActs.note(filter.lane, {
      at: deps.clock.now(),
      what: 'resend',
      to: `${String(result.recipients)} bounced mails sent again`,
      cause: byWhom(act.actor),
    });
  return result;
}

async function newestRowId({ db }: Pick<OperatorDeps, 'db'>): Promise<number> {
  const [row] = await db.reader.raw<{ place: number | null }[]>('SELECT MAX(rowid) AS place FROM attempts');
  return row?.place ?? 0;
}

/** Returns the first row id from which on ids are not below `floor`. */
async function firstRowId({ db }: Pick<OperatorDeps, 'db'>, floor: string, top: number): Promise<number> {
  let [low, high] = [1, top + 1];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = await db.reader.raw<{ id: string; place: number }[]>(
      'SELECT id, rowid AS place FROM attempts WHERE rowid >= ? ORDER BY rowid LIMIT 1',
      [middle],
    );
    if (row === undefined || row.id >= floor) high = middle;
    else low = row.place + 1;
  }
  return low;
}

type BouncedFilter = Omit<ResendFilter, 'lane'> & { accountId: string | null; floor: string };

async function bouncedBetween(
  deps: OperatorDeps,
  { domain, reason, accountId, floor }: BouncedFilter,
  first: number,
  last: number,
): Promise<Bounced[]> {
  const { db, clock } = deps;
  const where = [`a.rowid BETWEEN ? AND ?`, `a.id >= ?`, `a.outcome = 'refused'`, `a.class = 'block'`];
  const values: Value[] = [first, last, floor];
  for (const [column, value] of [
    ['d.domain', domain],
    ['d.account_id', accountId],
    ['a.reason', reason],
  ] as const) {
    if (value == null) continue;
    where.push(`${column} = ?`);
    values.push(value);
  }
  return await db.reader.raw<Bounced[]>(
    `SELECT a.message_id, a.delivery_id, d.address, d.domain, a.source FROM attempts a ${dialectOf(db.reader).thenJoin} deliveries d ON d.id = a.delivery_id
     WHERE ${where.join(' AND ')} AND d.status = 'bounced' AND d.test = 0
       AND NOT EXISTS (SELECT 1 FROM resends r WHERE r.message_id = a.message_id AND r.delivery_id = a.delivery_id)
       AND NOT EXISTS (SELECT 1 FROM suppressions s WHERE s.account_id = d.account_id AND s.address_key = d.address_key
         AND (s.expires_at IS NULL OR s.expires_at > ?))
     ORDER BY a.rowid`,
    [...values, clock.now()],
  );
}

/** Returns those whose domains go by this lane now, and the number of those that may, as the lane of their domains is not known. */
async function ofLane(
  deps: OperatorDeps,
  { site, source }: NamedLane,
  rows: readonly Bounced[],
  until: number,
): Promise<{ rows: Bounced[]; unknown: number }> {
  const bySource = source === null ? rows : rows.filter((row) => row.source === source);
  const lanes = await lanesOfDomains(deps, [...new Set(bySource.map(({ domain }) => domain))], until);
  return {
    rows: bySource.filter(({ domain }) => lanes.get(domain) === site),
    unknown: bySource.filter(({ domain }) => lanes.get(domain) === null).length,
  };
}

/** Sends one message to these of its recipients. A message with a fault is left out, and the others are sent. */
async function resendMessage(
  deps: OperatorDeps,
  act: Act,
  result: Resent,
  id: string,
  rows: readonly Bounced[],
): Promise<void> {
  const { db, clock } = deps;
  const message = (await db.reader('messages').where({ id }).first()) as MessageRow | undefined;
  // Our own notices are out of date by now.
  if (message === undefined || message.null_sender === 1) return;
  try {
    const draft = withRecipients(
      await storedDraft(db, message, clock.now()),
      new Set(rows.map(({ address }) => address)),
    );
    if (!result.dry_run) await sendAgain(deps, act, message, draft, rows);
    result.recipients += rows.length;
    result.messages++;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    result.left_out += rows.length;
    result.left_out_because ??= error.message;
  }
}

async function sendAgain(
  { accept, clock, db }: OperatorDeps,
  act: Act,
  message: MessageRow,
  draft: ReturnType<typeof withRecipients>,
  rows: readonly Bounced[],
): Promise<void> {
  const sender = {
    accountId: message.account_id,
    keyId: null,
    mode: 'live',
    domains: [],
    requestId: act.requestId,
  } as const;
  const at = clock.now();
  try {
    await acceptSingle(accept, sender, draft, ({ id }) => ({
      ...act.rowsOnce(),
      resends: rows.map((row) => ({ message_id: row.message_id, delivery_id: row.delivery_id, resent_as: id, at })),
    }));
  } catch (error) {
    if (error instanceof Problem) throw error;
    const done = (await db
      .reader('resends')
      .where({ message_id: message.id, delivery_id: rows[0]?.delivery_id })
      .first()) as object | undefined;
    if (done === undefined) throw error;
    throw new Problem('invalid_state', 'another run has sent it again already');
  }
}
