/**
 * The tables whose rows are copied from one engine to the other, as a SQLite database has them: one side of every copy is a SQLite file, and
 * its tables are those that the migrations make. So no table can be forgotten, and a copy of an older schema has the tables of its time.
 */
import type { Connection } from '../connection.ts';
import type { ColumnKind } from '../table.ts';
import { tables as declared } from '../tables.ts';
import { MARK_TABLE } from './mark.ts';

export interface CopiedTable {
  readonly name: string;
  /** All columns, also those that the database fills in. */
  readonly columns: readonly { name: string; kind: ColumnKind }[];
  /** The columns of the primary key in its order. */
  readonly key: readonly string[];
}

/** Tables that the migrations and the copy itself keep. */
const OWN: readonly string[] = ['migrations', 'migrations_lock', MARK_TABLE];

/** SQLite's number of a row. PostgreSQL has a column of this name where a table has no key of its own (postgres/schema.ts). */
const ROW_NUMBER = { name: 'rowid', kind: 'integer' } as const;

const kinds: Readonly<Record<string, ColumnKind>> = {
  TEXT: 'text',
  INTEGER: 'integer',
  BIGINT: 'integer',
  FLOAT: 'real',
  BLOB: 'bytes',
};

/** Returns the tables of a SQLite database, those first that others refer to. */
export async function tablesIn(db: Connection): Promise<CopiedTable[]> {
  const rows = await db.all<{ name: string }>(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
  );
  const order = Object.keys(declared);
  const place = (name: string): number => (order.includes(name) ? order.indexOf(name) : order.length);
  const names = rows.map(({ name }) => name).filter((name) => !OWN.includes(name));
  const found: CopiedTable[] = [];
  for (const name of names.sort((a, b) => place(a) - place(b))) found.push(await tableIn(db, name));
  return found;
}

async function tableIn(db: Connection, name: string): Promise<CopiedTable> {
  const rows = await db.all<{ name: string; type: string; pk: number }>(
    'SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid',
    [name],
  );
  const columns = rows.map((row) => {
    const kind = kinds[row.type];
    if (kind === undefined) throw new Error(`${name}.${row.name} has the type ${row.type}, which is not known`);
    return { name: row.name, kind };
  });
  const key = rows
    .filter(({ pk }) => pk > 0)
    .sort((a, b) => a.pk - b.pk)
    .map((row) => row.name);
  return key.length > 0 ? { name, columns, key } : { name, columns: [ROW_NUMBER, ...columns], key: [ROW_NUMBER.name] };
}

/** Returns the column with the number that the database gives to each new row of the table, or null where it has none. */
export function numberOf({ key, columns }: CopiedTable): string | null {
  const [only, ...others] = key;
  if (only === undefined || others.length > 0) return null;
  return columns.some(({ name, kind }) => name === only && kind === 'integer') ? only : null;
}
