/**
 * Brings a database of the last schema that was made in many steps (036-resends) to 001-schema: message blocks and sums of hours and days
 * go, and the audit says what an operation was done to.
 */
import type { Knex } from 'knex';

const triggers = [
  'message_blocks_reopened',
  'message_changed',
  'event_sums_added',
  'event_sums_counted',
  'event_sums_gone',
];
const tables = ['message_blocks', 'message_sets', 'message_changes', 'event_sums'];
const auditColumns = ['operation', 'object_type', 'object_id', 'before_json', 'after_json', 'summary'];

export async function up(knex: Knex): Promise<void> {
  for (const trigger of triggers) await knex.raw(`DROP TRIGGER ${trigger}`);
  for (const table of tables) await knex.schema.dropTable(table);
  for (const column of auditColumns) await knex.raw(`ALTER TABLE audit ADD COLUMN ${column} TEXT`);
}
