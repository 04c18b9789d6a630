/**
 * Rows as the JSON text that their statement unfolds. Work that makes many rows packs them a few at a time: the text has a third of the
 * size of the objects, which then live only for a moment. What lives until a commit is moved twice by the garbage collector.
 */
import { rowsParameter } from './rows-parameter.ts';
import type { Column } from './table.ts';
import { tables, type TableName, type Tables } from './tables.ts';

/** Writing the JSON of more rows at once would hold the main loop for over a millisecond. */
export const ROWS_OF_A_PACK = 128;

/** Some rows of one table, at most `ROWS_OF_A_PACK`. */
export class PackedRows {
  readonly count: number;
  /** A list of values for each row, joined by commas. */
  readonly json: string;

  constructor(count: number, json: string) {
    this.count = count;
    this.json = json;
  }
}

export type RowOrPack<T extends TableName> = Tables[T] | PackedRows;

/** Packs rows of a table whose statement unfolds them: it has neither `onConflict`, as merging needs the rows, nor `hasLargeValues`. */
export function* packsOf<T extends TableName>(table: T, rows: readonly RowOrPack<T>[]): Generator<PackedRows> {
  let loose: Tables[T][] = [];
  for (const row of rows) {
    if (row instanceof PackedRows) {
      if (loose.length > 0) yield packed(table, loose);
      loose = [];
      yield row;
    } else if (loose.push(row) === ROWS_OF_A_PACK) {
      yield packed(table, loose);
      loose = [];
    }
  }
  if (loose.length > 0) yield packed(table, loose);
}

const packed = <T extends TableName>(table: T, rows: readonly Tables[T][]): PackedRows =>
  new PackedRows(rows.length, insertedRows[table].json(rows).slice(1, -1));

const parameterOf = (columns: Readonly<Record<string, Column<unknown>>>) => rowsParameter(columns);

/** The parameter of the statement that adds rows to each table, with all its columns. */
export const insertedRows = Object.fromEntries(
  Object.entries(tables).map(([name, { columns }]) => [name, parameterOf(columns)]),
) as Readonly<Record<TableName, ReturnType<typeof parameterOf>>>;
