import assert from 'node:assert/strict';
import { migrationNames, migrationState } from '../../src/storage/migrate.ts';
import { tables } from '../../src/storage/tables.ts';
import { openTempDatabase } from '../support/harness/temp-database.ts';

describe('storage/migrate', () => {
  it('names its steps without a file’s ending, and knows which were taken', async () => {
    const temp = await openTempDatabase('sqlite');
    assert.equal(migrationNames[0], '001-schema');
    assert.deepEqual(temp.db.migrated, migrationNames);
    assert.deepEqual(await migrationState(temp.db.reader), { taken: migrationNames, missing: [] });
    await temp.close();
  });

  /** Numbers that the database gives. */
  const given: Partial<Record<string, readonly string[]>> = { events: ['sequence'], webhook_deliveries: ['position'] };

  it('makes the tables and columns that tables.ts describes, and no others', async () => {
    const temp = await openTempDatabase('sqlite');
    const rows = await temp.db.prepared.all<{ at: string; column: string }>(
      `SELECT m.name AS at, c.name AS column FROM sqlite_master m, pragma_table_info(m.name) c
       WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'migrations%'`,
    );
    const described = Object.entries(tables).flatMap(([name, { columns }]) =>
      [...Object.keys(columns), ...(given[name] ?? [])].map((column) => `${name}.${column}`),
    );
    assert.deepEqual(rows.map(({ at, column }) => `${at}.${column}`).sort(), described.sort());
    await temp.close();
  });
});
