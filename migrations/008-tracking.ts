/** What acceptance decided about tracking and unsubscribing: later tries must send the same bytes, whatever was changed since. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('messages', (t) => {
    t.text('tracking_url');
    t.text('unsubscribe_json');
  });
}
