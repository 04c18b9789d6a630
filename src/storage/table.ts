/** Declares tables: columns with types, how rows are written, and which columns are members of the public record (record.ts). */

/** The kind of a column's values. `real` is a number that may have a fraction. */
export type ColumnKind = 'text' | 'integer' | 'real' | 'bytes';

/** How a record shows a value: as it is stored, as a time in RFC 3339, as a boolean, or as the value of the JSON text. */
export type ColumnForm = 'plain' | 'time' | 'flag' | 'texts' | 'map' | 'json';

export interface Member {
  description: string;
  /** Undefined for the emptiest value. */
  example: unknown;
  /** The audit log keeps its value before and after a change. */
  isAudited: boolean;
}

interface ColumnFacts {
  readonly kind: ColumnKind;
  readonly form: ColumnForm;
  readonly isNullable: boolean;
  /** The only values of a text. */
  readonly values?: readonly string[];
  /** Null for a column that is shown nowhere. */
  readonly member: Member | null;
  /** True for a member that is made of other data: the table has no such column. */
  readonly isComputed: boolean;
}

/** A column. `Value` is the type of its values, `Shown` their type in a record; no value of these types is kept here. */
export interface Column<Value, Shown = unknown> extends ColumnFacts {
  readonly value?: Value;
  readonly shown?: Shown;
  /** Makes it a member of the record; without an example the emptiest value is one. */
  says(description: string, example?: Shown): PublicColumn<Value, Shown>;
}

export interface PublicColumn<Value, Shown = unknown> extends Column<Value, Shown> {
  readonly isPublic: true;
  audited(): PublicColumn<Value, Shown>;
}

/** A member that the table has no column for: `Shown` is the type of the value that the maker of the record is given. */
export interface ComputedMember<Shown = unknown> extends ColumnFacts {
  readonly isComputed: true;
  readonly isPublic: true;
  readonly shown?: Shown;
}

const plain = { form: 'plain', isNullable: false, member: null, isComputed: false } as const;

function column<Value, Shown = Value>(facts: ColumnFacts): Column<Value, Shown> {
  const says = (member: Member): PublicColumn<Value, Shown> => ({
    ...column<Value, Shown>({ ...facts, member }),
    isPublic: true,
    audited: () => says({ ...member, isAudited: true }),
  });
  return {
    ...facts,
    says: (description, example) => says({ description, example, isAudited: false }),
  };
}

export const text = <Value extends string = string>(...values: readonly Value[]): Column<Value, Value> =>
  column({ ...plain, kind: 'text', ...(values.length === 0 ? {} : { values }) });
export const integer = (): Column<number, number> => column({ ...plain, kind: 'integer' });
export const real = (): Column<number, number> => column({ ...plain, kind: 'real' });
export const bytes = (): Column<Buffer> => column({ ...plain, kind: 'bytes' });
/** Milliseconds since the epoch. */
export const time = (): Column<number, string> => column({ ...plain, kind: 'integer', form: 'time' });
/** 0 or 1. */
export const flag = (): Column<number, boolean> => column({ ...plain, kind: 'integer', form: 'flag' });
/** A JSON list of texts. */
export const texts = (): Column<string, string[]> => column({ ...plain, kind: 'text', form: 'texts' });
/** A JSON object whose values are texts. */
export const map = (): Column<string, Record<string, string>> => column({ ...plain, kind: 'text', form: 'map' });
/** Any other JSON; the schema of the record says what it holds. */
export const json = <Shown>(): Column<string, Shown> => column({ ...plain, kind: 'text', form: 'json' });
export const orNull = <Value, Shown>(of: Column<Value, Shown>): Column<Value | null, Shown | null> =>
  column({ ...of, isNullable: true });
/** A member of the record at this place that is not stored here: the code that makes a record gives its value as the record shows it. */
export const computed = <Shown>(of: PublicColumn<unknown, Shown>): ComputedMember<Shown> => ({
  ...of,
  isComputed: true,
});

export interface TableOptions {
  /** Rows of other tables refer to its rows, so it is written before them, not at the same time. */
  isReferredTo?: boolean;
  /** Its values are large or bytes: they are bound one by one, since JSON would double them or cannot carry them. */
  hasLargeValues?: boolean;
  /** The database numbers its rows, and readers that follow them must see the numbers in their order. */
  isNumbered?: boolean;
  /** Its rows are sums that many transactions add to. PostgreSQL keeps each in parts (postgres/own-tables.ts), so readers add them up. */
  isParted?: boolean;
  /** The fate of a row that exists already; without it such a row is an error. */
  onConflict?: Conflict;
}

/** The fate of a row whose key exists already. */
export interface Conflict {
  key: readonly string[];
  /** The columns whose values are added to those of the existing row. */
  adds?: readonly string[];
  /** The columns that get the values of the new row. */
  sets?: readonly string[];
  /** The existing row is changed only if this condition holds. */
  where?: string;
}

export type Declared = Readonly<Record<string, Column<unknown> | ComputedMember>>;

export type Stored<Members> = {
  readonly [Name in keyof Members as Members[Name] extends ComputedMember ? never : Name]: Members[Name];
};

export interface Table<Members> extends TableOptions {
  /** The columns, and the computed members of the record at their places. */
  members: Members;
  columns: Stored<Members>;
  /** The names of the columns, all of which the program writes; a column that the database fills in is not declared. */
  names: readonly (keyof Stored<Members> & string)[];
}

export function table<Members extends Declared>(members: Members, options: TableOptions = {}): Table<Members> {
  const stored = Object.entries(members).filter(([, { isComputed }]) => !isComputed);
  // fromEntries forgets the names.
  const columns = Object.fromEntries(stored) as unknown as Stored<Members>;
  return { members, columns, names: Object.keys(columns) as unknown as Table<Members>['names'], ...options };
}

export type ValuesOf<Columns> = {
  -readonly [Name in keyof Columns]: Columns[Name] extends Column<infer Value> ? Value : never;
};

export type RowOf<T> = T extends Table<infer Members> ? ValuesOf<Stored<Members>> : never;
