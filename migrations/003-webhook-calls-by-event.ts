/**
 * Adds an index on calls to webhook endpoints by their event, for the time line of a message. Events are numbered in ascending order, so each
 * row is added at the end of the index.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(
    'CREATE INDEX webhook_deliveries_by_event ON webhook_deliveries (sequence) WHERE sequence IS NOT NULL',
  );
}
