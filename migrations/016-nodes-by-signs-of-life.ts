/** Nodes are known by their signs of life alone: what was kept of their processes goes. Only PostgreSQL has the table. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  if (!(await knex.schema.hasTable('nodes'))) return;
  for (const column of ['machine', 'pid', 'process'])
    await knex.raw(`ALTER TABLE nodes DROP COLUMN IF EXISTS ${column}`);
}
