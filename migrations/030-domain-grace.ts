/**
 * A verified domain that loses a required DNS record keeps sending for some time. Its row says since when the record has been missing,
 * when the records were found again, from when on its mail is refused, and whether its people were told.
 */
import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  for (const column of ['failing_since', 'found_again_at', 'refused_at', 'told_at'])
    await knex.raw(`ALTER TABLE domains ADD COLUMN ${column} BIGINT`);
}
