/** Reads the audit log: pages of it, and one entry with its details. */
import { idFloor, idTime, MOST_AHEAD_MS } from '../base/id.ts';
import type { Knex } from 'knex';
import { readPage, readTestedPage, SLICES, type BoundedRowPage, type PagePart } from '../storage/page.ts';
import type { StoreDeps } from '../storage/database.ts';
import type { AuditRow, RequestDetailsRow } from '../storage/tables.ts';

type Exact =
  | 'key_id'
  | 'actor'
  | 'method'
  | 'endpoint'
  | 'status'
  | 'result'
  | 'ip'
  | 'request_id'
  | 'operation'
  | 'object_type'
  | 'object_id';

/** All that is given must hold together; times in milliseconds since the epoch, `since` inclusive, `until` exclusive. */
export type AuditFilter = { [C in Exact]?: AuditRow[C] | undefined } & {
  /** Of an account; `server`: acts that concern no account; `strangers`: uses of keys that are not known. */
  of: AuditOf;
  /** `key`: uses of keys; `person`: what members and the operator did. */
  by?: 'key' | 'person' | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/** The entries of an account; with `onlyTest` only uses of its test keys, since the others tell of live mail. */
export interface AuditReach {
  accountId: string;
  onlyTest?: boolean;
}

export type AuditOf = AuditReach | 'server' | 'strangers';

type Deps = Pick<StoreDeps, 'db'>;

export type AuditPage = BoundedRowPage<AuditRow>;

/**
 * Returns one page, newest first, from an entry on (its id, exclusive), forwards or backwards. An account has an entry for each
 * request, and an index for their order alone: with other filters a bounded number is tested, and the page may be short.
 */
export async function pageOfAudit(
  deps: Deps,
  filter: AuditFilter,
  { limit, after, before }: PagePart,
  slices: readonly number[] = SLICES,
): Promise<AuditPage> {
  // The entry of a key is near the time of its request; what a person did in it may be later, among much fewer.
  if (idTime(filter.request_id ?? '') !== null && filter.by === undefined) {
    const both = (['key', 'person'] as const).map((by) => ({ ...filter, by }));
    return await mergedPage(deps, both, { limit, after, before });
  }
  return readTestedPage<AuditRow>(
    { inOrder: () => inOrder(deps, filter), tested: (query) => tested(query, filter) },
    { limit, after, before },
    slices,
  );
}

/** Returns a page of one part of the log or several as one list, newest first. What people did and what strangers tried are few entries. */
export async function pageOfParts(
  deps: Deps,
  parts: readonly AuditOf[],
  filter: Omit<AuditFilter, 'of'>,
  part: PagePart,
): Promise<AuditPage> {
  const [of] = parts;
  if (of !== undefined && parts.length === 1) return await pageOfAudit(deps, { ...filter, of }, part);
  return await mergedPage(
    deps,
    parts.map((one) => ({ ...filter, of: one })),
    part,
  );
}

async function mergedPage(deps: Deps, filters: readonly AuditFilter[], part: PagePart): Promise<AuditPage> {
  const pages = await Promise.all(
    filters.map((filter) => readPage<AuditRow>(tested(inOrder(deps, filter), filter), part)),
  );
  const rows = pages.flatMap((page) => page.rows).sort((a, b) => (a.id < b.id ? 1 : -1));
  const some = part.before === undefined ? rows.slice(0, part.limit) : rows.slice(-part.limit);
  const hasMore = rows.length > some.length || pages.some((page) => page.hasMore);
  return { rows: some, hasMore, first: some[0]?.id ?? null, last: some.at(-1)?.id ?? null };
}

type Query = Knex.QueryBuilder<AuditRow, AuditRow[]>;

/** Returns the entries of a span of time, which an index has in their order. */
function inOrder({ db }: Deps, { of, by, since, until, request_id: request }: AuditFilter): Query {
  const query: Query = db.reader<AuditRow>('audit');
  if (typeof of === 'object') query.where({ account_id: of.accountId });
  else if (of === 'server') query.whereNull('account_id').whereNotNull('summary');
  else query.whereNull('account_id').whereNull('summary');
  if (by === 'person') query.whereNull('key_id');
  // Ids sort by time, so a span of time is a range of the index.
  if (since !== undefined) query.andWhere('id', '>=', idFloor('aud', since));
  if (until !== undefined) query.andWhere('id', '<', idFloor('aud', until + MOST_AHEAD_MS));
  // A request's id says when it came: its entry is looked for there, and not in all that was kept. What people do is
  // entered when it is done, which may be much later; uses of keys bear the time of the request.
  const came = idTime(request ?? '');
  if (came !== null) query.andWhere('id', '>=', idFloor('aud', came - MOST_AHEAD_MS));
  if (came !== null && by === 'key') query.andWhere('id', '<', idFloor('aud', came + 2 * MOST_AHEAD_MS));
  return query;
}

function tested(query: Query, { of, by, since, until, ...exact }: AuditFilter): Query {
  if (typeof of === 'object') keepToReach(query, of);
  for (const [column, value] of Object.entries(exact)) if (value !== undefined) query.andWhere(column, value);
  if (by === 'key') query.whereNotNull('key_id');
  if (since !== undefined) query.andWhere('at', '>=', since);
  if (until !== undefined) query.andWhere('at', '<', until);
  return query;
}

function keepToReach(query: Query, { accountId, onlyTest = false }: AuditReach): void {
  const isTestKey = 'key_id IN (SELECT id FROM api_keys WHERE account_id = ? AND mode = ?)';
  if (onlyTest) query.andWhereRaw(isTestKey, [accountId, 'test']);
}

/** Returns one entry with its details, or null. `reach`: only one of these. */
export async function findAuditEntry(
  { db }: Deps,
  id: string,
  reach?: AuditReach,
): Promise<{ row: AuditRow; details: RequestDetailsRow | null } | null> {
  const query: Query = db.reader<AuditRow>('audit').where({ id });
  if (reach !== undefined) keepToReach(query.andWhere({ account_id: reach.accountId }), reach);
  const row: AuditRow | undefined = await query.first();
  if (row === undefined) return null;
  const details: RequestDetailsRow | undefined = await db
    .reader<RequestDetailsRow>('request_details')
    .where({ request_id: row.request_id })
    .first();
  return { row, details: details ?? null };
}
