/** What the rendered bodies of a bulk send have in common: their template's source, of which each tells what it made of it. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('content_bases', (t) => {
    t.text('id').primary();
    t.text('html');
    t.text('text');
  });
  await knex.schema.alterTable('contents', (t) => {
    t.text('base_id');
    t.index(['base_id'], 'contents_by_base', { predicate: knex.whereNotNull('base_id') });
  });
}
