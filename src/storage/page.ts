/** Reads a list page by page in the order of ids, which sort by the time they were made. */
import type { Knex } from 'knex';
import type { Connection } from './connection.ts';

/** The part to read: `limit` rows after or before the row with an id (exclusive), or the first ones. */
export interface PagePart {
  limit: number;
  after?: string | undefined;
  before?: string | undefined;
}

export interface RowPage<Row> {
  rows: Row[];
  /** True if there are more in the direction that was asked for. */
  hasMore: boolean;
}

/** Reads a page of the query's rows. */
export async function readPage<Row>(
  query: Knex.QueryBuilder,
  { limit, after, before }: PagePart,
  order: 'newest first' | 'oldest first' = 'newest first',
): Promise<RowPage<Row>> {
  const backwards = before !== undefined;
  const descending = (order === 'newest first') !== backwards;
  const edge = after ?? before;
  if (edge !== undefined) query.where('id', descending ? '<' : '>', edge);
  const rows = (await query.orderBy('id', descending ? 'desc' : 'asc').limit(limit + 1)) as Row[];
  const hasMore = rows.length > limit;
  if (hasMore) rows.length = limit;
  if (backwards) rows.reverse();
  return { rows, hasMore };
}

/** Returns whether the account has at least `count` rows in the table. Reads `count` entries of an index at most. */
export async function hasAtLeast(
  db: Connection,
  table: 'api_keys' | 'templates',
  accountId: string,
  count: number,
): Promise<boolean> {
  // It is enough to look for the last of these rows.
  const rows = await db.all(`SELECT 1 AS there FROM ${table} WHERE account_id = ? ORDER BY id LIMIT 1 OFFSET ?`, [
    accountId,
    count - 1,
  ]);
  return rows.length > 0;
}
