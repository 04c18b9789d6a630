/** Copies the rows of all tables from one database into another, and compares what is there then. */
import type { Connection } from '../connection.ts';
import { statement, type Statement } from '../sql.ts';
import type { ColumnKind } from '../table.ts';
import { countNuls, Digest, rowText, type Row } from './digest.ts';
import { pagesOf } from './pages.ts';
import type { CopiedTable } from './tables.ts';

/** Called with the number of rows that are done and the number of all. */
export type CopyProgress = (step: 'copying' | 'comparing', done: number, of: number) => void;

/** The rows of a table, as one side has them. */
export interface Counted {
  table: string;
  rows: number;
  /** In lower-case hex (digest.ts). */
  digest: string;
}

export interface Copied {
  tables: readonly Counted[];
  /** Values whose NUL characters were replaced. */
  replaced: number;
}

export async function countRows(db: Connection, tables: readonly CopiedTable[]): Promise<number> {
  let rows = 0;
  for (const { name } of tables) rows += (await db.all<{ n: number }>(`SELECT COUNT(*) AS n FROM ${name}`))[0]?.n ?? 0;
  return rows;
}

/** Copies all rows into tables that are empty. */
export async function copyRows(
  { from, to, tables }: { from: Connection; to: Connection; tables: readonly CopiedTable[] },
  progress: CopyProgress,
): Promise<Copied> {
  const all = await countRows(from, tables);
  const counted: Counted[] = [];
  let [done, replaced] = [0, 0];
  for (const table of tables) {
    const insert = insertInto(table);
    const digest = await digestOf(from, table, async (page, texts) => {
      // PostgreSQL has no NUL characters, so only SQLite's rows are looked at.
      if (from.engine === 'sqlite') replaced += page.reduce((sum, row) => sum + countNuls(row), 0);
      await to.run(insert, [`[${texts.join(',')}]`]);
      progress('copying', (done += page.length), all);
    });
    counted.push(digest);
  }
  return { tables: counted, replaced };
}

/** Reads all rows and returns their digests. */
export async function digestsOf(
  db: Connection,
  tables: readonly CopiedTable[],
  read: (rows: number) => void = () => undefined,
): Promise<Counted[]> {
  const found: Counted[] = [];
  for (const table of tables)
    found.push(
      await digestOf(db, table, (page) => {
        read(page.length);
        return Promise.resolve();
      }),
    );
  return found;
}

/** Reads all rows again and returns the differences in words. */
export async function compareRows(
  { to, tables }: { to: Connection; tables: readonly CopiedTable[] },
  copied: Copied,
  progress: CopyProgress,
): Promise<string[]> {
  const all = copied.tables.reduce((sum, { rows }) => sum + rows, 0);
  let done = 0;
  const found = await digestsOf(to, tables, (rows) => {
    progress('comparing', Math.min(all, (done += rows)), all);
  });
  return found.flatMap(({ table, rows, digest }) => {
    const wanted = copied.tables.find((one) => one.table === table);
    if (rows !== wanted?.rows) return [`${table}: ${String(wanted?.rows)} rows were read, ${String(rows)} are there`];
    return digest === wanted.digest ? [] : [`${table}: the rows are not the same`];
  });
}

/** Reads a table and hands each page on while the next one is read. */
async function digestOf(
  db: Connection,
  table: CopiedTable,
  use: (page: readonly Row[], texts: readonly string[]) => Promise<void>,
): Promise<Counted> {
  const digest = new Digest();
  const pages = pagesOf(db, table);
  let next = pages.next();
  for (;;) {
    const { value: page } = await next;
    if (page === undefined) break;
    next = pages.next();
    // If `use` fails, its error is the one that counts.
    next.catch(() => undefined);
    const texts = page.map(rowText);
    for (const text of texts) digest.add(text);
    await use(page, texts);
  }
  return { table: table.name, rows: digest.rows, digest: digest.text() };
}

/** Returns the statement that writes the rows of one JSON parameter. */
function insertInto({ name, columns }: CopiedTable): Statement {
  const names = columns.map((column) => column.name);
  const kinds = Object.fromEntries(
    columns.map(({ name: column, kind }): [string, ColumnKind] => [column, kind === 'bytes' ? 'text' : kind]),
  );
  return statement(({ engine, unfold }) => {
    const values = columns.map(({ name: column, kind }) => {
      if (kind !== 'bytes') return column;
      return engine === 'sqlite' ? `unhex(${column})` : `decode(${column}, 'hex')`;
    });
    return `INSERT INTO ${name} (${names.join(', ')}) SELECT ${values.join(', ')} FROM ${unfold('j', kinds)}`;
  });
}
