/** Reads the partial index `deliveries_due`: the next due rows of several groups, the groups that have rows, and the domains with the most. */
import type { Connection } from '../storage/connection.ts';
import { rowsParameter } from '../storage/rows-parameter.ts';
import { statement } from '../storage/sql.ts';
import { integer, text } from '../storage/table.ts';

/** A group to read: its rows that fall due between two times. */
export interface GroupToRead {
  readonly domain: string;
  readonly class: number;
  readonly account: string;
  readonly from: number;
  readonly until: number;
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

const groupsToRead = rowsParameter({
  place: integer(),
  domain: text(),
  class: integer(),
  account: text(),
  from_at: integer(),
  until: integer(),
});

/** SQLite has no LATERAL; its IN with a limit costs PostgreSQL a scan for each row that it tests. */
const dueRows = statement((sql) =>
  sql.engine === 'sqlite'
    ? `SELECT g.place, d.id, d.due_at FROM ${groupsToRead.table(sql, 'g')} CROSS JOIN deliveries d
     WHERE d.id IN (
       SELECT x.id FROM deliveries x
       WHERE x.domain = g.domain AND x.class = g.class AND x.account_id = g.account AND x.due_at IS NOT NULL
         AND x.due_at BETWEEN g.from_at AND g.until
       ORDER BY x.due_at, x.id LIMIT ?)
     ORDER BY g.place, d.due_at, d.id`
    : `SELECT g.place, d.id, d.due_at FROM ${groupsToRead.table(sql, 'g')} CROSS JOIN LATERAL (
       SELECT x.id, x.due_at FROM deliveries x
       WHERE x.domain = g.domain AND x.class = g.class AND x.account_id = g.account AND x.due_at IS NOT NULL
         AND x.due_at BETWEEN g.from_at AND g.until
       ORDER BY x.due_at, x.id LIMIT ?) d
     ORDER BY g.place, d.due_at, d.id`,
);

/** Reads at most `limit` rows of each group in the order of their due times, with one statement. */
export async function readDueRows(db: Connection, groups: readonly GroupToRead[], limit: number): Promise<DueRow[][]> {
  const wanted = groups.map(({ from, ...group }, place) => ({ ...group, place, from_at: Math.max(0, from) }));
  const rows = await db.all<DueRow>(dueRows, [groupsToRead.json(wanted), limit]);
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
         ORDER BY domain, class, account_id, due_at, id LIMIT 1) AS first
       UNION ALL
       SELECT d.domain, d.class, d.account_id, d.due_at FROM g JOIN deliveries d ON d.id = (
         SELECT x.id FROM deliveries x
         WHERE x.due_at IS NOT NULL AND (x.domain, x.class, x.account_id) > (g.domain, g.class, g.account_id)
         ORDER BY x.domain, x.class, x.account_id, x.due_at, x.id LIMIT 1))
     SELECT * FROM g LIMIT ?`,
    [after?.domain ?? '', after?.class ?? -1, after?.account_id ?? '', limit],
  );
}

/** Reads the domains with the most waiting mail. It reads the whole index: about 0.1 s for a million rows. */
export async function readFullestDomains(db: Connection, limit: number): Promise<string[]> {
  const rows = await db.all<{ domain: string }>(
    'SELECT domain FROM deliveries WHERE due_at IS NOT NULL GROUP BY domain ORDER BY COUNT(*) DESC, domain LIMIT ?',
    [limit],
  );
  return rows.map(({ domain }) => domain);
}
