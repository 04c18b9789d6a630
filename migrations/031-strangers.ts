/**
 * Budgets for strangers. Mails that came to us are counted by size in two stores, each with an index of its own; what receivers
 * reported goes by when it arrived, which its id tells, no longer by when it says to be from. An older version took periods of the
 * future, which it would never have removed: they go now.
 */
import type { Knex } from 'knex';

const NOT_AHEAD = "(CAST(strftime('%s', 'now', '+2 days') AS INTEGER) * 1000)";
const LOOSE = "(delivery_id IS NULL OR state = 'unverified')";

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`CREATE INDEX reports_loose ON reports (id, length(raw)) WHERE ${LOOSE}`);
  await knex.raw(`CREATE INDEX reports_matched ON reports (id, length(raw)) WHERE NOT ${LOOSE}`);
  await knex.raw('DROP INDEX dmarc_rows_by_report');
  await knex.raw('DROP INDEX tls_report_rows_by_report');
  await knex.raw('DROP INDEX aggregate_reports_by_time');
  await knex.raw('CREATE INDEX aggregate_reports_by_mail ON aggregate_reports (report_id)');
  for (const table of ['dmarc_rows', 'tls_report_rows', 'aggregate_reports'])
    await knex.raw(`DELETE FROM ${table} WHERE from_at > ${NOT_AHEAD}`);
}
