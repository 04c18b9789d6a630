/** Reads the audit log of one account. */
import { idFloor, idTime, MOST_AHEAD_MS } from '../base/id.ts';
import type { Database } from '../storage/database.ts';
import { readPage } from '../storage/page.ts';
import type { AuditRow } from '../storage/tables.ts';

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
  /** Null: acts that concern no account. */
  accountId: string | null;
  /** `key`: uses of keys; `person`: what members and the operator did. */
  by?: 'key' | 'person' | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

/** Returns one page, newest first, from an entry on (its id, exclusive), forwards or backwards. */
export async function pageOfAudit(
  { db }: { db: Pick<Database, 'reader'> },
  { accountId, by, since, until, ...exact }: AuditFilter,
  { limit, after, before }: { limit: number; after?: string; before?: string },
): Promise<{ rows: AuditRow[]; hasMore: boolean }> {
  const query = db.reader<AuditRow>('audit');
  // Uses of unknown keys have no account either, but they are not acts.
  if (accountId === null) query.whereNull('account_id').whereNotNull('summary');
  else query.where({ account_id: accountId });
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
  return readPage<AuditRow>(query, { limit, after, before });
}
