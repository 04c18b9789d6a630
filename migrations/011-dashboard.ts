/** People who sign in to the dashboard: members, the accounts they see, their sessions, sign-ins and set-up links; and two indexes that its lists need. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('members', (t) => {
    t.text('id').primary();
    t.text('email').notNullable();
    t.text('email_key').notNullable().unique({ indexName: 'members_by_email' });
    t.integer('is_admin').notNullable();
    t.text('password_hash');
    t.text('totp_sealed');
    t.bigInteger('totp_step');
    t.bigInteger('created_at').notNullable();
    t.text('created_by').notNullable();
    t.bigInteger('last_sign_in_at');
  });
  await knex.schema.createTable('memberships', (t) => {
    t.text('member_id').notNullable().references('members.id').onDelete('CASCADE');
    t.text('account_id').notNullable().references('accounts.id');
    t.primary(['member_id', 'account_id']);
  });
  await knex.schema.createTable('sessions', (t) => {
    t.text('token_hash').primary();
    t.text('id').notNullable();
    t.text('member_id').notNullable().references('members.id').onDelete('CASCADE');
    t.text('stage').notNullable();
    t.text('account_id');
    t.bigInteger('created_at').notNullable();
    t.bigInteger('seen_at').notNullable();
    t.text('ip').notNullable();
    t.text('user_agent');
    t.index(['member_id'], 'sessions_by_member');
    t.index(['seen_at'], 'sessions_by_seen');
  });
  await knex.schema.createTable('sign_ins', (t) => {
    t.text('id').primary();
    t.bigInteger('at').notNullable();
    t.text('email_key').notNullable();
    t.text('ip').notNullable();
    t.text('user_agent');
    t.text('result').notNullable();
    t.index(['email_key', 'at'], 'sign_ins_by_email');
    t.index(['ip', 'at'], 'sign_ins_by_address');
    t.index(['at'], 'sign_ins_by_time');
  });
  await knex.schema.createTable('setup_links', (t) => {
    t.text('token_hash').primary();
    t.text('member_id').references('members.id').onDelete('CASCADE');
    t.bigInteger('created_at').notNullable();
    t.bigInteger('expires_at').notNullable();
  });
  // Most mail is delivered; a list of the rest must not read all of that. What is queued, sent and delivered costs nothing here.
  await knex.schema.alterTable('messages', (t) => {
    t.index(['account_id', 'status', 'id'], 'messages_apart', {
      // SQLite allows no parameters here.
      predicate: knex.whereRaw(
        "status in ('scheduled', 'deferred', 'bounced', 'complained', 'suppressed', 'failed', 'canceled')",
      ),
    });
  });
  // What people did stands among a thousand times as many uses of keys; these rows alone make a short list.
  await knex.schema.alterTable('audit', (t) => {
    t.index(['account_id', 'id'], 'audit_of_people', { predicate: knex.whereNull('key_id') });
  });
}
