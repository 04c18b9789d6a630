/**
 * Keeps the query planner's figures (sqlite_stat1) fresh. SQLite counts every row of a table's indexes for them, whatever its analysis
 * limit: a millisecond for each megabyte, in which nothing else is written. So they are made table by table, and only while the file is
 * small. Later the planner uses its built-in rules, which the indexes are made for, instead of figures of a tenth of the rows. So it does
 * with small tables: where figures say that a table has a few dozen rows, statements that are given a list read all of the table for each
 * value of the list, and go on doing so while it grows to thousands of rows, until figures are made again.
 */
import type { Connection } from './connection.ts';

/** Pages of the whole file up to which figures are made; the largest table has about a quarter of them. */
const MOST_PAGES = 32_768;
/** Rows that are looked at in each index. */
const ANALYSIS_LIMIT = 400;
/** Rows of a table from which its figures are kept. */
const LEAST_ROWS = 1000;
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
  if (pages > mostPages && !(await areMade(connection))) return;
  for (const table of stale)
    await run(async (tx) => {
      if (pages <= mostPages) {
        await tx.run(`PRAGMA analysis_limit = ${String(ANALYSIS_LIMIT)}`);
        await tx.run(`ANALYZE "${table}"`);
        // In the same transaction: another connection that reads the figures does not read them again.
        await tx.run(FORGET_SMALL, [LEAST_ROWS]);
      } else await tx.run('DELETE FROM sqlite_stat1 WHERE tbl = ?', [table]);
      await tx.run('ANALYZE sqlite_schema');
    });
}

/**
 * Deletes figures of small tables, which earlier releases made. Must run before other connections read the database: they read the figures
 * once.
 */
export async function forgetSmallFigures(connection: Pick<Connection, 'all' | 'run'>): Promise<void> {
  if (!(await areMade(connection)) || (await connection.all(SMALL_TABLES, [LEAST_ROWS])).length === 0) return;
  await connection.run(FORGET_SMALL, [LEAST_ROWS]);
  // This connection has read them already.
  await connection.run('ANALYZE sqlite_schema');
}

/** The table does not exist before the first ANALYZE. */
const areMade = async (connection: Pick<Connection, 'all'>): Promise<boolean> =>
  (await connection.all("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'")).length > 0;

/** A figure begins with the number of rows: `11 4 1`. */
const SMALL_TABLES = 'SELECT tbl FROM sqlite_stat1 GROUP BY tbl HAVING MAX(CAST(stat AS INTEGER)) < ?';
const FORGET_SMALL = `DELETE FROM sqlite_stat1 WHERE tbl IN (${SMALL_TABLES})`;
