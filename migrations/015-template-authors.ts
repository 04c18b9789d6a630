/** Keeps with each version of a template who made it. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw('ALTER TABLE template_versions ADD COLUMN created_by TEXT');
}
