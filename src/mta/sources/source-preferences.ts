/** Loads the source preferences of deliveries: the pool of the stream, and the source of the last attempt, which greylisting expects again. */
import type { Database } from '../../storage/database.ts';
import type { SourcePreference } from './sources.ts';

export interface SourcePreferenceDeps {
  db: Pick<Database, 'prepared'>;
  /** Returns the pool that a stream of an account names. */
  poolOf: (accountId: string, stream: string) => Promise<string>;
}

/** Returns the preferences by delivery id; deliveries that are gone have none. */
export async function loadSourcePreferences(
  { db, poolOf }: SourcePreferenceDeps,
  ids: readonly string[],
): Promise<Map<string, SourcePreference>> {
  const rows = await db.prepared.all<{ id: string; account_id: string; stream: string; last: string | null }>(
    `SELECT d.id, m.account_id, m.stream, CASE WHEN d.attempt_count = 0 THEN NULL ELSE
       (SELECT a.source FROM attempts a WHERE a.message_id = d.message_id AND a.delivery_id = d.id ORDER BY a.id DESC LIMIT 1) END AS last
     FROM json_each(?) AS w JOIN deliveries d ON d.id = w.value JOIN messages m ON m.id = d.message_id`,
    [JSON.stringify(ids)],
  );
  const preferences = rows.map(
    async ({ id, account_id: account, stream, last }): Promise<[string, SourcePreference]> => [
      id,
      { pool: await poolOf(account, stream), last },
    ],
  );
  return new Map(await Promise.all(preferences));
}
