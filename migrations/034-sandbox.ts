/**
 * What test keys and several accounts on one server need: which bulk sends were simulated as a whole, which API key made the
 * request that an Idempotency-Key stands for, and names of domains that are unique only once they are verified.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw('ALTER TABLE batches ADD COLUMN test INTEGER NOT NULL DEFAULT 0');
  await knex.raw(`UPDATE batches SET test = 1 WHERE EXISTS (SELECT 1 FROM messages m WHERE m.batch_id = batches.id)
    AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.batch_id = batches.id AND m.test = 0)`);
  await knex.raw('ALTER TABLE idempotency ADD COLUMN key_id TEXT');
  await knex.raw('DROP INDEX domains_name_unique');
  await knex.raw('CREATE UNIQUE INDEX domains_by_claim ON domains (name, account_id)');
  await knex.raw(`CREATE UNIQUE INDEX domains_by_verified_name ON domains (name) WHERE status = 'verified'`);
}
