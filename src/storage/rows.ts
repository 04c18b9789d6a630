/**
 * Writing many rows in one statement. Rows travel as one JSON parameter that the database unfolds (`jsonb_each`, which
 * unlike `json_each` does not write each row as text again, to be parsed for its columns: half the cost): binding the same
 * values one by one costs several times as much of the main loop. Large texts and bytes are bound as they are.
 */
import type { Connection, Value } from './connection.ts';
import { columnsOf, statTypes, type TableName, type Tables } from './tables.ts';

/** Rows for any number of tables: what one unit of work adds. */
export type Rows = { readonly [T in TableName]?: readonly Tables[T][] };

const tableOrder = Object.keys(columnsOf) as TableName[];

/** Tables whose values are large or bytes, which JSON would double or cannot carry. */
const boundTables: ReadonlySet<TableName> = new Set([
  'contents',
  'content_bases',
  'attachments',
  'idempotency',
  'reports',
]);
/** SQLite takes at most 32,766 parameters a statement; small statements also keep their prepared form in the cache. */
const ROWS_BOUND_AT_ONCE = 32;

/** Tables where a row that is there already is no fault: the books add up, a suppression stays as it was unless it had ended. */
const onConflict: Partial<Record<TableName, string>> = {
  counters: ' ON CONFLICT (account_id, day, from_status, to_status) DO UPDATE SET n = counters.n + excluded.n',
  event_counts: ` ON CONFLICT (account_id, span, test, tag, at, stream, domain, provider) DO UPDATE SET
    ${statTypes.map((type) => `${type} = event_counts.${type} + excluded.${type}`).join(', ')}`,
  tls_sessions: ` ON CONFLICT (day, domain, policy, base, result, mx, ip, local_ip, reason) DO UPDATE SET sessions = tls_sessions.sessions + excluded.sessions`,
  tls_policies:
    ' ON CONFLICT (day, domain, policy, base) DO UPDATE SET strings_json = excluded.strings_json, mx_json = excluded.mx_json',
  tls_reports: ' ON CONFLICT (day, domain) DO NOTHING',
  suppressions: ` ON CONFLICT (account_id, address_key, scope) DO UPDATE SET id = excluded.id, email = excluded.email,
    reason = excluded.reason, source_message_id = excluded.source_message_id, note = excluded.note,
    created_at = excluded.created_at, created_by = excluded.created_by, expires_at = excluded.expires_at
    WHERE suppressions.expires_at <= excluded.created_at`,
};

/** Tables that refer to one another; the others can be written in any order. */
const referring: ReadonlySet<TableName> = new Set([
  'accounts',
  'api_keys',
  'domains',
  'dkim_keys',
  'streams',
  'suppressions',
  'batches',
  'templates',
  'template_versions',
  'webhooks',
  'members',
  'memberships',
  'sessions',
  'setup_links',
  'recovery_codes',
]);

/**
 * Writes all rows of all units: first, one after the other, the tables that refer to one another, then the rest side by
 * side. A statement's way to its thread and back takes longer than its work, so waiting for each in turn would double the
 * length of a commit.
 */
export async function insertRows(connection: Connection, units: readonly Rows[]): Promise<void> {
  const wanted = tableOrder.filter((table) => units.some((unit) => (unit[table]?.length ?? 0) > 0));
  for (const table of wanted) if (referring.has(table)) await insertInto(connection, table, rowsOf(units, table));
  const others = wanted.filter((table) => !referring.has(table));
  await allDone(others.map((table) => insertInto(connection, table, rowsOf(units, table))));
}

/** Waits for every statement before it tells of the first that failed: a transaction must not end under a running one. */
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
  const columns: readonly (keyof Tables[T] & string)[] = columnsOf[table];
  const target = `INSERT INTO ${table} (${columns.join(', ')})`;
  const bound = boundTables.has(table);
  const step = bound ? ROWS_BOUND_AT_ONCE : ROWS_UNFOLDED_AT_ONCE;
  for (let at = 0; at < rows.length; at += step) {
    const part = rows.slice(at, at + step);
    if (bound) {
      const marks = part.map(() => `(${columns.map(() => '?').join(', ')})`).join(', ');
      const values = part.flatMap((row) => columns.map((column) => row[column] as Value));
      await connection.run(`${target} VALUES ${marks}${onConflict[table] ?? ''}`, values);
    } else {
      const picks = columns.map((_, i) => `value->>${String(i)}`).join(', ');
      const arrays = part.map((row) => columns.map((column) => row[column]));
      await connection.run(`${target} SELECT ${picks} FROM jsonb_each(?) WHERE true${onConflict[table] ?? ''}`, [
        JSON.stringify(arrays),
      ]);
    }
  }
}
