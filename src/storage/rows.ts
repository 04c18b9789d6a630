/** Writes many rows in one statement, as one JSON parameter: values bound one by one cost several times as much. Large texts and bytes are bound. */
import { yieldToEventLoop } from '../base/slices.ts';
import type { Connection, Value } from './connection.ts';
import { statement, type Statement } from './sql.ts';
import type { Conflict } from './table.ts';
import { insertedRows, PackedRows, packsOf, ROWS_OF_A_PACK, type RowOrPack } from './rows-parameter.ts';
import { optionsOf, tables, type TableName, type Tables } from './tables.ts';

/** Rows for any number of tables: what one unit of work adds. */
export type Rows = { readonly [T in TableName]?: readonly Tables[T][] };

/** The same, if some rows may be packed. */
export type RowsToWrite = { readonly [T in TableName]?: readonly RowOrPack<T>[] };

/** Makes the rows that a change commits in its own transaction, from its result: an audit line, a stored answer. */
export type RowsFor<Result> = (result: Result) => Rows;

export const noRows = (): Rows => ({});

/** Makes the mails to people about something that is written in the same transaction. */
export interface Notice<About> {
  /** Before anything is written. */
  prepare(): Promise<void>;
  /** Returns the rows of the mails, the number of people they go to, and what to do after the commit. */
  of(
    tx: Pick<Connection, 'all'>,
    about: About,
  ): Promise<{ rows: readonly Rows[]; recipients: number; written(): void }>;
}

const tableOrder = Object.keys(tables) as TableName[];

/** Small statements keep their prepared form in the cache. */
const ROWS_BOUND_AT_ONCE = 32;

/**
 * Writes all rows of all units: first, in order, the tables that refer to one another, then the rest side by side: waiting for each statement's way
 * to its thread and back would double the length of a commit.
 */
export async function insertRows(connection: Connection, units: readonly RowsToWrite[]): Promise<void> {
  const named = new Set(units.flatMap(Object.keys));
  const wanted = tableOrder.filter((table) => named.has(table) && units.some((unit) => (unit[table]?.length ?? 0) > 0));
  for (const table of wanted)
    if (optionsOf(table).isReferredTo === true) await insertInto(connection, table, rowsOf(units, table));
  const others = wanted.filter((table) => optionsOf(table).isReferredTo !== true);
  const { shared } = connection;
  await allDone(
    others.map(async (table) => {
      const write = (): Promise<void> => insertInto(connection, table, rowsOf(units, table));
      if (shared !== undefined && optionsOf(table).isNumbered === true) shared.inTurn(write);
      else await write();
    }),
  );
}

/** Tables that nearly every commit adds to. */
const usualTables: readonly TableName[] = [
  'contents',
  'messages',
  'deliveries',
  'attempts',
  'events',
  'idempotency',
  'audit',
  'counters',
  'message_tags',
  'message_metadata',
  'message_words',
  'event_counts',
];

/** Their statements, which wait for one another on SQLite (sqlite-transaction.ts). */
export const usualInserts = (): Statement[] => usualTables.map(insertOf);

/** The code of PostgreSQL's refusal of every statement after the one that failed. */
const FOLLOWS_ANOTHER_ERROR = '25P02';

/** Returns whether the error only says that an earlier statement of the transaction failed. */
export const isFollower = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === FOLLOWS_ANOTHER_ERROR;

/** Waits for every statement before it throws the error that was the cause: a transaction must not end while one is running. */
export async function allDone(running: readonly Promise<unknown>[]): Promise<void> {
  const errors = (await Promise.allSettled(running)).flatMap((result): { reason: unknown }[] =>
    result.status === 'rejected' ? [result] : [],
  );
  const cause = errors.find(({ reason }) => !isFollower(reason)) ?? errors[0];
  if (cause !== undefined) throw cause.reason;
}

const rowsOf = <T extends TableName>(units: readonly RowsToWrite[], table: T): RowOrPack<T>[] =>
  units.flatMap((unit): readonly RowOrPack<T>[] => unit[table] ?? []);

/** Rows of one statement: each statement waits for a turn of the event loop, and holds the writer for 20 us a row. */
const ROWS_UNFOLDED_AT_ONCE = 512;

/** The statement that adds rows to each table, with all its columns; one row with its values bound, if they are large. */
const inserts = new Map<TableName, Statement>();

function insertOf(name: TableName): Statement {
  const known = inserts.get(name);
  if (known !== undefined) return known;
  const made = statement((sql) => {
    if (optionsOf(name).hasLargeValues === true) return boundInsertOf(name, 1);
    const { part } = sql;
    const hasPart = part !== null && optionsOf(name).isParted === true;
    const target = targetOf(name, hasPart ? [part] : []);
    return `${target} SELECT j.*${hasPart ? ', ?' : ''} FROM ${insertedRows[name].table(sql, 'j')} WHERE true${conflictOf(name, hasPart ? [part] : [])}`;
  });
  inserts.set(name, made);
  return made;
}

