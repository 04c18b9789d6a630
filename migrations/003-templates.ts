/** Templates with their versions. A version never changes: what was sent with it can be made again. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.schema.createTable('templates', (t) => {
    t.text('id').primary();
    t.text('account_id').notNullable().references('accounts.id');
    t.text('alias');
    t.text('name').notNullable();
    t.integer('latest_version').notNullable();
    t.integer('published_version');
    t.bigInteger('created_at').notNullable();
    t.bigInteger('updated_at').notNullable();
    t.bigInteger('published_at');
    t.unique(['account_id', 'alias'], { indexName: 'templates_by_alias' });
    t.index(['account_id', 'id'], 'templates_by_account');
  });

  await knex.schema.createTable('template_versions', (t) => {
    t.text('template_id').notNullable().references('templates.id').onDelete('CASCADE');
    t.integer('version').notNullable();
    t.text('subject');
    t.text('from_text');
    t.text('reply_to_json').notNullable();
    t.text('html');
    t.text('text');
    t.text('variables_json').notNullable();
    t.text('locale').notNullable();
    t.text('timezone').notNullable();
    t.integer('strict').notNullable();
    t.bigInteger('created_at').notNullable();
    t.primary(['template_id', 'version']);
  });
}
