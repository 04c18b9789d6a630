/** Webhook endpoints, the events they are still owed, the log of every call, and replays. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('webhooks', (t) => {
    t.text('id').primary();
    t.text('account_id').notNullable().references('accounts.id');
    t.text('url').notNullable();
    t.text('description').notNullable();
    t.text('events_json').notNullable();
    t.text('streams_json').notNullable();
    t.text('domains_json').notNullable();
    t.integer('include_machine_events').notNullable();
    t.integer('include_engagement').notNullable();
    t.integer('concurrency').notNullable();
    t.text('header_names_json').notNullable();
    t.text('headers_sealed');
    t.text('secrets_sealed').notNullable();
    t.text('status').notNullable();
    t.text('disabled_reason');
    t.bigInteger('cursor').notNullable();
    t.integer('failures').notNullable();
    t.bigInteger('failing_since');
    t.bigInteger('warned_at');
    t.bigInteger('last_success_at');
    t.bigInteger('last_failure_at');
    t.bigInteger('created_at').notNullable();
    t.text('created_by').notNullable();
    t.bigInteger('updated_at').notNullable();
    t.unique(['account_id', 'url'], { indexName: 'webhooks_by_url' });
    t.index(['account_id', 'id'], 'webhooks_by_account');
  });

  // Only calls that failed are rows; what was never tried is the part of the event log beyond the endpoint's cursor.
  await knex.schema.createTable('webhook_calls', (t) => {
    t.text('webhook_id').notNullable();
    t.bigInteger('sequence').notNullable();
    t.text('cause').notNullable();
    t.integer('attempts').notNullable();
    t.bigInteger('due_at');
    t.bigInteger('created_at').notNullable();
    t.primary(['webhook_id', 'sequence']);
    t.index(['webhook_id', 'due_at'], 'webhook_calls_due', { predicate: knex.whereNotNull('due_at') });
    t.index(['created_at'], 'webhook_calls_given_up', { predicate: knex.whereNull('due_at') });
  });

  await knex.schema.createTable('webhook_deliveries', (t) => {
    // Rows are written in the order of time, so the oldest are at one end.
    t.increments('position');
    t.text('id').notNullable();
    t.text('webhook_id').notNullable();
    t.text('event_id').notNullable();
    t.text('event_type').notNullable();
    t.bigInteger('sequence');
    t.text('cause').notNullable();
    t.integer('attempt').notNullable();
    t.bigInteger('at').notNullable();
    t.integer('ms').notNullable();
    t.text('status').notNullable();
    t.integer('status_code');
    t.text('error');
    t.text('answer');
    t.text('signature').notNullable();
    t.text('sample');
    t.bigInteger('next_attempt_at');
    t.index(['webhook_id', 'id'], 'webhook_deliveries_by_endpoint');
    t.index(['webhook_id', 'id'], 'webhook_deliveries_failed', { predicate: knex.whereNotNull('error') });
  });

  await knex.schema.createTable('webhook_replays', (t) => {
    t.text('id').primary();
    t.text('webhook_id').notNullable();
    t.text('account_id').notNullable();
    t.bigInteger('since').notNullable();
    t.bigInteger('until').notNullable();
    t.text('which').notNullable();
    t.text('types_json').notNullable();
    t.text('status').notNullable();
    t.bigInteger('position').notNullable();
    t.bigInteger('end_position').notNullable();
    t.integer('queued').notNullable();
    t.bigInteger('created_at').notNullable();
    t.bigInteger('finished_at');
    t.index(['webhook_id', 'id'], 'webhook_replays_by_endpoint');
  });
}
