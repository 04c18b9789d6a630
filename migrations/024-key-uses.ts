/** Of each key: what it was used for last, and how often in each of the last hours. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('api_keys', (t) => {
    t.text('last_used_endpoint');
    t.text('uses_json').notNullable().defaultTo('[]');
  });
}
