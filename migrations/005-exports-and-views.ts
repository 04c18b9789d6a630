/** Adds exports, which a rule of housekeeping writes as CSV files, and views, which are saved filters of the dashboard's pages. */
import type { Knex } from 'knex';

const statements = [
  `CREATE TABLE export_files (
    id TEXT,
    account_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    query_json TEXT NOT NULL,
    state TEXT NOT NULL,
    rows_done BIGINT NOT NULL,
    bytes_done BIGINT NOT NULL,
    cursor TEXT,
    is_cut INTEGER NOT NULL,
    error TEXT,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    touched_at BIGINT NOT NULL,
    finished_at BIGINT,
    FOREIGN KEY (account_id) REFERENCES accounts (id),
    PRIMARY KEY (id)
  )`,
  'CREATE INDEX export_files_by_account ON export_files (account_id, id)',
  `CREATE INDEX export_files_to_do ON export_files (touched_at) WHERE state IN ('waiting', 'running')`,
  `CREATE TABLE saved_views (
    id TEXT,
    account_id TEXT NOT NULL,
    page TEXT NOT NULL,
    name TEXT NOT NULL,
    query TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    FOREIGN KEY (account_id) REFERENCES accounts (id),
    PRIMARY KEY (id)
  )`,
  'CREATE UNIQUE INDEX saved_views_by_name ON saved_views (account_id, page, name)',
];

export async function up(knex: Knex): Promise<void> {
  for (const statement of statements) await knex.raw(statement);
}
