/** Drops the tables of features that are gone. */
import type { Knex } from 'knex';

const tables = ['resends'];

export async function up(knex: Knex): Promise<void> {
  for (const table of tables) await knex.raw(`DROP TABLE ${table}`);
}
