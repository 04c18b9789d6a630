/**
 * Transport security: what our TLS sessions came to and the reports about them (RFC 8460), the reports of others about us (TLS and
 * DMARC aggregate), and what a message asks of TLS (RFC 8689).
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('tls_sessions', (t) => {
    t.text('day').notNullable();
    t.text('domain').notNullable();
    t.text('policy').notNullable();
    t.text('result').notNullable();
    t.text('mx').notNullable();
    t.text('ip').notNullable();
    t.text('local_ip').notNullable();
    t.text('reason').notNullable();
    t.integer('sessions').notNullable();
    t.primary(['day', 'domain', 'policy', 'result', 'mx', 'ip', 'local_ip', 'reason']);
  });
  await knex.schema.createTable('tls_policies', (t) => {
    t.text('day').notNullable();
    t.text('domain').notNullable();
    t.text('policy').notNullable();
    t.text('strings_json').notNullable();
    t.text('mx_json').notNullable();
    t.primary(['day', 'domain', 'policy']);
  });
  await knex.schema.createTable('tls_reports', (t) => {
    t.text('day').notNullable();
    t.text('domain').notNullable();
    t.text('state').notNullable();
    t.bigInteger('due_at').notNullable();
    t.integer('tries').notNullable();
    t.text('detail');
    t.primary(['day', 'domain']);
  });
  await knex.raw("CREATE INDEX tls_reports_due ON tls_reports (due_at) WHERE state = 'planned'");
  await knex.schema.createTable('tls_report_rows', (t) => {
    t.text('id').primary();
    t.text('report_id').notNullable();
    t.text('org').notNullable();
    t.text('report_key').notNullable();
    t.text('domain').notNullable();
    t.bigInteger('from_at').notNullable();
    t.bigInteger('until_at').notNullable();
    t.text('policy').notNullable();
    t.text('result').notNullable();
    t.text('mx').notNullable();
    t.text('source_ip').notNullable();
    t.text('ip').notNullable();
    t.text('reason').notNullable();
    t.integer('sessions').notNullable();
    t.index(['from_at'], 'tls_report_rows_by_time');
    t.index(['org', 'report_key', 'domain'], 'tls_report_rows_by_report');
  });
  await knex.schema.createTable('dmarc_rows', (t) => {
    t.text('id').primary();
    t.text('report_id').notNullable();
    t.text('org').notNullable();
    t.text('report_key').notNullable();
    t.text('domain').notNullable();
    t.bigInteger('from_at').notNullable();
    t.bigInteger('until_at').notNullable();
    t.text('source_ip').notNullable();
    t.integer('count').notNullable();
    t.text('disposition').notNullable();
    t.text('dkim').notNullable();
    t.text('spf').notNullable();
    t.text('header_from').notNullable();
    t.text('envelope_from').notNullable();
    t.text('dkim_domain').notNullable();
    t.text('dkim_selector').notNullable();
    t.text('dkim_result').notNullable();
    t.text('spf_domain').notNullable();
    t.text('spf_result').notNullable();
    t.index(['from_at'], 'dmarc_rows_by_time');
    t.index(['org', 'report_key', 'domain'], 'dmarc_rows_by_report');
  });
  await knex.schema.alterTable('messages', (t) => {
    t.integer('require_tls');
  });
}
