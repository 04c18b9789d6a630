/** What the rest of the API reads by: lists of suppressions and of the audit log, newest first, per account. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('suppressions', (t) => {
    t.index(['account_id', 'id'], 'suppressions_by_account');
  });
  await knex.schema.alterTable('audit', (t) => {
    t.index(['account_id', 'id'], 'audit_by_account');
  });
}
