/** Reads the audit log: pages of it, and one entry with its details. */
import { idFloor, idTime, MOST_AHEAD_MS } from '../base/id.ts';
import type { Database } from '../storage/database.ts';
import { readPage, type PagePart, type RowPage } from '../storage/page.ts';
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
  /** An account's id; `server`: acts that concern no account; `strangers`: uses of keys that are not known. */
  of: AuditOf;
  /** `key`: uses of keys; `person`: what members and the operator did. */
  by?: 'key' | 'person' | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

export type AuditOf = { accountId: string } | 'server' | 'strangers';

/** Returns one page, newest first, from an entry on (its id, exclusive), forwards or backwards. */
export async function pageOfAudit(
  { db }: { db: Pick<Database, 'reader'> },
  { of, by, since, until, ...exact }: AuditFilter,
  part: PagePart,
): Promise<RowPage<AuditRow>> {
  const query = db.reader<AuditRow>('audit');
  if (typeof of === 'object') query.where({ account_id: of.accountId });
  else if (of === 'server') query.whereNull('account_id').whereNotNull('summary');
  else query.whereNull('account_id').whereNull('summary');
  for (const [column, value] of Object.entries(exact)) if (value !== undefined) query.andWhere(column, value);
  if (by === 'person') query.whereNull('key_id');
  if (by === 'key') query.whereNotNull('key_id');
  // Ids sort by time, so a span of time is a range of the index; the exact bound is compared too.
  if (since !== undefined) query.andWhere('id', '>=', idFloor('aud', since)).andWhere('at', '>=', since);
  if (until !== undefined) query.andWhere('at', '<', until).andWhere('id', '<', idFloor('aud', until + MOST_AHEAD_MS));
  // A request's id says when it came: its entry is looked for there, and not in all that was kept. What people do is
  // entered when it is done, which may be much later; uses of keys bear the time of the request.
  const came = idTime(exact.request_id ?? '');
  if (came !== null) query.andWhere('id', '>=', idFloor('aud', came - MOST_AHEAD_MS));
  if (came !== null && by === 'key') query.andWhere('id', '<', idFloor('aud', came + 2 * MOST_AHEAD_MS));
  return readPage<AuditRow>(query, part);
}

/** Returns a page of several parts of the log as one list, newest first. */
export async function pageOfParts(
  deps: { db: Pick<Database, 'reader'> },
  parts: readonly AuditOf[],
  filter: Omit<AuditFilter, 'of'>,
  part: PagePart,
): Promise<RowPage<AuditRow>> {
  const pages = await Promise.all(parts.map((of) => pageOfAudit(deps, { ...filter, of }, part)));
  const rows = pages.flatMap((page) => page.rows).sort((a, b) => (a.id < b.id ? 1 : -1));
  const some = part.before === undefined ? rows.slice(0, part.limit) : rows.slice(-part.limit);
  return { rows: some, hasMore: rows.length > some.length || pages.some(({ hasMore }) => hasMore) };
}

/** Returns one entry with its details, or null. `accountId`: only one of this account. */
export async function findAuditEntry(
  { db }: { db: Pick<Database, 'reader'> },
  id: string,
  accountId?: string,
): Promise<{ row: AuditRow; details: RequestDetailsRow | null } | null> {
  const row: AuditRow | undefined = await db
    .reader<AuditRow>('audit')
    .where({ id, ...(accountId === undefined ? {} : { account_id: accountId }) })
    .first();
  if (row === undefined) return null;
  const details: RequestDetailsRow | undefined = await db
    .reader<RequestDetailsRow>('request_details')
    .where({ request_id: row.request_id })
    .first();
  return { row, details: details ?? null };
}
