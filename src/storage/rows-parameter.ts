/**
 * Rows that a statement takes as one JSON parameter. The columns are declared once, with their types: the statement and what is written
 * for it cannot disagree about their order.
 */
import type { Dialect } from './sql.ts';
import type { Column, ValuesOf } from './table.ts';

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
