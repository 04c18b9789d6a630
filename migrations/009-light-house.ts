/** Drops the tables of what the program does not do any more. */
import type { Knex } from 'knex';

const TABLES = ['tls_sessions', 'tls_policies', 'tls_reports'];

export async function up(knex: Knex): Promise<void> {
  for (const table of TABLES) await knex.schema.dropTableIfExists(table);
}
