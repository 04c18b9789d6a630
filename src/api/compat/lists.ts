/** Reads lists of ours for the adapters. */
import { Problem } from '../../base/problem.ts';
import type { ApiOperation } from '../../operations/summaries.ts';
import type { Ask, ForeignCall, Params, Query, Told } from './foreign.ts';

/** Returns a time of ours in seconds since the epoch. */
export const seconds = (iso: unknown): number => Math.floor(Date.parse(String(iso)) / 1000);

/** Reads a page of a list of ours. */
export async function pageOf(ask: Ask, operation: ApiOperation, query: Query): Promise<Page> {
  const reply = await ask(operation, { query });
  const {
    data,
    has_more: hasMore,
    next_cursor: next,
    previous_cursor: previous,
  } = ('body' in reply ? reply.body : {}) as PageBody;
  return { data, hasMore, next, previous };
}

/** Reads a list of ours to its end or to `most` entries. `wanted` says which entries count. */
export async function readAll(
  ask: Ask,
  operation: ApiOperation,
  query: Query,
  { most, wanted = () => true }: { most: number; wanted?: (one: Told) => boolean },
): Promise<{ data: Told[]; hasMore: boolean }> {
  const data: Told[] = [];
  for (let after = query['after']; ;) {
    const page = await pageOf(ask, operation, { limit: '100', ...query, after });
    data.push(...page.data.filter(wanted));
    if (data.length > most || !page.hasMore || page.next === null)
      return { data: data.slice(0, most), hasMore: data.length > most || page.hasMore };
    after = page.next;
  }
}

interface Page {
  data: Told[];
  hasMore: boolean;
  next: string | null;
  previous: string | null;
}

interface PageBody {
  data: Told[];
  has_more: boolean;
  next_cursor: string | null;
  previous_cursor: string | null;
}

/** Returns the whole number of a parameter, within its limits. */
export function numberIn(query: Readonly<Record<string, string>>, name: string, usual: number, most: number): number {
  const value = Number(query[name] ?? usual);
  if (!Number.isInteger(value) || value < 0 || value > most)
    throw new Problem('invalid_parameter', `\`${name}\` must be a whole number up to ${String(most)}.`, {
      field: name,
    });
  return value;
}

/** Throws `invalid_parameter` for a parameter of the query that is not among these. */
export function refuseOthers(query: Readonly<Record<string, string>>, known: readonly string[]): void {
  const other = Object.keys(query).find((name) => !known.includes(name));
  if (other !== undefined)
    throw new Problem('invalid_parameter', `The parameter \`${other}\` has no counterpart here. Leave it out.`, {
      field: other,
    });
}

/** Reads the part of a list that `offset` and another parameter ask for. */
export async function partOf(
  { ask, query }: ForeignCall,
  operation: ApiOperation,
  filter: Query,
  { size, usual, most }: { size: string; usual: number; most: number },
): Promise<{ data: Told[]; total: number }> {
  const [offset, count] = [numberIn(query, 'offset', 0, MOST), numberIn(query, size, usual, most)];
  const { data, hasMore } = await readAll(ask, operation, filter, { most: offset + count });
  return { data: data.slice(offset), total: data.length + (hasMore ? 1 : 0) };
}

/** Most entries that such a list goes back: more are read with the lists of the API, which have cursors. */
export const MOST = 10_000;

/** Returns the reason of ours that a list of theirs is about. */
export function reasonOf(lists: Params, { list = '' }: Params): string {
  const reason = Object.hasOwn(lists, list) ? lists[list] : undefined;
  if (reason === undefined) throw new Problem('not_found', 'There is no such list.', { field: 'list' });
  return reason;
}

/** Returns the entry of an address that has this reason, or null. */
export async function suppressionOf(ask: Ask, reason: string, email = ''): Promise<Told | null> {
  const { data } = await readAll(ask, 'listSuppressions', { reason, email }, { most: 1 });
  return data[0] ?? null;
}

export const notListed = (): Problem =>
  new Problem('not_found', 'This address is not on the list.', { field: 'address' });
