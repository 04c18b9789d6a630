/** Operating the engine: holds and limits that the operator sets, mail marked as held, and what is known of mail hosts' TLS. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('holds', (t) => {
    t.text('id').primary();
    t.text('kind').notNullable();
    t.text('scope').notNullable();
    t.text('target').notNullable();
    t.text('account_id');
    t.integer('catches_new').notNullable();
    t.integer('connections');
    t.integer('per_minute');
    t.text('note');
    t.bigInteger('until');
    t.bigInteger('created_at').notNullable();
  });
  await knex.schema.alterTable('deliveries', (t) => {
    t.text('held_by');
    t.bigInteger('held_at');
  });
  // Few rows are held at a time; those are found by what holds them.
  await knex.raw('CREATE INDEX deliveries_held ON deliveries (held_by, id) WHERE held_by IS NOT NULL');
  await knex.schema.createTable('sts_policies', (t) => {
    t.text('domain').primary();
    t.text('policy_id').notNullable();
    t.text('policy_json').notNullable();
    t.bigInteger('fetched_at').notNullable();
    t.bigInteger('expires_at').notNullable();
  });
  await knex.schema.createTable('host_tls', (t) => {
    t.text('host').primary();
    t.text('workaround');
    t.bigInteger('workaround_until');
    t.bigInteger('offered_at');
  });
}
