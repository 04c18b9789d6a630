/**
 * Writes many rows in one statement. Rows travel as one JSON parameter that the database unfolds (`jsonb_each`, which
 * unlike `json_each` does not write each row as text again, to be parsed for its columns: half the cost): binding the same
 * values one by one costs several times as much of the main loop. Large texts and bytes are bound as they are.
 */
import type { Connection, Value } from './connection.ts';
import type { TableOptions } from './table.ts';
import { tables, type TableName, type Tables } from './tables.ts';

/** Rows for any number of tables: what one unit of work adds. */
export type Rows = { readonly [T in TableName]?: readonly Tables[T][] };

/** Makes the rows that a change commits in its own transaction, from its result: an audit line, a stored answer. */
export type RowsFor<Result> = (result: Result) => Rows;

export const noRows = (): Rows => ({});

const tableOrder = Object.keys(tables) as TableName[];

/** SQLite takes at most 32,766 parameters a statement; small statements also keep their prepared form in the cache. */
const ROWS_BOUND_AT_ONCE = 32;

const optionsOf = (name: TableName): TableOptions => tables[name];

/**
 * Writes all rows of all units: first, one after the other, the tables that refer to one another, then the rest side by
 * side. A statement's way to its thread and back takes longer than its work, so waiting for each in turn would double the
 * length of a commit.
 */
export async function insertRows(connection: Connection, units: readonly Rows[]): Promise<void> {
  const wanted = tableOrder.filter((table) => units.some((unit) => (unit[table]?.length ?? 0) > 0));
  for (const table of wanted)
    if (optionsOf(table).isReferredTo === true) await insertInto(connection, table, rowsOf(units, table));
  const others = wanted.filter((table) => optionsOf(table).isReferredTo !== true);
  await allDone(others.map((table) => insertInto(connection, table, rowsOf(units, table))));
}

/** Waits for every statement before it throws the first error: a transaction must not end while one is running. */
export async function allDone(running: readonly Promise<unknown>[]): Promise<void> {
  for (const result of await Promise.allSettled(running)) if (result.status === 'rejected') throw result.reason;
}

const rowsOf = <T extends TableName>(units: readonly Rows[], table: T): Tables[T][] =>
  units.flatMap((unit): readonly Tables[T][] => unit[table] ?? []);

/** Writing the JSON of more rows at once would hold the main loop for over a millisecond. */
const ROWS_UNFOLDED_AT_ONCE = 128;

async function insertInto<T extends TableName>(
  connection: Connection,
  table: T,
  rows: readonly Tables[T][],
): Promise<void> {
  const columns = tables[table].names as readonly (keyof Tables[T] & string)[];
  const { hasLargeValues = false, onConflict } = optionsOf(table);
  const conflict = onConflict === undefined ? '' : ` ${onConflict}`;
  const target = `INSERT INTO ${table} (${columns.join(', ')})`;
  const step = hasLargeValues ? ROWS_BOUND_AT_ONCE : ROWS_UNFOLDED_AT_ONCE;
  for (let at = 0; at < rows.length; at += step) {
    const part = rows.slice(at, at + step);
    if (hasLargeValues) {
      const marks = part.map(() => `(${columns.map(() => '?').join(', ')})`).join(', ');
      const values = part.flatMap((row) => columns.map((column) => row[column] as Value));
      await connection.run(`${target} VALUES ${marks}${conflict}`, values);
    } else {
      const picks = columns.map((_, i) => `value->>${String(i)}`).join(', ');
      const arrays = part.map((row) => columns.map((column) => row[column]));
      await connection.run(`${target} SELECT ${picks} FROM jsonb_each(?) WHERE true${conflict}`, [
        JSON.stringify(arrays),
      ]);
    }
  }
}
