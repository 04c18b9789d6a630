/** Returns whether an account has as many rows of a kind as it may. */
import type { Connection } from './connection.ts';

/** Returns whether the account has at least `count` rows in the table. Reads `count` entries of an index at most. */
export async function hasAtLeast(
  db: Connection,
  table: 'api_keys' | 'templates',
  accountId: string,
  count: number,
): Promise<boolean> {
  // It is enough to look for the last of these rows.
  const rows = await db.all(`SELECT 1 AS there FROM ${table} WHERE account_id = ? ORDER BY id LIMIT 1 OFFSET ?`, [
    accountId,
    count - 1,
  ]);
  return rows.length > 0;
}
