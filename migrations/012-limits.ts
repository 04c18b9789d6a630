/** Keeps what receivers teach in one table, `limits`, and takes over the sources that block lists keep out. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`CREATE TABLE limits (
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    site TEXT NOT NULL,
    source TEXT NOT NULL,
    domain TEXT,
    account TEXT,
    set_by TEXT NOT NULL,
    connections BIGINT,
    ceiling BIGINT,
    per_minute BIGINT,
    known_per_minute BIGINT,
    until BIGINT NOT NULL,
    step BIGINT NOT NULL,
    since BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    refused_at BIGINT NOT NULL,
    cause TEXT NOT NULL,
    ended BIGINT NOT NULL,
    PRIMARY KEY (id)
  )`);
  await knex.raw('CREATE INDEX limits_by_change ON limits (changed_at)');
  // The site of a block was followed by the recipient domain where it was about one organisation of an operator: `site (domain)`.
  const rows = (await knex('source_blocks').select('*')) as Block[];
  for (const { source, site: place, since, until, reply } of rows) {
    const [site = '', domain = null] = place.replace(/\)$/, '').split(' (');
    await knex('limits').insert({
      ...{ id: `block_list ${site} ${source} ${domain ?? '*'} *`, kind: 'block_list', site, source, domain },
      ...{ set_by: 'receiver', until, step: 0, since, changed_at: since, refused_at: since, cause: reply, ended: 0 },
    });
  }
  await knex.schema.dropTable('source_blocks');
  // What nodes had reserved of receivers, on PostgreSQL.
  await knex.schema.dropTableIfExists('lanes');
}

interface Block {
  source: string;
  site: string;
  since: number;
  until: number;
  reply: string;
}
