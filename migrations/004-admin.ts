/** What an account may set for itself, and what holds its mail: pauses of accounts and of streams. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('account_settings', (t) => {
    t.text('account_id').primary().references('accounts.id');
    t.integer('track_opens');
    t.integer('track_clicks');
    t.integer('content_days');
    t.integer('messages_days');
    t.integer('events_days');
    t.bigInteger('updated_at').notNullable();
  });
  await knex.schema.alterTable('accounts', (t) => {
    t.integer('paused').notNullable().defaultTo(0);
  });
  await knex.schema.alterTable('streams', (t) => {
    t.integer('paused').notNullable().defaultTo(0);
  });
}
