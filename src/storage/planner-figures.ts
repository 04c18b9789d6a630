/**
 * Keeps the query planner's figures (sqlite_stat1) fresh. SQLite counts every row of a table's indexes for them, whatever its analysis
 * limit: a millisecond for each megabyte, in which nothing else is written. So they are made table by table, and only while the file is
 * small. Later the planner uses its built-in rules, which the indexes are made for, instead of figures of a tenth of the rows.
 */
import type { Connection } from './connection.ts';

/** Pages of the whole file up to which figures are made; the largest table has about a quarter of them. */
const MOST_PAGES = 32_768;
/** Rows that are looked at in each index. */
const ANALYSIS_LIMIT = 400;
/** A statement that SQLite proposes: `ANALYZE "main"."messages"`. */
const analyze = /^ANALYZE "main"\."(\w+)"$/;

/**
 * Makes figures that are missing, or that count a tenth or less of the rows. `run` begins one transaction for each table. `mostPages` is
 * smaller in tests.
 */
export async function freshenFigures(
  connection: Pick<Connection, 'all'>,
  run: (work: (tx: Pick<Connection, 'run'>) => Promise<void>) => Promise<void>,
  mostPages = MOST_PAGES,
): Promise<void> {
  const stale = (await connection.all<{ optimize: string }>('PRAGMA optimize(-1)')).flatMap(
    ({ optimize }) => analyze.exec(optimize)?.[1] ?? [],
  );
  const [{ page_count: pages } = { page_count: 0 }] = await connection.all<{ page_count: number }>('PRAGMA page_count');
  // The table does not exist before the first ANALYZE.
  const [kept] = await connection.all("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'");
  if (pages > mostPages && kept === undefined) return;
  for (const table of stale)
    await run(async (tx) => {
      if (pages <= mostPages) {
        await tx.run(`PRAGMA analysis_limit = ${String(ANALYSIS_LIMIT)}`);
        await tx.run(`ANALYZE "${table}"`);
        return;
      }
      await tx.run('DELETE FROM sqlite_stat1 WHERE tbl = ?', [table]);
      await tx.run('ANALYZE sqlite_schema');
    });
}
