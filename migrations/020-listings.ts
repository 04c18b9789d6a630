/** On which block lists our addresses have stood, and when they were asked last. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('listings', (t) => {
    t.text('ip').notNullable();
    t.text('list').notNullable();
    t.bigInteger('since').notNullable();
    t.bigInteger('until');
    t.text('codes').notNullable();
    t.primary(['ip', 'list', 'since']);
  });
  await knex.schema.createTable('list_checks', (t) => {
    t.text('ip').notNullable();
    t.text('list').notNullable();
    t.text('state').notNullable();
    t.bigInteger('at').notNullable();
    t.primary(['ip', 'list']);
  });
}
