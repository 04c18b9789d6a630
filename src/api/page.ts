/** Lists in pages: the common query parameters, the list record and its `Link` header. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { Cursors } from './cursor.ts';
import { integerParameter } from './query.ts';
import type { Reply } from './route.ts';

export const DEFAULT_LIMIT = 25;

/** `limit`, `after` and `before`, for lists of up to `most` a page. */
export const pageParameters = (most = 100) => ({
  limit: integerParameter(1, most)
    .optional()
    .describe(`Entries a page, 1 to ${String(most)}; ${String(DEFAULT_LIMIT)} where not given.`),
  after: z.string().max(300).optional().describe('Cursor: the entries after it. Not together with `before`.'),
  before: z.string().max(300).optional().describe('Cursor: the entries before it. Not together with `after`.'),
});

export interface PageQuery {
  limit?: number | undefined;
  after?: string | undefined;
  before?: string | undefined;
}

/** The part of the list that is asked for. */
export interface PageWanted {
  limit: number;
  after?: string;
  before?: string;
}

/** Reads the cursors of a query. Throws `mutually_exclusive_fields` and `invalid_cursor`. */
export function wantedPage(cursors: Cursors, list: string, query: PageQuery): PageWanted {
  const { after, before, limit = DEFAULT_LIMIT } = query;
  if (after !== undefined && before !== undefined) {
    throw new Problem('mutually_exclusive_fields', '`after` and `before` exclude each other.', { field: 'before' });
  }
  return {
    limit,
    ...(after === undefined ? {} : { after: cursors.read(list, after, 'after') }),
    ...(before === undefined ? {} : { before: cursors.read(list, before, 'before') }),
  };
}

/** The schema of a page of `item`. */
export const listOf = (item: z.ZodType) =>
  z.object({
    object: z.literal('list'),
    data: z
      .array(item)
      .describe(
        'The entries of this page. A page may have fewer than `limit`, even none, where much had to be looked at: `has_more` says whether the list goes on.',
      ),
    has_more: z.boolean().describe('Whether there is more in the direction that was asked for.'),
    next_cursor: z.string().nullable().describe('For `after` of the next request; null at the end of the list.'),
    previous_cursor: z
      .string()
      .nullable()
      .describe('For `before` of a request for the page before; null at the beginning.'),
  });

export interface Page {
  data: readonly unknown[];
  /** More in the direction that was asked for. */
  hasMore: boolean;
  /**
   * Positions of the first and the last entry, or null in an empty page. Where reading stopped before the page was full, the one
   * that lies in its direction is where it stopped, so that the next request goes on from there: also in an empty page.
   */
  first: string | null;
  last: string | null;
}

/** The answer with a page. `path` is the list's path with its filters but without cursors, for the `Link` header. */
export function pageReply(cursors: Cursors, list: string, path: string, wanted: PageWanted, page: Page): Reply {
  const { data, hasMore, first, last } = page;
  const backwards = wanted.before !== undefined;
  const next = last !== null && (backwards || hasMore) ? cursors.write(list, last) : null;
  const cameFromSomewhere = wanted.after !== undefined;
  const previous = first !== null && (backwards ? hasMore : cameFromSomewhere) ? cursors.write(list, first) : null;
  const link = next === null ? {} : { Link: `<${path}${path.includes('?') ? '&' : '?'}after=${next}>; rel="next"` };
  const body = { object: 'list', data, has_more: hasMore, next_cursor: next, previous_cursor: previous };
  return { status: 200, body, headers: link };
}

/** The filters of a query as one text, the same however they were ordered: what a cursor is bound to. */
export function listName(path: string, query: object): string {
  const filters = Object.entries(query)
    .filter(([name, value]) => value !== undefined && !['limit', 'after', 'before', 'expand', 'wait'].includes(name))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([path, filters]);
}

/** The query string without its cursors. */
export function withoutCursors(search: string): string {
  const parameters = new URLSearchParams(search);
  for (const name of ['after', 'before']) parameters.delete(name);
  const rest = parameters.toString();
  return rest === '' ? '' : `?${rest}`;
}
