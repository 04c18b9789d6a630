/** Limits that people set count the mails of an hour and a day, as rules do. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  for (const name of ['per_hour', 'per_day']) await knex.raw(`ALTER TABLE limits ADD COLUMN ${name} BIGINT`);
}
