/** Sources: what each has sent while it is warmed up, and where a block list keeps it out. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('warm_up', (t) => {
    t.text('source').notNullable();
    t.text('site').notNullable();
    t.text('day').notNullable();
    t.integer('stage').notNullable();
    t.integer('sent').notNullable();
    t.integer('blocked').notNullable();
    t.integer('deferred').notNullable();
    t.integer('complained').notNullable();
    t.primary(['source', 'site', 'day']);
    t.index(['day'], 'warm_up_by_day');
  });
  await knex.schema.createTable('source_blocks', (t) => {
    t.text('source').notNullable();
    t.text('site').notNullable();
    t.bigInteger('since').notNullable();
    t.bigInteger('until').notNullable();
    t.text('reply').notNullable();
    t.primary(['source', 'site']);
  });
}
