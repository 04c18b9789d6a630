/** Reads waiting deliveries of some domains page by page, in the order of the index of what waits. */
import { DEFAULT_POOL } from '../storage/tables.ts';
import type { Value } from '../storage/connection.ts';
import { dialectOf } from '../storage/sql.ts';
import type { DeliveryRow } from '../storage/tables.ts';
import type { OperatorDeps } from './deps.ts';

export type Waiting = Pick<DeliveryRow, 'id' | 'domain' | 'class' | 'account_id' | 'due_at'>;

/** A condition on rows of `deliveries d`, with its values; `sql` begins with AND. */
export interface Condition {
  sql: string;
  values: readonly Value[];
}

export const always: Condition = { sql: '', values: [] };

/** Small domains share a page. The position only moves forward, so that a delivery that is moved back in the index is not read again. */
export async function* waitingPages(
  { db }: Pick<OperatorDeps, 'db'>,
  domains: readonly string[],
  condition: Condition,
  size: number,
): AsyncGenerator<Waiting[], void> {
  let page: Waiting[] = [];
  for (const domain of domains) {
    let last: Waiting | undefined;
    for (;;) {
      const wanted = size - page.length;
      const rows = await rowsAfter(db, domain, condition, last, wanted);
      last = rows.at(-1);
      page.push(...rows);
      if (page.length >= size) {
        yield page;
        page = [];
      }
      if (rows.length < wanted) break;
    }
  }
  if (page.length > 0) yield page;
}

/** The position has no domain: then SQLite finds it in the index, after the equal domain. */
async function rowsAfter(
  { reader }: Pick<OperatorDeps['db'], 'reader'>,
  domain: string,
  condition: Condition,
  last: Waiting | undefined,
  most: number,
): Promise<Waiting[]> {
  const position = last === undefined ? '' : 'AND (d.class, d.account_id, d.due_at, d.id) > (?, ?, ?, ?)';
  return await reader.raw<Waiting[]>(
    `SELECT d.id, d.domain, d.class, d.account_id, d.due_at FROM deliveries d ${dialectOf(reader).using('deliveries_due')}
     WHERE d.due_at IS NOT NULL AND d.domain = ? ${position} AND d.claim_epoch IS NULL ${condition.sql}
     ORDER BY d.class, d.account_id, d.due_at, d.id LIMIT ?`,
    [
      domain,
      ...(last === undefined ? [] : [last.class, last.account_id, last.due_at, last.id]),
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
