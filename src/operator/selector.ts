/** The waiting mail that an operation on the queue is about: a part of the queue (parts.ts), narrowed further by a lane and a tag. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { DeliveryChange } from '../messages/delivery/delivery.ts';
import { hintsOfChanged } from '../messages/delivery/due-hint.ts';
import type { Act } from '../operations/act.ts';
import type { OperatorDeps, StoreDeps } from './server-route.ts';
import { isLaneKnown, isSetByOperator } from './lane-records.ts';
import { laneNamed, waitingDomainsOf } from './lanes.ts';
import { anyPart, mailArguments, partArguments, partFor } from './parts.ts';
import type { Value } from '../storage/connection.ts';
import { dialectOf } from '../storage/sql.ts';
import { DEFAULT_POOL, type DeliveryRow } from '../storage/tables.ts';

export const selectorMembers = {
  ...mailArguments,
  lane: partArguments.lane,
  tag: z.string().min(1).max(200).optional(),
  all: partArguments.all,
};
export type Selector = z.output<z.ZodObject<typeof selectorMembers>>;

/** The longest that an act looks up domains whose lane is not known, in ms: a page waits for it. */
export const LOOK_UPS_MS = 10_000;

/**
 * Finds the mail of an act, or of a list, which names all if it names nothing. The mail of a lane is found by the domains that go by it now; lanes
 * that differ by their sources share the mail of their pool, as the source of a mail is chosen when it is sent. Throws `not_found` for what does
 * not exist.
 */
export async function mailOf(
  deps: OperatorDeps,
  selector: Selector,
  lookUpsMs: number,
  act?: Act,
): Promise<WaitingMail & { unknown?: number }> {
  const { domain, lane, message_id: message } = selector;
  const asked = await conditionOf(deps, selector, act);
  if (lane === undefined)
    return { domains: domain === undefined ? null : [domain], condition: asked, isOfMessage: message !== undefined };
  const named = laneNamed(deps, lane);
  const { domains, unknown } = await waitingDomainsOf(deps, named, lookUpsMs);
  if (domains.length === 0 && !isSetByOperator(deps, lane) && !(await isLaneKnown(deps, lane)))
    throw new Problem('not_found', `there is no lane ${JSON.stringify(lane)}: see \`posthorn queue lanes\``, {
      field: 'lane',
    });
  return {
    domains: domains.filter((one) => domain === undefined || one === domain),
    condition: both(ofPool(deps, named.pool), asked),
    isOfMessage: false,
    unknown,
  };
}

/** Returns the condition for all but the domain and the lane. */
export async function conditionOf(
  deps: Pick<OperatorDeps, 'db' | 'config'>,
  { lane: _, tag, all: __, ...mail }: Selector,
  act: Pick<Act, 'concerns'> = { concerns: () => undefined },
): Promise<Condition> {
  const isNamed = Object.values(mail).some((one) => one !== undefined);
  const part = isNamed ? await partFor(deps, mail, act) : anyPart;
  const ofMessage = (column: string): string =>
    `AND EXISTS (SELECT 1 FROM messages x WHERE x.id = d.message_id AND x.${column} = ?)`;
  const parts: [string, string | null | undefined][] = [
    ['AND d.account_id = ?', part.account],
    ['AND d.message_id = ?', part.message],
    [ofMessage('stream'), part.stream],
    [ofMessage('key_id'), part.key],
    [ofMessage('batch_id'), part.batch],
    [
      'AND EXISTS (SELECT 1 FROM message_tags t WHERE t.account_id = d.account_id AND t.tag = ? AND t.message_id = d.message_id)',
      tag,
    ],
  ];
  return parts.reduce<Condition>(
    (found, [sql, value]) => (value == null ? found : both(found, { sql, values: [value] })),
    always,
  );
}

export const both = (one: Condition, other: Condition): Condition => ({
  sql: `${one.sql} ${other.sql}`.trim(),
  values: [...one.values, ...other.values],
});

/** Returns the condition that a delivery is for one of these domains, and the further condition. */
export const ofMail = (
  { reader }: Pick<StoreDeps['db'], 'reader'>,
  { domains, condition }: Pick<WaitingMail, 'domains' | 'condition'>,
): Condition =>
  domains === null
    ? condition
    : both({ sql: `AND d.domain ${dialectOf(reader).among('text')}`, values: [JSON.stringify(domains)] }, condition);

type Waiting = Pick<DeliveryRow, 'id' | 'domain' | 'class' | 'account_id' | 'due_at'>;

/** A condition on rows of `deliveries d`, with its values; `sql` is empty or begins with AND. */
export interface Condition {
  sql: string;
  values: readonly Value[];
}

export const always: Condition = { sql: '', values: [] };

