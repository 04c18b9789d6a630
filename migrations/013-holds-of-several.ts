/** Lets a hold name several properties of the mail: each of these narrows what `scope` and `target` say. */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  for (const column of ['domain', 'stream', 'key_id', 'tag'])
    await knex.raw(`ALTER TABLE holds ADD COLUMN ${column} TEXT`);
}
