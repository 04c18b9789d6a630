/**
 * The request log as it was asked: the path with its ids, the field that was refused, the idempotency key; and for a shorter time the
 * query, the text of the error and the redacted body. Two indexes keep acts on the server apart from uses of unknown keys.
 */
import type { Knex } from 'knex';

const statements: readonly string[] = [
  'ALTER TABLE audit ADD COLUMN path TEXT',
  'ALTER TABLE audit ADD COLUMN error_field TEXT',
  'ALTER TABLE audit ADD COLUMN idempotency_key TEXT',
  'CREATE INDEX audit_of_server ON audit (id) WHERE account_id IS NULL AND summary IS NOT NULL',
  'CREATE INDEX audit_of_strangers ON audit (id) WHERE account_id IS NULL AND summary IS NULL',
  `CREATE TABLE request_details (
    request_id TEXT,
    account_id TEXT,
    query TEXT,
    error_message TEXT,
    body TEXT,
    PRIMARY KEY (request_id)
  ) WITHOUT ROWID`,
];

export async function up(knex: Knex): Promise<void> {
  for (const statement of statements) await knex.raw(statement);
}
