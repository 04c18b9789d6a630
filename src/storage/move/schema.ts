/** Reads the schema of a database of either engine: its tables, and the migrations that made them. */
import type { Connection } from '../connection.ts';
import { statement } from '../sql.ts';

const HAS_TABLE = statement(({ engine }) =>
  engine === 'sqlite'
    ? "SELECT name FROM sqlite_master WHERE type = 'table' AND name = ?"
    : 'SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?',
);

/** Returns whether the database has a table of this name. */
export const hasTable = async (db: Connection, name: string): Promise<boolean> =>
  (await db.all(HAS_TABLE, [name])).length > 0;

/** Returns the names of the migrations that were run, in their order. */
export async function migrationsIn(db: Connection): Promise<string[]> {
  if (!(await hasTable(db, 'migrations'))) return [];
  return (await db.all<{ name: string }>('SELECT name FROM migrations ORDER BY id')).map(({ name }) => name);
}
