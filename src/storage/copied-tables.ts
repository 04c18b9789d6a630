/** Reads the tables of a SQLite file with all their rows, page by page, as a move copies them. */
import type { Knex } from 'knex';
import { MARK_TABLE } from './mark.ts';
import type { ColumnKind } from './table.ts';
import { tables as declared } from './tables.ts';

export interface CopiedTable {
  readonly name: string;
  /** All columns, also those that the database fills in. */
  readonly columns: readonly { name: string; kind: ColumnKind }[];
  /** The columns of the primary key in its order. */
  readonly key: readonly string[];
}

/** A value as it travels: bytes are hexadecimal digits. */
export type Cell = string | number | null;

/** A value that PostgreSQL could not store as it is. The message is a sentence for the operator. */
export class UncopyableValue extends Error {}

/** Tables that the migrations and the move itself keep. */
const OWN: readonly string[] = ['migrations', 'migrations_lock', MARK_TABLE];
/** SQLite's number of a row. PostgreSQL has a column of this name if a table has no key of its own (migrate.ts). */
const ROW_NUMBER = { name: 'rowid', kind: 'integer' } as const;
const MOST_ROWS = 1000;
/** A single row may be larger. */
const MOST_BYTES = 4 * 1024 * 1024;

const kinds: Readonly<Record<string, ColumnKind>> = {
  TEXT: 'text',
  INTEGER: 'integer',
  BIGINT: 'integer',
  FLOAT: 'real',
  BLOB: 'bytes',
};

/** Returns the tables as the file has them, so that none can be forgotten; those come first that others refer to. */
export async function tablesIn(source: Knex): Promise<CopiedTable[]> {
  const rows = await source.raw<{ name: string }[]>(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite#_%' ESCAPE '#' ORDER BY name",
  );
  const order = Object.keys(declared);
  const names = rows.map(({ name }) => name).filter((name) => !OWN.includes(name));
  const found: CopiedTable[] = [];
  for (const name of names.sort((a, b) => order.indexOf(a) - order.indexOf(b))) {
    if (!order.includes(name)) throw new UncopyableValue(`the table ${name} is none of Posthorn: remove it first`);
    found.push(await tableIn(source, name));
  }
  return found;
}

async function tableIn(source: Knex, name: string): Promise<CopiedTable> {
  const rows = await source.raw<{ name: string; type: string; pk: number }[]>(
    'SELECT name, type, pk FROM pragma_table_info(?) ORDER BY pk, cid',
    [name],
  );
  const columns = rows.map((row) => {
    const kind = kinds[row.type];
    if (kind === undefined) throw new Error(`${name}.${row.name} has the type ${row.type}, which is not known`);
    return { name: row.name, kind };
  });
  const key = rows.filter(({ pk }) => pk > 0).map((row) => row.name);
  return key.length > 0 ? { name, columns, key } : { name, columns: [ROW_NUMBER, ...columns], key: [ROW_NUMBER.name] };
}

/** Yields the rows in the order of the key. Throws `UncopyableValue`. */
export async function* pagesOf(source: Knex, table: CopiedTable): AsyncGenerator<Cell[][], void, undefined> {
  const { page, sizes } = statementsFor(table);
  let behind: readonly Knex.Value[] = [];
  for (;;) {
    const [looked, read] = behind.length === 0 ? [sizes.first, page.first] : [sizes.next, page.next];
    const rows = await source.raw<{ bytes: number }[]>(looked, [...behind, MOST_ROWS]);
    let total = 0;
    const beyond = rows.findIndex(({ bytes }, at) => (total += bytes) > MOST_BYTES && at > 0);
    const found = await source.raw<Record<string, Knex.Value>[]>(read, [...behind, beyond < 0 ? MOST_ROWS : beyond]);
    const last = found.at(-1);
    if (last === undefined) return;
    yield found.map((row) => table.columns.map(({ name, kind }) => cellOf(table, { name, kind }, row[name] ?? null)));
    behind = table.key.map((_, at) => last[`end_${String(at)}`] ?? null);
  }
}

function cellOf(table: CopiedTable, { name, kind }: CopiedTable['columns'][number], value: Knex.Value): Cell {
  if (value === null) return null;
  if (kind === 'bytes' && Buffer.isBuffer(value)) return value.toString('hex');
  if (kind === 'text' && typeof value === 'string') return value;
  if (kind === 'real' && typeof value === 'number') return value;
  if (kind === 'integer' && Number.isSafeInteger(value)) return Number(value);
  throw new UncopyableValue(`${table.name}.${name} has a value that is not of its kind, or a number beyond 2^53`);
}

/**
 * The statements for the first page and for those after it, which take the key that the page before ended with. A text of the key is kept
 * as bytes: what the driver makes of odd ones need not be found again. Without the plus sign SQLite would search by the first column only,
 * and read all pages before this one again.
 */
function statementsFor({ name, columns, key }: CopiedTable) {
  const isText = (column: string): boolean => columns.some((one) => one.name === column && one.kind === 'text');
  const ends = key.map((column, at) => `${isText(column) ? `CAST(${column} AS BLOB)` : column} AS end_${String(at)}`);
  const edges = key.map((column) => (isText(column) ? '+CAST(? AS TEXT)' : '?'));
  const sizes = columns
    .filter(({ kind }) => kind === 'text' || kind === 'bytes')
    .map((column) => `ifnull(octet_length(${column.name}), 0)`);
  const both = (what: string) => {
    const from = (where: string): string => `SELECT ${what} FROM ${name}${where} ORDER BY ${key.join(', ')} LIMIT ?`;
    return { first: from(''), next: from(` WHERE (${key.join(', ')}) > (${edges.join(', ')})`) };
  };
  return {
    page: both([...columns.map((column) => column.name), ...ends].join(', ')),
    sizes: both(`${['0', ...sizes].join(' + ')} AS bytes`),
  };
}
