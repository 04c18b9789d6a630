/** Reads the partial index `deliveries_due`: the next due rows of several groups, and the groups that have rows. */
import type { Connection } from '../storage/connection.ts';

/** The position behind which a group's next rows begin. */
export interface DuePosition {
  dueAt: number;
  id: string;
}

/** A group to read, from its cursor on; null reads from the beginning. */
export interface GroupToRead {
  readonly domain: string;
  readonly class: number;
  readonly account: string;
  readonly cursor: DuePosition | null;
}

export interface DueRow {
  /** The index of the row's group among those that were read. */
  place: number;
  id: string;
  due_at: number;
}

/** A group, and the due time of its first row. */
export interface GroupRow {
  domain: string;
  class: number;
  account_id: string;
  due_at: number;
}

/** Reads at most `limit` rows of each group in the order of their due times, with one statement. */
export async function readDueRows(db: Connection, groups: readonly GroupToRead[], limit: number): Promise<DueRow[][]> {
  const wanted = groups.map(({ domain, class: order, account, cursor }) => [
    domain,
    order,
    account,
    cursor?.dueAt ?? -1,
    cursor?.id ?? '',
  ]);
  const rows = await db.all<DueRow>(
    `SELECT g.key AS place, d.id, d.due_at FROM jsonb_each(?) AS g CROSS JOIN deliveries d
     WHERE d.id IN (
       SELECT x.id FROM deliveries x
       WHERE x.domain = g.value->>0 AND x.class = g.value->>1 AND x.account_id = g.value->>2 AND x.due_at IS NOT NULL
         AND (x.due_at, x.id) > (g.value->>3, g.value->>4)
       ORDER BY x.due_at, x.id LIMIT ${String(limit)})
     ORDER BY g.key, d.due_at, d.id`,
    [JSON.stringify(wanted)],
  );
  const byGroup: DueRow[][] = groups.map(() => []);
  for (const row of rows) byGroup[row.place]?.push(row);
  return byGroup;
}

/** Reads the groups after `after`. Each costs one jump in the index, so a million rows of one group cost no more than one. */
export function readGroups(db: Connection, after: GroupRow | null, limit: number): Promise<GroupRow[]> {
  return db.all<GroupRow>(
    `WITH RECURSIVE g(domain, class, account_id, due_at) AS (
       SELECT * FROM (SELECT domain, class, account_id, due_at FROM deliveries
         WHERE due_at IS NOT NULL AND (domain, class, account_id) > (?, ?, ?)
         ORDER BY domain, class, account_id, due_at, id LIMIT 1)
       UNION ALL
       SELECT d.domain, d.class, d.account_id, d.due_at FROM g JOIN deliveries d ON d.id = (
         SELECT x.id FROM deliveries x
         WHERE x.due_at IS NOT NULL AND (x.domain, x.class, x.account_id) > (g.domain, g.class, g.account_id)
         ORDER BY x.domain, x.class, x.account_id, x.due_at, x.id LIMIT 1)
       LIMIT ?)
     SELECT * FROM g`,
    [after?.domain ?? '', after?.class ?? -1, after?.account_id ?? '', limit],
  );
}
