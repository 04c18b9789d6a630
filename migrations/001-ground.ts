/** The ground: accounts, keys, domains, messages with their deliveries, the event log, audit, and the books. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('settings', (t) => {
    t.text('name').primary();
    t.text('value').notNullable();
  });

  await knex.schema.createTable('accounts', (t) => {
    t.text('id').primary();
    t.text('name').notNullable().unique();
    t.text('plan').notNullable();
    t.bigInteger('created_at').notNullable();
  });

  await knex.schema.createTable('api_keys', (t) => {
    t.text('id').primary();
    t.text('account_id').notNullable().references('accounts.id');
    t.text('name').notNullable();
    t.text('mode').notNullable();
    t.text('public_id').notNullable().unique();
    t.text('hash').notNullable();
    t.text('scopes_json').notNullable();
    t.text('domains_json').notNullable();
    t.text('allowed_ips_json').notNullable();
    t.bigInteger('expires_at');
    t.bigInteger('created_at').notNullable();
    t.text('created_by').notNullable();
    t.bigInteger('revoked_at');
    t.bigInteger('last_used_at');
    t.text('last_used_ip');
    t.index(['account_id', 'id'], 'api_keys_by_account');
  });

  await knex.schema.createTable('domains', (t) => {
    t.text('id').primary();
    t.text('account_id').notNullable().references('accounts.id');
    t.text('name').notNullable().unique();
    t.text('status').notNullable();
    t.integer('trusted').notNullable();
    t.text('return_path').notNullable();
    t.integer('track_opens');
    t.integer('track_clicks');
    t.text('records_json').notNullable();
    t.bigInteger('created_at').notNullable();
    t.bigInteger('verified_at');
    t.bigInteger('checked_at');
    t.index(['account_id', 'id'], 'domains_by_account');
  });

  await knex.schema.createTable('dkim_keys', (t) => {
    t.text('id').primary();
    t.text('domain_id').notNullable().references('domains.id');
    t.text('selector').notNullable();
    t.text('algorithm').notNullable();
    t.text('private_key_sealed').notNullable();
    t.text('public_key').notNullable();
    t.text('state').notNullable();
    t.bigInteger('created_at').notNullable();
    t.bigInteger('active_at');
    t.bigInteger('retired_at');
    t.unique(['domain_id', 'selector'], { indexName: 'dkim_keys_by_domain' });
  });

  await knex.schema.createTable('streams', (t) => {
    t.text('id').primary();
    t.text('account_id').notNullable().references('accounts.id');
    t.text('slug').notNullable();
    t.text('name').notNullable();
    t.text('type').notNullable();
    t.text('pool').notNullable();
    t.integer('priority').notNullable();
    t.bigInteger('created_at').notNullable();
    t.unique(['account_id', 'slug'], { indexName: 'streams_by_slug' });
  });

  await knex.schema.createTable('suppressions', (t) => {
    t.text('id').primary();
    t.text('account_id').notNullable().references('accounts.id');
    t.text('email').notNullable();
    t.text('address_key').notNullable();
    t.text('scope').notNullable();
    t.text('reason').notNullable();
    t.text('source_message_id');
    t.text('note');
    t.bigInteger('created_at').notNullable();
    t.text('created_by').notNullable();
    t.bigInteger('expires_at');
    t.unique(['account_id', 'address_key', 'scope'], { indexName: 'suppressions_by_address' });
  });

  await knex.schema.createTable('batches', (t) => {
    t.text('id').primary();
    t.text('account_id').notNullable().references('accounts.id');
    t.integer('accepted').notNullable();
    t.integer('rejected').notNullable();
    t.bigInteger('created_at').notNullable();
    t.index(['account_id', 'id'], 'batches_by_account');
  });

  // Foreign keys stop at the messages: checking one costs an index probe a row, and rows below are only written together
  // with their message, in one transaction.
  await knex.schema.createTable('contents', (t) => {
    t.text('id').primary();
    t.text('account_id').notNullable();
    t.text('html');
    t.text('text');
    t.integer('auto_text').notNullable();
    t.integer('attachment_count').notNullable();
    t.bigInteger('created_at').notNullable();
  });

  await knex.schema.createTable('attachments', (t) => {
    t.text('content_id').notNullable();
    t.integer('position').notNullable();
    t.text('filename').notNullable();
    t.text('content_type').notNullable();
    t.text('cid');
    t.text('disposition').notNullable();
    t.binary('bytes').notNullable();
    t.primary(['content_id', 'position']);
  });

  await knex.schema.createTable('messages', (t) => {
    t.text('id').primary();
    t.text('account_id').notNullable();
    t.text('key_id');
    t.text('batch_id');
    t.text('content_id').notNullable();
    t.text('from_name');
    t.text('from_address').notNullable();
    t.text('from_domain').notNullable();
    t.text('to_name');
    t.text('to_address').notNullable();
    t.text('cc_json').notNullable();
    t.text('bcc_json').notNullable();
    t.text('reply_to_json').notNullable();
    t.text('subject').notNullable();
    t.text('headers_json').notNullable();
    t.text('stream').notNullable();
    t.text('template_id');
    t.integer('template_version');
    t.text('tags_json').notNullable();
    t.text('metadata_json').notNullable();
    t.bigInteger('send_at');
    t.bigInteger('expires_at');
    t.integer('track_opens').notNullable();
    t.integer('track_clicks').notNullable();
    t.integer('test').notNullable();
    t.text('test_outcome');
    t.text('rfc_message_id').notNullable();
    t.text('request_id');
    t.bigInteger('created_at').notNullable();
    t.text('status').notNullable();
    t.bigInteger('status_at').notNullable();
    t.text('last_event_type');
    t.bigInteger('last_event_at');
    t.integer('opens').notNullable();
    t.integer('clicks').notNullable();
    t.bigInteger('first_opened_at');
    t.bigInteger('last_opened_at');
    t.bigInteger('first_clicked_at');
    t.integer('bot_opens').notNullable();
    t.integer('bot_clicks').notNullable();
    t.index(['account_id', 'id'], 'messages_by_account');
    t.index(['batch_id'], 'messages_by_batch', { predicate: knex.whereNotNull('batch_id') });
  });

  await knex.schema.createTable('deliveries', (t) => {
    t.text('id').primary();
    t.text('message_id').notNullable();
    t.text('account_id').notNullable();
    t.text('type').notNullable();
    t.text('name');
    t.text('address').notNullable();
    t.text('address_key').notNullable();
    t.text('domain').notNullable();
    t.integer('class').notNullable();
    t.integer('test').notNullable();
    t.text('status').notNullable();
    t.bigInteger('status_at').notNullable();
    t.bigInteger('due_at');
    t.bigInteger('queued_at').notNullable();
    t.bigInteger('give_up_at').notNullable();
    t.integer('attempt_count').notNullable();
    t.integer('claim_epoch');
    t.integer('no_domain_count').notNullable();
    t.bigInteger('no_domain_since');
    t.integer('smtp_code');
    t.text('enhanced_code');
    t.text('smtp_reply');
    t.text('mx');
    t.text('tls');
    t.index(['message_id'], 'deliveries_by_message');
    t.index(['address_key', 'message_id'], 'deliveries_by_address');
    // The queue itself: only what waits is in it, so it stays small however long the history grows.
    t.index(['domain', 'class', 'account_id', 'due_at', 'id'], 'deliveries_due', {
      predicate: knex.whereNotNull('due_at'),
    });
    t.index(['claim_epoch'], 'deliveries_claimed', { predicate: knex.whereNotNull('claim_epoch') });
  });

  await knex.schema.createTable('attempts', (t) => {
    t.text('id').notNullable();
    t.text('delivery_id').notNullable();
    t.text('message_id').notNullable();
    t.integer('number').notNullable();
    t.bigInteger('started_at').notNullable();
    t.bigInteger('ended_at').notNullable();
    t.text('mx');
    t.text('ip');
    t.text('source');
    t.text('tls_json');
    t.text('timings_json').notNullable();
    t.text('outcome').notNullable();
    t.integer('smtp_code');
    t.text('enhanced_code');
    t.text('smtp_reply');
    t.text('class');
    t.text('reason');
    t.bigInteger('next_attempt_at');
    t.index(['message_id', 'id'], 'attempts_by_message');
  });

  await knex.schema.createTable('events', (t) => {
    // AUTOINCREMENT on SQLite: a number is never given twice, or a purge would break every cursor.
    t.increments('sequence');
    t.text('id').notNullable().unique();
    t.text('account_id').notNullable();
    t.text('type').notNullable();
    t.bigInteger('at').notNullable();
    t.integer('test').notNullable();
    t.text('message_id').notNullable();
    t.text('delivery_id').notNullable();
    t.text('status').notNullable();
    t.integer('machine').notNullable();
    t.text('detail_json').notNullable();
    t.index(['message_id'], 'events_by_message');
  });

  await knex.schema.createTable('idempotency', (t) => {
    t.text('key').primary();
    t.text('body_hash').notNullable();
    t.integer('status').notNullable();
    t.text('headers_json').notNullable();
    t.text('body').notNullable();
    t.bigInteger('created_at').notNullable();
    t.bigInteger('expires_at').notNullable();
    t.index(['expires_at'], 'idempotency_by_end');
  });

  await knex.schema.createTable('audit', (t) => {
    t.text('id').primary();
    t.bigInteger('at').notNullable();
    t.text('account_id');
    t.text('key_id');
    t.text('actor').notNullable();
    t.text('ip');
    t.text('method').notNullable();
    t.text('endpoint').notNullable();
    t.integer('status').notNullable();
    t.text('result').notNullable();
    t.text('error_code');
    t.text('request_id').notNullable();
    t.float('ms').notNullable();
    t.integer('idempotency_replayed').notNullable();
    t.text('user_agent');
  });

  await knex.schema.createTable('counters', (t) => {
    t.text('account_id').notNullable();
    t.text('day').notNullable();
    t.text('from_status').notNullable();
    t.text('to_status').notNullable();
    t.bigInteger('n').notNullable();
    t.primary(['account_id', 'day', 'from_status', 'to_status']);
  });

  await knex.schema.createTable('message_tags', (t) => {
    t.text('account_id').notNullable();
    t.text('tag').notNullable();
    t.text('message_id').notNullable();
    t.primary(['account_id', 'tag', 'message_id']);
  });

  await knex.schema.createTable('message_metadata', (t) => {
    t.text('account_id').notNullable();
    t.text('name').notNullable();
    t.text('value').notNullable();
    t.text('message_id').notNullable();
    t.primary(['account_id', 'name', 'value', 'message_id']);
  });
}
