/** What a delivery wishes of the source it leaves by: the pool of its stream, and the source of its last attempt, which greylisting wants again. */
import type { Database } from '../../storage/database.ts';
import type { Wish } from './sources.ts';

export interface WishesDeps {
  db: Pick<Database, 'prepared'>;
  /** The pool that a stream of an account names. */
  poolOf: (accountId: string, stream: string) => Promise<string>;
}

/** By the ids of deliveries; those that are gone have none. */
export async function loadWishes({ db, poolOf }: WishesDeps, ids: readonly string[]): Promise<Map<string, Wish>> {
  const rows = await db.prepared.all<{ id: string; account_id: string; stream: string; last: string | null }>(
    `SELECT d.id, m.account_id, m.stream, CASE WHEN d.attempt_count = 0 THEN NULL ELSE
       (SELECT a.source FROM attempts a WHERE a.message_id = d.message_id AND a.delivery_id = d.id ORDER BY a.id DESC LIMIT 1) END AS last
     FROM json_each(?) AS w JOIN deliveries d ON d.id = w.value JOIN messages m ON m.id = d.message_id`,
    [JSON.stringify(ids)],
  );
  const wishes = rows.map(async ({ id, account_id: account, stream, last }): Promise<[string, Wish]> => [
    id,
    { pool: await poolOf(account, stream), last },
  ]);
  return new Map(await Promise.all(wishes));
}
