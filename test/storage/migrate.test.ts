import assert from 'node:assert/strict';
import { migrationNames, migrationState } from '../../src/storage/migrate.ts';
import { openTempDatabase } from '../support/temp-database.ts';

describe('storage/migrate', () => {
  it('names its steps without a file’s ending, and knows which were taken', async () => {
    const temp = await openTempDatabase();
    assert.equal(migrationNames[0], '001-ground');
    assert.deepEqual(temp.db.migrated, migrationNames);
    assert.deepEqual(
      await migrationState(temp.db.read),
      migrationNames.map((name) => ({ name, taken: true })),
    );
    await temp.close();
  });
});
