/** Reads a page of a list in the order of ids whose rows are tested one by one, within the bounds of bounded-read.ts. */
import type { Knex } from 'knex';
import { readBounded, SLICES, type SlicedList } from './bounded-read.ts';
import type { PagePart, RowPage } from './page.ts';

export interface BoundedRowPage<Row> extends RowPage<Row> {
  /** The ids from which the pages before and after this one are read; null if there is nothing there. */
  first: string | null;
  last: string | null;
}

type Query<Row extends object> = Knex.QueryBuilder<Row, Row[]>;

export interface TestedList<Row extends object> {
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
  const { rows, hasMore, reached } = await readBounded(list, after ?? before ?? null, limit, slices);
  if (backwards) rows.reverse();
  const [first, last] = [rows[0]?.id ?? reached, rows.at(-1)?.id ?? reached];
  return {
    rows,
    hasMore,
    first: backwards ? (reached ?? first) : first,
    last: backwards ? last : (reached ?? last),
  };
}
