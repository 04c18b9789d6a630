/** Ends the failures of domains whose records were found again: they no longer last for another day. */
import type { Knex } from 'knex';

const statements = [
  'UPDATE domains SET failing_since = NULL, refused_at = NULL WHERE found_again_at IS NOT NULL',
  'ALTER TABLE domains DROP COLUMN found_again_at',
];

export async function up(knex: Knex): Promise<void> {
  for (const statement of statements) await knex.raw(statement);
}
