/** Gives members a role. Administrators keep theirs; all others become developers, who have the rights that members had. */
import type { Knex } from 'knex';

const statements = [
  "ALTER TABLE members ADD COLUMN role TEXT NOT NULL DEFAULT 'developer'",
  "UPDATE members SET role = 'administrator' WHERE is_admin = 1",
  'ALTER TABLE members DROP COLUMN is_admin',
  'ALTER TABLE setup_links ADD COLUMN message_id TEXT',
];

export async function up(knex: Knex): Promise<void> {
  for (const statement of statements) await knex.raw(statement);
}
