/**
 * Mail that comes to us: submitted messages, which are kept as they came; and reports (bounces, complaints, unsubscribe wishes),
 * kept raw until they are old. `deliveries.lead` marks the recipient whose status the message shows.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('contents', (t) => {
    t.binary('raw');
  });
  await knex.schema.alterTable('deliveries', (t) => {
    t.integer('lead').notNullable().defaultTo(0);
  });
  await knex('deliveries').where({ type: 'to' }).update({ lead: 1 });
  // Own ids stand in the id of the message: only those that came with a submitted mail have to be looked up.
  await knex.raw(
    "CREATE INDEX messages_by_rfc_id ON messages (rfc_message_id) WHERE substr(rfc_message_id, 1, 5) <> '<msg_'",
  );
  await knex.schema.createTable('reports', (t) => {
    t.text('id').primary();
    t.bigInteger('received_at').notNullable();
    t.text('client_ip').notNullable();
    t.text('sender').notNullable();
    t.text('recipients_json').notNullable();
    t.integer('size').notNullable();
    t.text('state').notNullable();
    t.text('kind');
    t.text('account_id');
    t.text('message_id');
    t.text('delivery_id');
    t.text('detail_json').notNullable();
    t.binary('raw').notNullable();
    t.index(['received_at'], 'reports_by_time');
    t.index(['message_id'], 'reports_by_message', { predicate: knex.whereNotNull('message_id') });
    t.index(['id'], 'reports_to_read', { predicate: knex.whereNull('kind') });
  });
}
