/** Which aggregate reports (DMARC, TLS) have been counted, each once, however often and by however many ways it comes. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('aggregate_reports', (t) => {
    t.text('kind').notNullable();
    t.text('org').notNullable();
    t.text('report_key').notNullable();
    t.text('domain').notNullable();
    t.bigInteger('from_at').notNullable();
    t.text('report_id').notNullable();
    t.primary(['kind', 'org', 'report_key', 'domain', 'from_at']);
    t.index(['from_at'], 'aggregate_reports_by_time');
  });
  for (const [kind, table] of [
    ['dmarc', 'dmarc_rows'],
    ['tls', 'tls_report_rows'],
  ] as const)
    await knex.raw(
      `INSERT INTO aggregate_reports (kind, org, report_key, domain, from_at, report_id)
       SELECT '${kind}', org, report_key, domain, from_at, MIN(report_id) FROM ${table} GROUP BY org, report_key, domain, from_at`,
    );
}
