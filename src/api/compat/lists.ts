/** Reads lists of ours for the adapters. */
import { Problem } from '../../base/problem.ts';
import type { ApiOperation } from '../../operations/summaries.ts';
import type { Reply } from '../route.ts';
import type { Ask, ForeignCall, ForeignRequest, Params, Query, Told } from './foreign.ts';

/** Returns a time of ours in seconds since the epoch. */
export const seconds = (iso: unknown): number => Math.floor(Date.parse(String(iso)) / 1000);

/** Reads a page of a list of ours. */
export async function pageOf(ask: Ask, operation: ApiOperation, query: Query): Promise<Page> {
  const page = (await ask(operation, { query })) as unknown as PageBody;
  return { data: page.data, hasMore: page.has_more, next: page.next_cursor, previous: page.previous_cursor };
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

/** Reads a whole list of ours. Throws `invalid_state` if it is too long for one answer. */
export async function wholeList(
  ask: Ask,
  operation: ApiOperation,
  query: Query,
  wanted: (one: Told) => boolean,
): Promise<Told[]> {
  const { data, hasMore } = await readAll(ask, operation, query, { most: MOST, wanted });
  if (!hasMore) return data;
  throw new Problem('invalid_state', `The list has more than ${String(MOST)} entries: read it with the API, in pages.`);
}

/** An event of ours. */
export interface SeenEvent {
  type: string;
  timestamp: string;
  data: Told;
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
const MOST = 10_000;

/** Returns the reason of ours that a list of theirs is about. */
export function reasonOf(lists: Params, { list = '' }: Params): string {
  const reason = Object.hasOwn(lists, list) ? lists[list] : undefined;
  if (reason === undefined) throw new Problem('not_found', 'There is no such list.', { field: 'list' });
  return reason;
}

/** Returns the entry of an address that has this reason, or null. */
async function suppressionOf(ask: Ask, reason: string, email = ''): Promise<Told | null> {
  const { data } = await readAll(ask, 'listSuppressions', { reason, email }, { most: 1 });
  return data[0] ?? null;
}

/** Refuses a request about an address that is not on the list. */
export function refuseUnlisted(): never {
  throw new Problem('not_found', 'This address is not on the list.', { field: 'address' });
}

/** Returns the requests that read one entry of a list, which may be absent, and that remove it. The paths name `list` and `address`. */
export function entryRequests(
  path: string,
  lists: Params,
  shown: (one: Told | null, address: string) => Reply,
  removed: (address: string) => Reply,
): ForeignRequest[] {
  const find = ({ ask, params }: ForeignCall): Promise<Told | null> =>
    suppressionOf(ask, reasonOf(lists, params), params['address']);
  return [
    {
      method: 'GET',
      path,
      operation: 'listSuppressions',
      run: async (call) => shown(await find(call), call.params['address'] ?? ''),
    },
    {
      method: 'DELETE',
      path,
      operation: 'deleteSuppression',
      status: removed('').status,
      async run(call) {
        const email = String(((await find(call)) ?? refuseUnlisted())['email']);
        await call.ask('deleteSuppression', { params: { email } });
        return removed(email);
      },
    },
  ];
}
