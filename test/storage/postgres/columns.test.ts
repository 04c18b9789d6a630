/** Both engines have the same tables with the same columns, and the indexes that queries name. */
import assert from 'node:assert/strict';
import { openDatabase, type Database } from '../../../src/storage/database.ts';
import { OWN_TABLES, PART } from '../../../src/storage/postgres/own-tables.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../../support/harness/postgres.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

describe('storage: the schema on both engines', () => {
  let file: TempDatabase;
  let server: Database;

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    server = await openDatabase({ url: urlOf(folder, await makeDatabase()) });
    file = await openTempDatabase('sqlite');
  });
  after(async () => {
    if (postgresPrograms() === null) return;
    await server.close();
    await file.close();
  });

  /** Returns the lines but for what only one engine has. */
  const common = (lines: readonly { line: string }[]): string[] =>
    lines
      .map(({ line }) => line)
      .filter(
        (line) => !/^(?:sqlite_|migrations)/.test(line) && !OWN_TABLES.some((name) => line.startsWith(`${name}.`)),
      )
      .filter((line) => !line.endsWith(`.${PART}`) && !line.endsWith('.rowid'))
      .sort();

  it('has the same columns in each table, in the same order', async () => {
    const ofFile = await file.db.prepared.all<{ line: string }>(
      `SELECT m.name || '.' || c.name AS line FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'`,
    );
    const ofServer = await server.prepared.all<{ line: string }>(
      `SELECT c.table_name || '.' || c.column_name AS line FROM information_schema.columns c
       JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
       WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'`,
    );
    assert.ok(ofFile.length > 400);
    assert.deepEqual(common(ofServer), common(ofFile));
  });

  it('has the same indexes on each table', async () => {
    const ofFile = await file.db.prepared.all<{ line: string }>(
      `SELECT tbl_name || '.' || name AS line FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL`,
    );
    const ofServer = await server.prepared.all<{ line: string }>(
      `SELECT tablename || '.' || indexname AS line FROM pg_indexes
       WHERE schemaname = current_schema() AND indexname NOT LIKE '%\\_pkey' AND indexname NOT LIKE '%\\_parts'`,
    );
    assert.deepEqual(common(ofServer), common(ofFile));
  });

  it('has the tables of the servers on PostgreSQL only', async () => {
    for (const name of OWN_TABLES) await server.prepared.all(`SELECT COUNT(*) FROM ${name}`);
  });
});
