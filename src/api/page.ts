/** Lists in pages: the common query parameters, the list record and its `Link` header. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
import { integerParameter } from './query.ts';
import { sampleOf } from './record-schema.ts';
import { jsonResponse, type Reply } from './route.ts';
import { createHmac, timingSafeEqual } from 'node:crypto';

export const DEFAULT_LIMIT = 25;

/** `limit`, `after` and `before`, for lists of up to `most` a page. */
export const pageParameters = (most = 100) => ({
  limit: integerParameter(1, most)
    .optional()
    .describe(`Entries a page, 1 to ${String(most)}; ${String(DEFAULT_LIMIT)} if not given.`),
  after: z.string().max(300).optional().describe('Cursor: the entries after it. Not together with `before`.'),
  before: z.string().max(300).optional().describe('Cursor: the entries before it. Not together with `after`.'),
});

export interface PageQuery {
  limit?: number | undefined;
  after?: string | undefined;
  before?: string | undefined;
}

export interface PageWanted {
  accountId: string;
  limit: number;
  after?: string;
  before?: string;
}

export const listOf = (item: z.ZodType) =>
  z.object({
    object: z.literal('list'),
    data: z
      .array(item)
      .describe(
        'The entries of this page. A page may have fewer than `limit`, even none, if many entries had to be examined: `has_more` says whether the list continues.',
      ),
    has_more: z.boolean().describe('Whether the list continues in the requested direction.'),
    next_cursor: z.string().nullable().describe('For `after` of the next request; null at the end of the list.'),
    previous_cursor: z
      .string()
      .nullable()
      .describe('For `before` of the request for the previous page; null at the beginning.'),
  });
export const pageResponse = (item: z.ZodType, entry: unknown = sampleOf(item)) => ({
  200: jsonResponse('A page of the list.', listOf(item), 'One entry', {
    object: 'list',
    data: [entry],
    has_more: false,
    next_cursor: null,
    previous_cursor: null,
  }),
});

/** The 200 response of a list that has no pages. `says` is of its entries. */
export const wholeListResponse = (
  item: z.ZodType,
  names: { id: string; description: string },
  says: string,
  summary: string,
  example?: readonly unknown[],
) => {
  const schema = z.object({ object: z.literal('list'), data: z.array(item).describe(says) }).meta(names);
  const value = example === undefined ? sampleOf(schema) : { object: 'list', data: example };
  return { 200: jsonResponse(says, schema, summary, value) };
};

export const wholeList = (data: readonly unknown[]) => ({ object: 'list', data });

export interface Page {
  data: readonly { id: string }[];
  /** True if the list continues in the requested direction. */
  hasMore: boolean;
  /**
   * Positions of the first and the last entry; their ids if not given, null in an empty page. If reading stopped before the
   * page was full, the one in its direction is where it stopped, so that the next request continues there, also after an empty page.
   */
  first?: string | null;
  last?: string | null;
}

/** Answers a page of the list at `path`; cursors are bound to account and filters. Throws `mutually_exclusive_fields` and `invalid_cursor`. */
export async function answerPage(
  cursors: Cursors,
  path: string,
  { query, caller: { accountId }, search }: PageCall,
  read: (wanted: PageWanted) => Promise<Page>,
): Promise<Reply> {
  const { after, before, limit = DEFAULT_LIMIT } = query;
  refuseBothCursors(query);
  const list = listName(`${path} ${accountId}`, query);
  const page = await read({
    accountId,
    limit,
    ...(after === undefined ? {} : { after: cursors.read(list, after, 'after') }),
    ...(before === undefined ? {} : { before: cursors.read(list, before, 'before') }),
  });
  const { data, hasMore } = page;
  const { first = data[0]?.id ?? null, last = data.at(-1)?.id ?? null } = page;
  const backwards = before !== undefined;
  const next = last !== null && (backwards || hasMore) ? cursors.write(list, last) : null;
  const hasPrevious = backwards ? hasMore : after !== undefined;
  const previous = first !== null && hasPrevious ? cursors.write(list, first) : null;
  const body = { object: 'list', data, has_more: hasMore, next_cursor: next, previous_cursor: previous };
  return { status: 200, body, headers: next === null ? {} : linkToNext(path, search, next) };
}

interface PageCall {
  query: PageQuery;
  caller: Pick<Caller, 'accountId'>;
  search: string;
}

/** Throws `mutually_exclusive_fields` if a query has both cursors. */
export function refuseBothCursors({ after, before }: PageQuery): void {
  if (after !== undefined && before !== undefined)
    throw new Problem('mutually_exclusive_fields', '`after` and `before` exclude each other.', { field: 'before' });
}

/** The filters of a query as one text, the same in whatever order they and their values were given: cursors are bound to it. */
function listName(path: string, query: object): string {
  const filters = Object.entries(query)
    .filter(([name, value]) => value !== undefined && !['limit', 'after', 'before'].includes(name))
    .map(([name, value]): [string, unknown] => [name, Array.isArray(value) ? value.map(String).sort() : value])
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([path, filters]);
}

/** The `Link` header to the next page: the path of the list with its filters and another cursor. */
export function linkToNext(path: string, search: string, cursor: string): { Link: string } {
  const parameters = new URLSearchParams(search);
  parameters.delete('before');
  parameters.delete('after');
  parameters.append('after', cursor);
  return { Link: `<${path}?${parameters.toString()}>; rel="next"` };
}

/** Opaque cursors: base64url of a version, the position, and a MAC over it and the filters, so that changed and foreign ones are refused. */
export type Cursors = ReturnType<typeof createCursors>;

const VERSION = '1';
const MAC_CHARACTERS = 16;
const LONGEST_CURSOR = 300;

/** `secret` is at least 32 bytes. */
export function createCursors(secret: Buffer) {
  const mac = (list: string, position: string): string =>
    createHmac('sha256', secret)
      .update(JSON.stringify([VERSION, list, position]))
      .digest('base64url')
      .slice(0, MAC_CHARACTERS);

  return {
    /** Returns a cursor at `position` of the list that `list` names (its path and filters; the same text for the same list). */
    write: (list: string, position: string): string =>
      Buffer.from(`${VERSION}.${position}.${mac(list, position)}`).toString('base64url'),
    /** Returns the position; throws `invalid_cursor` naming `field`. */
    read(list: string, cursor: string, field: string): string {
      const position = cursor.length > LONGEST_CURSOR ? null : positionIn(cursor);
      if (position === null || !equal(position.mac, mac(list, position.text))) {
        throw new Problem(
          'invalid_cursor',
          'The cursor is damaged or belongs to another list; start again without it.',
          { field },
        );
      }
      return position.text;
    },
  };
}

function positionIn(cursor: string): { text: string; mac: string } | null {
  if (!/^[A-Za-z0-9_-]+$/.test(cursor)) return null;
  const [version, text, mac, ...rest] = Buffer.from(cursor, 'base64url').toString('latin1').split('.');
  if (version !== VERSION || text === undefined || mac === undefined || rest.length > 0) return null;
  return { text, mac };
}

function equal(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a, 'latin1'), Buffer.from(b, 'latin1'));
}
