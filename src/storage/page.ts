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

/** Entries of each slice. The first fills most pages; all of them cost about 50 ms of CPU in a reader's thread. */
export const SLICES: readonly number[] = [1000, 4000, 15_000];

/** How the entries behind a position are read, in the order of the list. */
export interface SlicedList<Position, Row> {
  /** Returns the position of the `count`th entry behind `from`, fitting or not; null if the list has fewer. */
  endOfSlice(from: Position | null, count: number): Promise<Position | null>;
  /** Returns the first `limit` fitting entries behind `from`, up to and including `to`. Null means the start and the end of the list. */
  readFitting(from: Position | null, to: Position | null, limit: number): Promise<Row[]>;
}

export interface BoundedPage<Position, Row> {
  rows: Row[];
  hasMore: boolean;
  /** The position where the last slice ended, if the page is short and the list goes on. */
  reached: Position | null;
}

export async function readBounded<Position, Row>(
  list: SlicedList<Position, Row>,
  edge: Position | null,
  limit: number,
  slices = SLICES,
): Promise<BoundedPage<Position, Row>> {
  const rows: Row[] = [];
  let from = edge;
  for (const count of slices) {
    // The end comes first: what is added in between is then on this page or behind it, and never lost.
    const to = await list.endOfSlice(from, count);
    rows.push(...(await list.readFitting(from, to, limit + 1 - rows.length)));
    if (rows.length > limit || to === null) return pageOf(rows, limit);
    from = to;
  }
  return { rows, hasMore: true, reached: from };
}

/** Reads all of a list that is known to be short, or whose entries all fit. */
export async function readWhole<Position, Row>(
  list: Pick<SlicedList<Position, Row>, 'readFitting'>,
  edge: Position | null,
  limit: number,
): Promise<BoundedPage<Position, Row>> {
  return pageOf(await list.readFitting(edge, null, limit + 1), limit);
}

function pageOf<Position, Row>(rows: Row[], limit: number): BoundedPage<Position, Row> {
  return { rows: rows.slice(0, limit), hasMore: rows.length > limit, reached: null };
}

/** A page of rows that come in the order of their ids. */
export interface BoundedRowPage<Row> {
  rows: Row[];
  /** True if there is more in the direction that was asked for, which is possible even on an empty page. */
  hasMore: boolean;
  /** The ids from which the pages before and after this one are read; null if there is nothing there. */
  first: string | null;
  last: string | null;
}

/** Puts a page that was read backwards in order, and says where those before and after it begin. */
export function rowPageOf<Row extends { id: string }>(
  { rows: found, hasMore, reached }: BoundedPage<string, Row>,
  { backwards }: { backwards: boolean },
): BoundedRowPage<Row> {
  const rows = backwards ? found.toReversed() : found;
  const [first, last] = [rows[0]?.id ?? reached, rows.at(-1)?.id ?? reached];
  return { rows, hasMore, first: backwards ? (reached ?? first) : first, last: backwards ? last : (reached ?? last) };
}

type Query<Row extends object> = Knex.QueryBuilder<Row, Row[]>;

interface TestedList<Row extends object> {
  /** Makes a query of all rows of the list, of which an index has the ids in their order. */
  inOrder: () => Query<Row>;
  /** Adds the conditions that each row is tested against. */
  tested: (query: Query<Row>) => Query<Row>;
}

/** Reads a page, newest first. It may be short, or even empty, if `hasMore` is true. `slices` is smaller in tests. */
export async function readTestedPage<Row extends { id: string }>(
  { inOrder, tested }: TestedList<Row>,
  { limit, after, before }: PagePart,
  slices: readonly number[] = SLICES,
): Promise<BoundedRowPage<Row>> {
  const backwards = before !== undefined;
  const [order, behind, upTo] = backwards ? (['asc', '>', '<='] as const) : (['desc', '<', '>='] as const);
  const ordered = (query: Query<Row>, from: string | null): Query<Row> => {
    if (from !== null) query.andWhere('id', behind, from);
    return query.orderBy('id', order);
  };
  const list: SlicedList<string, Row> = {
    async endOfSlice(from, count) {
      const query = ordered(inOrder(), from)
        .limit(1)
        .offset(count - 1);
      const row = (await query.select('id').first()) as { id: string } | undefined;
      return row?.id ?? null;
    },
    async readFitting(from, to, most) {
      const query = ordered(tested(inOrder()), from);
      if (to !== null) query.andWhere('id', upTo, to);
      return (await query.limit(most)) as Row[];
    },
  };
  return rowPageOf(await readBounded(list, after ?? before ?? null, limit, slices), { backwards });
}
