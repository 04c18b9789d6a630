/** The audit says which operation it was, what it was done to, how that was before and after, and all of it in a sentence. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  for (const column of ['operation', 'object_type', 'object_id', 'before_json', 'after_json', 'summary'])
    await knex.raw(`ALTER TABLE audit ADD COLUMN ${column} TEXT`);
}
