/** Keeps until when an endpoint asked not to be called. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw('ALTER TABLE webhooks ADD COLUMN rests_until BIGINT');
}
