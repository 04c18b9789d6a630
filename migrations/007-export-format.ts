/** Adds the format of an export: CSV, as all before, or NDJSON. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw("ALTER TABLE export_files ADD COLUMN format TEXT NOT NULL DEFAULT 'csv'");
}
