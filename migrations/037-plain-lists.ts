/**
 * Drops what lists and numbers were sped up with: blocks of messages (021, 026) and sums of hours and days (026). A list now looks at a
 * bounded part of an index, and numbers are read from their rows.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  // Dropping a table drops its indexes and the triggers on it; these triggers are on tables that stay.
  for (const trigger of [
    'message_blocks_reopened',
    'message_changed',
    'event_sums_added',
    'event_sums_counted',
    'event_sums_gone',
  ])
    await knex.raw(`DROP TRIGGER ${trigger}`);
  for (const table of ['message_blocks', 'message_sets', 'message_changes', 'event_sums'])
    await knex.schema.dropTable(table);
}
