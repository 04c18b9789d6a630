/** Drops the tables of features that are gone. */
import type { Knex } from 'knex';

/** The parts of exports were on PostgreSQL only. */
const tables = [
  ...['export_parts', 'export_files', 'saved_views'],
  ...['resends', 'tls_policies', 'tls_reports', 'tls_sessions'],
];

export async function up(knex: Knex): Promise<void> {
  for (const table of tables) await knex.schema.dropTableIfExists(table);
}
