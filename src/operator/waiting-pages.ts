/** Reads waiting deliveries page by page, in the order of the index of what waits, and changes them. */
import { hintsOfChanged } from '../messages/delivery/due-hint.ts';
import type { DeliveryChange } from '../messages/delivery/delivery.ts';
import type { Act } from '../operations/act.ts';
import { DEFAULT_POOL } from '../storage/tables.ts';
import type { Value } from '../storage/connection.ts';
import { dialectOf } from '../storage/sql.ts';
import type { DeliveryRow } from '../storage/tables.ts';
import type { OperatorDeps } from './deps.ts';

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
