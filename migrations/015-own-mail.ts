/**
 * Mail of our own: notices of failure to those who only speak SMTP, and what is forwarded to the operator. It leaves with the
 * null sender (`messages.null_sender`); `messages.notice_to` says who is to be told where a mail has failed in the end.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.alterTable('messages', (t) => {
    t.text('notice_to');
    t.integer('null_sender').notNullable().defaultTo(0);
  });
  // Asked for each mail to the operator: how many were forwarded lately.
  await knex.raw("CREATE INDEX reports_forwarded ON reports (received_at) WHERE state = 'forwarded'");
}
