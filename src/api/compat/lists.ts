/** Reads lists of ours for the adapters. */
import { Problem, type ProblemCode, notFound } from '../../base/problem.ts';
import type { ApiOperation } from '../../operations/summaries.ts';
import type { Reply } from '../route.ts';
import type { Ask, ForeignCall, ForeignRequest, Query, Told } from './foreign.ts';

/** Returns a time of ours in seconds since the epoch. */
export const seconds = (iso: unknown): number => Math.floor(Date.parse(String(iso)) / 1000);

/** Reads a page of a list of ours. The one behind the last page, with an empty `after`, is empty. */
export const pageOf = async (ask: Ask, operation: ApiOperation, query: Query): Promise<Page> =>
  query['after'] === ''
    ? { data: [], has_more: false, next_cursor: null, previous_cursor: null }
    : ((await ask(operation, { query })) as unknown as Page);

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
    if (data.length > most || !page.has_more || page.next_cursor === null)
      return { data: data.slice(0, most), hasMore: data.length > most || page.has_more };
    after = page.next_cursor;
  }
}
export interface SeenEvent {
  type: string;
  timestamp: string;
  data: Told;
}

export interface BatchEntry {
  index: number;
  id: string | null;
  to: string | null;
  error: { code: ProblemCode; message: string } | null;
}

interface Page {
  data: Told[];
  has_more: boolean;
  next_cursor: string | null;
  previous_cursor: string | null;
}

export function numberIn(query: Query, name: string, usual: number, most: number): number {
  const value = Number(query[name] ?? usual);
  if (Number.isInteger(value) && value >= 0 && value <= most) return value;
  return refuseParameter(name, `must be a whole number up to ${String(most)}`);
}

export function refuseParameter(field: string, why: string): never {
  throw new Problem('invalid_parameter', `\`${field}\` ${why}.`, { field });
}

/** Throws `invalid_parameter` for what is left of a query when the parameters that are known are taken out. */
export function refuseOthers(others: Query): void {
  const [other] = Object.keys(others);
  if (other !== undefined) refuseParameter(other, 'has no counterpart here. Leave it out');
}

/** A list that goes by `offset` and a size. */
interface Part {
  size: string;
  most?: number;
  /** Our names of its filters, with what reads their values if they are not the same. */
  filters: Readonly<Record<string, string | readonly [ours: string, read: (value: string) => string]>>;
  /** The filter that it always has. */
  filter?: Query;
}

/** Reads the part of a list that is asked for. Throws `invalid_parameter`. */
export async function partOf(
  { ask, query }: ForeignCall,
  operation: ApiOperation,
  { size, most = 500, filters, filter = {} }: Part,
): Promise<{ data: Told[]; total: number }> {
  const [offset, count] = [numberIn(query, 'offset', 0, MOST), numberIn(query, size, most, most)];
  const found = { ...filter };
  for (const [theirs, value] of Object.entries(query)) {
    const known = Object.hasOwn(filters, theirs) ? filters[theirs] : undefined;
    if (typeof known === 'string') found[known] = value;
    else if (known !== undefined) found[known[0]] = known[1](value);
    else if (theirs !== 'offset' && theirs !== size) refuseOthers({ [theirs]: value });
  }
  const { data, hasMore } = await readAll(ask, operation, found, { most: offset + count });
  return { data: data.slice(offset), total: data.length + (hasMore ? 1 : 0) };
}

/** Most entries that such a list goes back: more are read with the lists of the API, which have cursors. */
const MOST = 10_000;

/** Refuses a request about an address that is not on the list. */
export function refuseUnlisted(): never {
  throw notFound('address', 'This address is not on the list.');
}

/** The answers to the requests of a list of suppressions there. */
interface ListAnswers {
  list?: (call: ForeignCall) => Promise<Reply>;
  /** Adds entries; their form is `entries`. */
  add?: (call: ForeignCall) => Promise<Reply>;
  /** The status of its answer, if it is not 200. */
  added?: number;
  /** An entry, which may be absent. */
  shown: (one: Told | null, address: string) => Reply;
  removed: (address: string) => Reply;
}

/** The requests of a list there whose entries have this reason here. */
export function listRequests(
  path: string,
  reason: string,
  { list, add, added = 200, shown, removed }: ListAnswers,
): ForeignRequest[] {
  const ofAddress = `${path}/{address}`;
  const find = async ({ ask, params: { address: email } }: ForeignCall): Promise<Told | null> =>
    (await pageOf(ask, 'listSuppressions', { reason, email, limit: '1' })).data[0] ?? null;
  const whole: ForeignRequest[] = [];
  if (list !== undefined) whole.push({ method: 'GET', path, operation: 'listSuppressions', run: list });
  if (add !== undefined)
    whole.push({ method: 'POST', path, operation: 'createSuppression', form: 'entries', status: added, run: add });
  return [
    ...whole,
    {
      method: 'GET',
      path: ofAddress,
      operation: 'listSuppressions',
      run: async (call) => shown(await find(call), call.params['address'] ?? ''),
    },
    {
      method: 'DELETE',
      path: ofAddress,
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
