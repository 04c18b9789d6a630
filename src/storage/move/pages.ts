/**
 * Reads all rows of a table in the order of its key, page by page, with bounded memory. SQLite writes a page as one JSON text: passed value
 * by value, rows cost several times as much. There, the place where a page ends is kept as bytes: a text may have any bytes, and what the
 * driver makes of them need not be found again.
 */
import type { Connection, Value } from '../connection.ts';
import { isParted } from '../postgres/parts.ts';
import type { Engine } from '../sql.ts';
import type { ColumnKind } from '../table.ts';
import { tables, type TableName } from '../tables.ts';
import type { Cell, Row } from './digest.ts';
import type { CopiedTable } from './tables.ts';

const MOST_ROWS = 1000;
/** A single row may be larger. */
const MOST_BYTES = 4 * 1024 * 1024;

/** Begins the names of the values that a page ends with. */
const END = 'end_';

/** A value that the other engine could not store, or not without a change. The message is a sentence for the operator. */
export class UncopyableValue extends Error {}

/** A page that was looked at: how many rows, their size, and how many values that are not of the kind of their column. */
interface Plan {
  n: number;
  bytes: number;
  wrong: number;
}

/** Yields the rows page by page. Throws `UncopyableValue`. */
export async function* pagesOf(db: Connection, table: CopiedTable): AsyncGenerator<Row[], void, undefined> {
  const sql = statementsFor(db.engine, table);
  let after: readonly Value[] = [];
  let limit = MOST_ROWS;
  for (;;) {
    const [from, behind] = after.length === 0 ? [sql.first, after] : [sql.next, after];
    const [plan] = await db.all<Plan>(from.plan, [...behind, limit]);
    const { n, bytes, wrong } = plan ?? { n: 0, bytes: 0, wrong: 0 };
    if (n === 0) return;
    if (bytes > MOST_BYTES && n > 1) {
      limit = Math.ceil(n / 2);
      continue;
    }
    if (wrong > 0)
      throw new UncopyableValue(`${table.name} has ${String(wrong)} values that are not of the kind of their column`);
    yield await readPage(db, table, from.rows, [...behind, n]);
    if (n < limit) return;
    const [end] = await db.all<Record<string, Value>>(from.end, [...behind, n - 1]);
    after = table.key.map((column) => end?.[`${END}${column}`] ?? null);
    limit = Math.min(MOST_ROWS, limit * 2);
  }
}

async function readPage(db: Connection, table: CopiedTable, sql: string, values: readonly Value[]): Promise<Row[]> {
  if (db.engine === 'sqlite') {
    const [page] = await db.all<{ rows: string }>(sql, values);
    const rows = JSON.parse(page?.rows ?? '[]') as Cell[][];
    return rows.map((row) => row.map((value, at) => checked(table, at, value)));
  }
  const rows = await db.all<Record<string, Cell>>(sql, values);
  return rows.map((row) => table.columns.map(({ name }, at) => checked(table, at, row[name] ?? null)));
}

function checked({ name, columns }: CopiedTable, at: number, value: Cell): Cell {
  const column = columns[at];
  if (value === null || column === undefined) return value;
  if (column.kind === 'text' || column.kind === 'bytes') return value;
  const number = Number(value);
  if (column.kind === 'integer' ? Number.isSafeInteger(number) : Number.isFinite(number)) return number;
  throw new UncopyableValue(`${name}.${column.name} has the value ${String(value)}, which cannot be copied exactly`);
}

type Texts = Readonly<Record<'plan' | 'rows' | 'end', string>>;

/** The statements for the first page and for those after it, which take the key that the page before ended with. */
function statementsFor(engine: Engine, { name, columns, key }: CopiedTable): { first: Texts; next: Texts } {
  const kindOf = (column: string): ColumnKind => columns.find((one) => one.name === column)?.kind ?? 'text';
  const asBytes = (column: string): boolean => engine === 'sqlite' && kindOf(column) === 'text';
  const order = `ORDER BY ${key.join(', ')} LIMIT ?`;
  // Another name than that of the column: the order would be that of the bytes, for which there is no index.
  const ends = key.map((column) => `${asBytes(column) ? `CAST(${column} AS BLOB)` : column} AS ${END}${column}`);
  // Without the plus sign SQLite would search by the first column only, and read all pages before this one again.
  const edges = key.map((column) => (asBytes(column) ? '+CAST(? AS TEXT)' : '?'));
  const sizes = columns.flatMap(({ name: column, kind }) =>
    kind === 'text' || kind === 'bytes' ? [`COALESCE(octet_length(${column}), 0)`] : [],
  );
  const wrong =
    engine === 'sqlite' ? columns.map(({ name: column, kind }) => `(typeof(${column}) NOT IN (${stored[kind]}))`) : [];
  const isSummed = engine === 'postgres' && name in tables && isParted(name as TableName);
  const source = (where: string): string =>
    isSummed ? `${summed({ name, columns, key }, where)} AS ${name}` : `${name}${where}`;
  const texts = (where: string): Texts => ({
    plan: `SELECT COUNT(*) AS n, COALESCE(SUM(size), 0) AS bytes, COALESCE(SUM(wrong), 0) AS wrong FROM (
      SELECT ${['0', ...sizes].join(' + ')} AS size, ${['0', ...wrong].join(' + ')} AS wrong FROM ${source(where)} ${order}) AS page`,
    rows:
      engine === 'sqlite'
        ? `SELECT json_group_array(json_array(${columns.map(sqliteValue).join(', ')})) AS rows FROM (
            SELECT ${columns.map((column) => column.name).join(', ')} FROM ${source(where)} ${order})`
        : `SELECT ${columns.map(postgresValue).join(', ')} FROM ${source(where)} ${order}`,
    end: `SELECT ${ends.join(', ')} FROM ${source(where)} ORDER BY ${key.join(', ')} LIMIT 1 OFFSET ?`,
  });
  return { first: texts(''), next: texts(` WHERE (${key.join(', ')}) > (${edges.join(', ')})`) };
}

/** PostgreSQL keeps some sums in parts, each a row (postgres/parts.ts). A copy has the whole. */
function summed({ name, columns, key }: CopiedTable, where: string): string {
  const values = columns.map(({ name: column }) =>
    key.includes(column) ? column : `SUM(${column})::bigint AS ${column}`,
  );
  return `(SELECT ${values.join(', ')} FROM ${name}${where} GROUP BY ${key.join(', ')})`;
}

/** The kinds in which SQLite may store the values of a column, whatever its declared type. */
const stored: Readonly<Record<ColumnKind, string>> = {
  text: "'text', 'null'",
  integer: "'integer', 'null'",
  real: "'real', 'integer', 'null'",
  bytes: "'blob', 'null'",
};

/** JSON would have only 15 digits of a fraction, and cannot hold bytes. */
function sqliteValue({ name, kind }: CopiedTable['columns'][number]): string {
  if (kind === 'real') return `CAST(${name} AS TEXT)`;
  return kind === 'bytes' ? `CASE WHEN ${name} IS NULL THEN NULL ELSE lower(hex(${name})) END` : name;
}

const postgresValue = ({ name, kind }: CopiedTable['columns'][number]): string =>
  kind === 'bytes' ? `encode(${name}, 'hex') AS ${name}` : name;
