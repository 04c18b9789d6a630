/** Fills an empty PostgreSQL database with the rows of a SQLite file, in one transaction. */
import { systemClock } from '../../base/clock.ts';
import type { StoreAddress } from '../database.ts';
import { MARK_TABLE } from '../mark.ts';
import { statement, type Statement } from '../sql.ts';
import { addressOf, connectTo, createPostgresConnection, type PostgresConnection } from './connection.ts';
import { standAlone } from './node.ts';
import { createPool, lockStart, prepareSchema, reach, refusalToOpen, refuseUnsuitable } from './open.ts';
import { NODE_TABLES } from './own-tables.ts';
import type { Knex } from 'knex';
import type { ColumnKind } from '../table.ts';
import { tables as declared } from '../tables.ts';

/** A database that no server can use until it is closed. */
export interface FillTarget {
  readonly db: PostgresConnection;
  /** Another one, for the books. */
  readonly pool: Knex;
  /** Makes the schema. Returns a table that has rows already, else null. */
  prepare(): Promise<string | null>;
  close(): Promise<void>;
}

/** Opens the database while no server uses it. Throws `DatabaseRefusal`. */
export async function openFillTarget(store: StoreAddress): Promise<FillTarget> {
  const address = addressOf(store);
  const connect = () => connectTo(address, { setUp: [], looksAtPooler: true });
  const db = createPostgresConnection(connect, { reconnects: false });
  const pool = createPool(address, 1, []);
  const close = async (): Promise<void> => {
    await pool.destroy();
    await db.close();
  };
  try {
    await reach(db);
    await refuseUnsuitable(db);
    await lockStart(db);
    if (await pool.schema.hasTable('node_beats')) await standAlone({ connection: db, clock: systemClock });
  } catch (error) {
    await close();
    throw refusalToOpen(error) ?? error;
  }
  const prepare = async (): Promise<string | null> => {
    const there = await pool.raw<{ name: string }[]>(
      'SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()',
    );
    for (const { name } of there) if (name in declared && (await pool(name).first('*')) !== undefined) return name;
    for (const sql of NODE_TABLES) await db.run(sql);
    await prepareSchema(address, db, {});
    return null;
  };
  return { db, pool, prepare, close };
}

export interface Filled {
  tables: readonly { table: string; rows: number }[];
  /** Texts whose NUL characters were replaced, since PostgreSQL cannot store them. */
  replaced: number;
}

/** Copies all rows, and reads each again as it is written. Throws `UncopyableValue`. `progress` gets the rows that are done, and all. */
export async function fill(
  source: Knex,
  db: PostgresConnection,
  progress: (done: number, of: number) => void,
): Promise<Filled> {
  const tables = await tablesIn(source);
  const numbers = await Promise.all(tables.map(({ name }) => source(name).count<{ n: number }[]>({ n: '*' })));
  const all = numbers.reduce((sum, [row]) => sum + (row?.n ?? 0), 0);
  const filled: { table: string; rows: number }[] = [];
  let [done, replaced] = [0, 0];
  await db.run('BEGIN');
  // Made afterwards they cost less than row by row. Those of keys stay.
  const indexes = await db.all<{ name: string; sql: string }>(
    `SELECT i.indexrelid::regclass::text AS name, pg_get_indexdef(i.indexrelid) AS sql FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
     WHERE t.relnamespace = current_schema()::regnamespace AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = i.indexrelid)`,
  );
  for (const { name } of indexes) await db.run(`DROP INDEX ${name}`);
  for (const table of tables) {
    const insert = insertInto(table);
    const before = done;
    for await (const page of pagesOf(source, table)) {
      replaced += page.flat().filter(hasNul).length;
      const sent = JSON.stringify(page.map((row) => row.map(withoutNul)));
      const written = await db.all<Record<string, Cell>>(insert, [sent]);
      if (JSON.stringify(written.map((row) => table.columns.map(({ name }) => row[name]))) !== sent)
        throw new UncopyableValue(`${table.name}: the rows that were written are not the same`);
      progress((done += page.length), all);
    }
    filled.push({ table: table.name, rows: done - before });
    await goOnFrom(source, db, table);
  }
  for (const { sql } of indexes) await db.run(sql);
  const { tag } = await db.tagOf('COMMIT');
  if (tag !== 'COMMIT') throw new UncopyableValue(`the rows could not be committed: the database answered ${tag}`);
  // The planner has no figures of the new rows yet.
  for (const { name } of tables) await db.run(`ANALYZE ${name}`);
  return { tables: filled, replaced };
}

const hasNul = (value: Cell): boolean => typeof value === 'string' && value.includes('\0');
const withoutNul = (value: Cell): Cell => (typeof value === 'string' ? value.replaceAll('\0', '\uFFFD') : value);

/** Returns the statement that writes the rows of one JSON parameter and gives them as they are then. */
function insertInto({ name, columns }: CopiedTable): Statement {
  const kinds = columns.map(({ name: column, kind }) => [column, kind === 'bytes' ? 'text' : kind] as const);
  const values = columns.map(({ name: column, kind }) => (kind === 'bytes' ? `decode(${column}, 'hex')` : column));
  const written = columns.map(({ name: column, kind }) =>
    kind === 'bytes' ? `encode(${column}, 'hex') AS ${column}` : column,
  );
  return statement(
    ({ unfold }) =>
      `INSERT INTO ${name} (${columns.map((column) => column.name).join(', ')})
       SELECT ${values.join(', ')} FROM ${unfold('j', Object.fromEntries(kinds))} RETURNING ${written.join(', ')}`,
  );
}

/** Has a table that numbers its rows go on behind the last number that it has ever given: that row may be gone. */
async function goOnFrom(source: Knex, db: PostgresConnection, { name, key, columns }: CopiedTable): Promise<void> {
  const [column = ''] = key;
  if (key.length > 1 || columns.find((one) => one.name === column)?.kind !== 'integer') return;
  const [last] = await source.raw<{ n: number | null }[]>(
    `SELECT MAX(n) AS n FROM (SELECT MAX(${column}) AS n FROM ${name} UNION ALL SELECT seq FROM sqlite_sequence WHERE name = ?)`,
    [name],
  );
  if (last?.n != null && last.n > 0)
    await db.all('SELECT setval(s::regclass, ?) FROM pg_get_serial_sequence(?, ?) AS s WHERE s IS NOT NULL', [
      last.n,
      name,
      column,
    ]);
}

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
 * The statements for the first page and for those after it, which take the last key before. A text of the key is kept as bytes: what the driver makes
 * of odd ones need not be found again. Without the plus sign SQLite would search by the first column only, and read all earlier pages again.
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
