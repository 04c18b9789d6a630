/** Reading a list page by page, in the order of ids, which sort by the time of making. */
import type { Knex } from 'knex';

/** Which part: so many rows behind one (its id, exclusive), or before one; of neither the first. */
export interface PagePart {
  limit: number;
  after?: string | undefined;
  before?: string | undefined;
}

export interface RowPage<Row> {
  rows: Row[];
  /** There are more in the direction that was asked for. */
  hasMore: boolean;
}

/** The part of what the query fits, newest first where nothing else is said. */
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
