/**
 * Numbers in one row for each hour and day of a stream, sending domain, provider and tag, where `stats` had one for each kind of
 * event besides: a twelfth of the rows to read and to write. Those of tags have a run of their own, so that nobody reads them along.
 * And rows of all mail together (`whole_hour`, `whole_day`), for what is asked for most.
 */
import type { Knex } from 'knex';

/** As in storage/tables.ts at the time of writing; a migration never changes. */
const types = [
  'sent',
  'delivered',
  'deferred',
  'bounced',
  'bounced_hard',
  'bounced_soft',
  'bounced_block',
  'complained',
  'suppressed',
  'failed',
  'opened',
  'unique_opened',
  'machine_opened',
  'clicked',
  'unique_clicked',
  'machine_clicked',
  'unsubscribed',
];

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`CREATE TABLE event_counts (
    account_id TEXT NOT NULL, span TEXT NOT NULL, test INTEGER NOT NULL, tag TEXT NOT NULL, at BIGINT NOT NULL,
    stream TEXT NOT NULL, domain TEXT NOT NULL, provider TEXT NOT NULL, ${types.map((type) => `${type} BIGINT NOT NULL`).join(', ')},
    PRIMARY KEY (account_id, span, test, tag, at, stream, domain, provider)
  ) WITHOUT ROWID`);
  await knex.raw("CREATE INDEX event_counts_of_tags ON event_counts (account_id, span, test, at) WHERE tag <> ''");
  const sums = types.map((type) => `SUM(CASE type WHEN '${type}' THEN n ELSE 0 END)`).join(', ');
  const target = `INSERT INTO event_counts (account_id, span, test, tag, at, stream, domain, provider, ${types.join(', ')})`;
  await knex.raw(`${target} SELECT account_id, span, test, tag, at, stream, domain, provider, ${sums} FROM stats
    GROUP BY account_id, span, test, tag, at, stream, domain, provider`);
  await knex.raw(`${target} SELECT account_id, 'whole_' || span, test, '', at, '', '', '', ${sums} FROM stats
    WHERE tag = '' GROUP BY account_id, span, test, at`);
  await knex.schema.dropTable('stats');
}
