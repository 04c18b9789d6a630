/** Numbers by hour and by day, kept in the transaction of the event they count: reading them never reads the events. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('stats', (t) => {
    t.text('account_id').notNullable();
    t.text('span').notNullable();
    t.bigInteger('at').notNullable();
    t.text('type').notNullable();
    t.integer('test').notNullable();
    t.text('stream').notNullable();
    t.text('domain').notNullable();
    t.text('provider').notNullable();
    t.text('tag').notNullable();
    t.bigInteger('n').notNullable();
    t.primary(['account_id', 'span', 'at', 'type', 'test', 'stream', 'domain', 'provider', 'tag']);
  });
}
