/**
 * Which bounced deliveries were sent again, so that nobody gets the same mail twice however often it is asked for; and who has set a
 * hold or limit.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`CREATE TABLE resends (message_id TEXT NOT NULL, delivery_id TEXT NOT NULL, resent_as TEXT NOT NULL,
    at BIGINT NOT NULL, PRIMARY KEY (message_id, delivery_id)) WITHOUT ROWID`);
  await knex.raw('ALTER TABLE holds ADD COLUMN created_by TEXT');
}
