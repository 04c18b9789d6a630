/** Declares tables: their columns with types, and how their rows are written. */

/** The kind of a column's values. `real` is a number that may have a fraction. */
export type ColumnKind = 'text' | 'integer' | 'real' | 'bytes';

/** A column. `Value` is the type of its values in TypeScript; no value of that type is kept here. */
export interface Column<Value> {
  kind: ColumnKind;
  isNullable: boolean;
  readonly value?: Value;
}

const column = <Value>(kind: Column<Value>['kind']): Column<Value> => ({ kind, isNullable: false });

export const text = <Value extends string = string>(): Column<Value> => column('text');
export const integer = (): Column<number> => column('integer');
export const real = (): Column<number> => column('real');
export const bytes = (): Column<Buffer> => column('bytes');
export const orNull = <Value>(of: Column<Value>): Column<Value | null> => ({ ...of, isNullable: true });

export interface TableOptions {
  /** Rows of other tables refer to its rows, so it is written before them, not at the same time. */
  isReferredTo?: boolean;
  /** Its values are large or bytes: they are bound one by one, since JSON would double them or cannot carry them. */
  hasLargeValues?: boolean;
  /** The database numbers its rows, and readers that follow them must see the numbers in their order. */
  isNumbered?: boolean;
  /** Its rows are sums that many transactions add to. PostgreSQL keeps each in parts (postgres/parts.ts), so readers add them up. */
  isParted?: boolean;
  /** The fate of a row that exists already; without it such a row is an error. */
  onConflict?: Conflict;
}

/** The fate of a row whose key exists already. */
export interface Conflict {
  /** The columns of the key. */
  key: readonly string[];
  /** The columns whose values are added to those of the existing row. */
  adds?: readonly string[];
  /** The columns that get the values of the new row. */
  sets?: readonly string[];
  /** The existing row is changed only if this condition holds. */
  where?: string;
}

export interface Table<Columns> extends TableOptions {
  columns: Columns;
  /** The names of the columns, all of which the program writes; a column that the database fills in is not declared. */
  names: readonly (keyof Columns & string)[];
}

export const table = <Columns extends Readonly<Record<string, Column<unknown>>>>(
  columns: Columns,
  options: TableOptions = {},
): Table<Columns> => ({ columns, names: Object.keys(columns), ...options });

/** The row of a table. */
export type RowOf<T> =
  T extends Table<infer Columns>
    ? { -readonly [Name in keyof Columns]: Columns[Name] extends Column<infer Value> ? Value : never }
    : never;
