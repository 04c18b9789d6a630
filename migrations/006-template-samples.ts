/** Keeps sample values with each version of a template, for its preview and its test mail. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw('ALTER TABLE template_versions ADD COLUMN sample_json TEXT');
}
