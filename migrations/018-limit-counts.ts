/** Counts mails for any limit of an hour or a day where only those of warm-ups were counted. */
import type { Knex } from 'knex';

const statements = [
  `CREATE TABLE limit_counts (
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    span TEXT NOT NULL,
    stage INTEGER NOT NULL,
    sent BIGINT NOT NULL,
    blocked BIGINT NOT NULL,
    deferred BIGINT NOT NULL,
    complained BIGINT NOT NULL,
    PRIMARY KEY (rule, subject, span)
  )`,
  'CREATE INDEX limit_counts_by_span ON limit_counts (span)',
  `INSERT INTO limit_counts (rule, subject, span, stage, sent, blocked, deferred, complained)
   SELECT '~warm-up', source || ' ' || site, day, stage, sent, blocked, deferred, complained FROM warm_up`,
  'DROP TABLE warm_up',
];

export async function up(knex: Knex): Promise<void> {
  for (const statement of statements) await knex.raw(statement);
}
