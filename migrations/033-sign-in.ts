/**
 * Tries to sign in are counted by where they come from: the network of the address, the known device, or the session in which
 * somebody gives the password again. Members with a second factor get recovery codes.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('sign_ins', (t) => {
    t.text('source').notNullable().defaultTo('');
    t.dropIndex(['ip', 'at'], 'sign_ins_by_address');
    t.index(['source', 'at'], 'sign_ins_by_source');
  });
  await knex.raw('UPDATE sign_ins SET source = ip');
  await knex.schema.createTable('recovery_codes', (t) => {
    t.text('code_hash').primary();
    t.text('member_id').notNullable().references('members.id').onDelete('CASCADE');
    t.bigInteger('created_at').notNullable();
    t.bigInteger('used_at');
    t.index(['member_id'], 'recovery_codes_by_member');
  });
}
