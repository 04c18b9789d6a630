/**
 * Drops the figures that SQLite's query planner had of tables. The indexes are made for its built-in rules; where figures said that a table has
 * a few dozen rows, statements that are given a list read all of it for each value, and went on doing so while it grew.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  if (await knex.schema.hasTable('sqlite_stat1')) await knex.raw('DROP TABLE sqlite_stat1');
}
