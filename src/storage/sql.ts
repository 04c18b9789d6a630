/**
 * SQL for both engines, in what SQLite and PostgreSQL share; the few differences are fragments here. A statement that needs one is made once, when
 * its module is loaded, with one text for each engine.
 */
import type { Knex } from 'knex';
import type { ColumnKind } from './table.ts';

export type Engine = 'sqlite' | 'postgres';

export type Statement = Readonly<Record<Engine, string>>;

export interface Dialect {
  readonly engine: Engine;
  /**
   * A table made of one JSON parameter, a list of rows that are lists of values. `columns` has the name and kind of each value in its order. SQLite's
   * `jsonb_each` costs half of `json_each`, which writes each row as text again.
   */
  readonly unfold: (alias: string, columns: Readonly<Record<string, ColumnKind>>) => string;
  /** A table made of one JSON parameter, a list of values, each in the column `value`. */
  readonly listed: (alias: string, kind: ColumnKind) => string;
  /** The end of the condition that a column has one of the values of one JSON parameter, a list. */
  readonly among: (kind: ColumnKind) => string;
  /** Names the index that SQLite must read a table by. PostgreSQL knows no such hint and chooses by its figures. */
  readonly using: (index: string) => string;
  /** Joins the next table inside the loop over those before it. PostgreSQL chooses the order by itself. */
  readonly thenJoin: string;
  /** Keeps SQLite from searching an index by this column. */
  readonly unindexed: (column: string) => string;
  /** A time in milliseconds as a text of RFC 3339. */
  readonly time: (column: string) => string;
  /** A condition as 0 or 1. */
  readonly flag: (condition: string) => string;
  /** The time of the statement in milliseconds. */
  readonly nowMs: string;
  /** Reads the names of the views with the statements that made them. PostgreSQL rewrites those; there, each is kept as its comment. */
  readonly viewTexts: string;
  /** The end of a query of rows that its transaction will change, which keeps others from changing them; SQLite has one writer. */
  readonly locked: (order: string, tables: string) => string;
  /** The column for the part of a sum (postgres/own-tables.ts); null if sums have no parts. */
  readonly part: string | null;
  /** One JSON text of all rows, a list of lists of these values, in the order of the rows. */
  readonly listOfLists: (values: readonly string[]) => string;
}

const sqlite: Dialect = {
  engine: 'sqlite',
  unfold(alias, columns) {
    const picks = Object.keys(columns).map((name, place) => `value->>${String(place)} AS ${name}`);
    return `(SELECT ${picks.join(', ')} FROM jsonb_each(?)) AS ${alias}`;
  },
  listed: (alias) => `json_each(?) AS ${alias}`,
  among: () => 'IN (SELECT value FROM json_each(?))',
  using: (index) => `INDEXED BY ${index}`,
  thenJoin: 'CROSS JOIN',
  unindexed: (column) => `+${column}`,
  time: (column) => `strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`,
  flag: (condition) => condition,
  nowMs: "CAST(strftime('%s', 'now') AS INTEGER) * 1000",
  viewTexts: "SELECT name, sql FROM sqlite_master WHERE type = 'view'",
  locked: () => '',
  part: null,
  listOfLists: (values) => `json_group_array(json_array(${values.join(', ')}))`,
};

const postgresTypes: Readonly<Record<ColumnKind, string>> = {
  text: 'text',
  integer: 'bigint',
  real: 'double precision',
  bytes: 'bytea',
};

/** JSON gives text, which PostgreSQL does not compare with numbers by itself. */
const typed = (expression: string, kind: ColumnKind): string =>
  kind === 'text' ? expression : `(${expression})::${postgresTypes[kind]}`;

const postgres: Dialect = {
  engine: 'postgres',
  unfold(alias, columns) {
    const picks = Object.entries(columns).map(
      ([name, kind], place) => `${typed(`one->>${String(place)}`, kind)} AS ${name}`,
    );
    return `(SELECT ${picks.join(', ')} FROM jsonb_array_elements(?::jsonb) AS one) AS ${alias}`;
  },
  listed: (alias, kind) =>
    `(SELECT ${typed('one', kind)} AS value FROM jsonb_array_elements_text(?::jsonb) AS one) AS ${alias}`,
  // An array is one condition of an index, a subquery would be a join.
  among: (kind) => `= ANY (ARRAY(SELECT ${typed('one', kind)} FROM jsonb_array_elements_text(?::jsonb) AS one))`,
  using: () => '',
  thenJoin: 'JOIN',
  unindexed: (column) => column,
  time: (column) => `to_char(to_timestamp(${column} / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
  flag: (condition) => `(${condition})::int`,
  nowMs: '(extract(epoch FROM now()) * 1000)',
  viewTexts:
    "SELECT viewname AS name, obj_description(format('%I.%I', schemaname, viewname)::regclass) AS sql FROM pg_views WHERE schemaname = current_schema()",
  // In one order, or two transactions would wait for each other. Rows that refer to the locked ones may still be added.
  locked: (order, names) => `ORDER BY ${order} FOR NO KEY UPDATE OF ${names}`,
  part: 'part',
  listOfLists: (values) => `coalesce(json_agg(json_build_array(${values.join(', ')})), '[]')::text`,
};

const dialects: Readonly<Record<Engine, Dialect>> = { sqlite, postgres };

export const dialectFor = (engine: Engine): Dialect => dialects[engine];

export function statement(write: (sql: Dialect) => string): Statement {
  return { sqlite: write(sqlite), postgres: write(postgres) };
}

/** Returns the SQL of the engine that a built query is for. */
export const dialectOf = (knex: Knex): Dialect =>
  dialects[(knex.client as { dialect: string }).dialect === 'postgresql' ? 'postgres' : 'sqlite'];

export const textFor = (engine: Engine, sql: string | Statement): string =>
  typeof sql === 'string' ? sql : sql[engine];
