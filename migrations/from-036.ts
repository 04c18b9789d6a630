/**
 * Brings a database of the last schema that was made in many steps (036-resends) to 001-schema: message blocks and sums of hours and days
 * go, and the audit says what an operation was done to. Builds of one day made the same in steps of their own, 037-plain-lists and
 * 038-audit-objects: what such a database has taken is left out.
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

export async function up(knex: Knex, taken: readonly string[]): Promise<void> {
  if (!taken.includes('037-plain-lists')) {
    for (const trigger of triggers) await knex.raw(`DROP TRIGGER ${trigger}`);
    for (const table of tables) await knex.schema.dropTable(table);
  }
  if (!taken.includes('038-audit-objects'))
    for (const column of auditColumns) await knex.raw(`ALTER TABLE audit ADD COLUMN ${column} TEXT`);
}