/** Mail that waits and is not being tried. */
export interface WaitingMail {
  /** Recipient domains; null is all of them. */
  domains: readonly string[] | null;
  condition: Condition;
  /** The condition names one message, which has an index of its own. */
  isOfMessage: boolean;
}

/** A page is one commit, so that other writers get their turn between pages. */
const PAGE = 500;

/** Returns how many deliveries took the change. The first page's commit writes the audit line. */
export async function changeWaiting(
  deps: Pick<OperatorDeps, 'db' | 'recorder' | 'notifiers'>,
  mail: WaitingMail,
  change: DeliveryChange,
  act: Act,
): Promise<number> {
  let changed = 0;
  let isFirst = true;
  for await (const page of waitingPages(deps, mail)) {
    const rows = isFirst ? act.rows() : {};
    isFirst = false;
    const recorded = await deps.recorder.record(
      page.map(({ id }) => ({ deliveryId: id, change })),
      rows,
    );
    changed += recorded.filter(({ applied }) => applied).length;
    deps.notifiers.deliveries.notify(hintsOfChanged(page, recorded));
  }
  return changed;
}

/** Counts the mail, by the reader that no mail waits for: it may read much of the index. */
export async function countWaiting(
  { db }: Pick<OperatorDeps, 'db'>,
  { domains, condition }: Pick<WaitingMail, 'domains' | 'condition'>,
): Promise<number> {
  const ofDomains = domains === null ? '' : `AND d.domain ${dialectOf(db.reader).among('text')}`;
  const [row] = await db.maintenance.all<{ n: number }>(
    `SELECT COUNT(*) AS n FROM deliveries d
     WHERE d.due_at IS NOT NULL AND d.claim_epoch IS NULL ${ofDomains} ${condition.sql}`,
    [...(domains === null ? [] : [JSON.stringify(domains)]), ...condition.values],
  );
  return row?.n ?? 0;
}

/** Small domains share a page. The position only moves forward, so that a delivery that is moved back in the index is not read again. */
async function* waitingPages(deps: Pick<OperatorDeps, 'db'>, mail: WaitingMail): AsyncGenerator<Waiting[], void> {
  let page: Waiting[] = [];
  for (const domain of mail.domains ?? [null]) {
    let last: Waiting | undefined;
    for (;;) {
      const wanted = PAGE - page.length;
      const rows = await rowsAfter(deps.db, mail, { domain, last, most: wanted });
      last = rows.at(-1);
      page.push(...rows);
      if (page.length >= PAGE) {
        yield page;
        page = [];
      }
      if (rows.length < wanted) break;
    }
  }
  if (page.length > 0) yield page;
}

/** In one domain the position has none: then SQLite finds it in the index, after the equal domain. */
async function rowsAfter(
  { reader }: Pick<OperatorDeps['db'], 'reader'>,
  { condition, isOfMessage }: WaitingMail,
  { domain, last, most }: { domain: string | null; last: Waiting | undefined; most: number },
): Promise<Waiting[]> {
  const columns = [...(domain === null ? ['domain'] : []), 'class', 'account_id', 'due_at', 'id'] as const;
  const order = columns.map((column) => `d.${column}`).join(', ');
  const index = isOfMessage ? '' : dialectOf(reader).using('deliveries_due');
  return await reader.raw<Waiting[]>(
    `SELECT d.id, d.domain, d.class, d.account_id, d.due_at FROM deliveries d ${index}
     WHERE d.due_at IS NOT NULL ${domain === null ? '' : 'AND d.domain = ?'}
     ${last === undefined ? '' : `AND (${order}) > (${columns.map(() => '?').join(', ')})`}
     AND d.claim_epoch IS NULL ${condition.sql} ORDER BY ${order} LIMIT ?`,
    [
      ...(domain === null ? [] : [domain]),
      ...(last === undefined ? [] : columns.map((column) => last[column as keyof Waiting])),
      ...condition.values,
      most,
    ],
  );
}

/**
 * Returns the condition for mail that may go by the sources of a pool, as the streams of the mail name it. A pool without sources has none of its
 * own: its mail uses the default pool.
 */
export function ofPool({ config }: Pick<OperatorDeps, 'config'>, pool: string | null): Condition {
  if (pool === null) return always;
  const pools = [...new Set(config.delivery.sources.map((source) => source.pool))];
  return {
    sql: `AND EXISTS (SELECT 1 FROM messages m LEFT JOIN streams s ON s.account_id = m.account_id AND s.slug = m.stream
       WHERE m.id = d.message_id AND CASE WHEN s.pool IN (${pools.map(() => '?').join(', ')}) THEN s.pool ELSE ? END = ?)`,
    values: [...pools, DEFAULT_POOL, pool],
  };
}