const targetOf = (name: TableName, more: readonly string[] = []): string =>
  `INSERT INTO ${name} (${[...tables[name].names, ...more].join(', ')})`;

function conflictOf(name: TableName, more: readonly string[] = []): string {
  const { onConflict } = optionsOf(name);
  if (onConflict === undefined) return '';
  const { key, adds = [], sets = [], where } = onConflict;
  const changes = [
    ...adds.map((column) => `${column} = ${name}.${column} + excluded.${column}`),
    ...sets.map((column) => `${column} = excluded.${column}`),
  ];
  const act = changes.length === 0 ? 'NOTHING' : `UPDATE SET ${changes.join(', ')}`;
  return ` ON CONFLICT (${[...key, ...more].join(', ')}) DO ${act}${where === undefined ? '' : ` WHERE ${where}`}`;
}

async function insertInto<T extends TableName>(
  connection: Connection,
  table: T,
  rows: readonly RowOrPack<T>[],
): Promise<void> {
  if (optionsOf(table).hasLargeValues === true) await insertBound(connection, table, rows.map(unpacked));
  else await insertUnfolded(connection, table, mergedRows(connection, table, rows));
}

function mergedRows<T extends TableName>(
  connection: Connection,
  table: T,
  rows: readonly RowOrPack<T>[],
): readonly RowOrPack<T>[] {
  const { onConflict } = optionsOf(table);
  if (onConflict === undefined) return rows;
  return inKeyOrder(mergeRows(rows.map(unpacked<Tables[T]>), onConflict), onConflict, connection);
}

function unpacked<Row>(row: Row | PackedRows): Row {
  if (row instanceof PackedRows) throw new Error('rows of this table cannot be packed');
  return row;
}

/** On SQLite a statement of one row may wait for others. */
async function insertBound<T extends TableName>(
  connection: Connection,
  table: T,
  rows: readonly Tables[T][],
): Promise<void> {
  const columns = tables[table].names as readonly (keyof Tables[T] & string)[];
  const most = connection.engine === 'sqlite' ? 1 : ROWS_BOUND_AT_ONCE;
  for (let at = 0; at < rows.length; at += most) {
    const part = rows.slice(at, at + most);
    const values = part.flatMap((row) => columns.map((column) => row[column] as Value));
    await connection.run(part.length === 1 ? insertOf(table) : boundInsertOf(table, part.length), values);
  }
}

const boundInsertOf = (table: TableName, rows: number): string => {
  const row = `(${tables[table].names.map(() => '?').join(', ')})`;
  return `${targetOf(table)} VALUES ${Array.from({ length: rows }, () => row).join(', ')}${conflictOf(table)}`;
};

/** Begins at once if the rows are few, so that their statement is the first of its group. */
async function insertUnfolded<T extends TableName>(
  connection: Connection,
  table: T,
  rows: readonly RowOrPack<T>[],
): Promise<void> {
  const isParted = connection.engine === 'postgres' && optionsOf(table).isParted === true;
  let texts: string[] = [];
  let count = 0;
  const write = (): Promise<unknown> => {
    const values = `[${texts.join(',')}]`;
    texts = [];
    count = 0;
    return connection.run(insertOf(table), isParted ? [connection.shared?.part ?? 0, values] : [values]);
  };
  for (const pack of packsOf(table, rows)) {
    if (count + pack.count > ROWS_UNFOLDED_AT_ONCE) await write();
    texts.push(pack.json);
    count += pack.count;
    if (pack.count === ROWS_OF_A_PACK) await yieldToEventLoop();
  }
  if (count > 0) await write();
}

/** Transactions that meet the same rows in different orders would wait for each other; one writer alone needs no order. */
function inKeyOrder<Row extends object>(
  rows: readonly Row[],
  { key }: Conflict,
  { engine }: Connection,
): readonly Row[] {
  if (engine === 'sqlite' || rows.length < 2) return rows;
  const keyed = rows.map((row) => {
    const values = row as Readonly<Record<string, unknown>>;
    return { row, name: JSON.stringify(key.map((column) => values[column])) };
  });
  return keyed.sort((a, b) => (a.name < b.name ? -1 : 1)).map(({ row }) => row);
}

/** Merges rows with equal keys: PostgreSQL refuses a statement that meets a row twice, and a counter that many units add to is written once. */
export function mergeRows<Row extends object>(
  rows: readonly Row[],
  { key, adds, sets, where }: Conflict,
): readonly Row[] {
  if (rows.length < 2) return rows;
  const merged = new Map<string, Record<string, unknown>>();
  for (const row of rows as readonly Record<string, unknown>[]) {
    const name = JSON.stringify(key.map((column) => row[column]));
    const before = merged.get(name);
    if (before === undefined) merged.set(name, adds === undefined ? row : { ...row });
    else if (adds !== undefined)
      for (const column of adds) before[column] = Number(before[column]) + Number(row[column]);
    else if (sets !== undefined && where === undefined) merged.set(name, row);
  }
  return [...merged.values()] as Row[];
}
