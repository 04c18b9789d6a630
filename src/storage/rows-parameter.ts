/** Rows that a statement takes as one JSON parameter. Columns are declared once, so that statement and parameter agree about their order. */
import type { Dialect } from './sql.ts';
import type { Column, ValuesOf } from './table.ts';
import { tables, type TableName, type Tables } from './tables.ts';

/** Declares the rows that a statement reads; `names` are the columns that they have, all of them if absent. */
export function rowsParameter<
  Columns extends { readonly [Of in keyof Columns]: Column<unknown> },
  Name extends keyof Columns & string = keyof Columns & string,
>(columns: Columns, names: readonly Name[] = Object.keys(columns) as Name[]) {
  const kinds = Object.fromEntries(names.map((name) => [name, columns[name].kind]));
  return {
    /** Returns the SQL of the parameter as a table of this name. */
    table: ({ unfold }: Dialect, alias: string): string => unfold(alias, kinds),
    /** Returns the value of the parameter. */
    json: (rows: readonly Readonly<ValuesOf<Pick<Columns, Name>>>[]): string =>
      JSON.stringify(rows.map((row) => names.map((name) => row[name]))),
  };
}

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
