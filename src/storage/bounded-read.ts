/**
 * Reads one page of a list whose entries are tested one by one. A request looks at a bounded number of entries, slice by slice; a page
 * that is not full by then is returned short and says how far it came, so that the next request goes on from there.
 */

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
