/** Drops the tables of features that are gone. */
import type { Knex } from 'knex';

/** Of exports, PostgreSQL alone has the parts. */
const tables = ['saved_views', 'export_parts', 'export_files'];

export async function up(knex: Knex): Promise<void> {
  for (const table of tables) await knex.raw(`DROP TABLE IF EXISTS ${table}`);
}
