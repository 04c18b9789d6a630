/**
 * Whether another message of a bulk send needs the same content is one look into an index: what is deleted for its age asks it for
 * each message, and read the whole bulk send each time before.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw('DROP INDEX messages_by_batch');
  await knex.raw('CREATE INDEX messages_by_batch ON messages (batch_id, content_id, id) WHERE batch_id IS NOT NULL');
}
