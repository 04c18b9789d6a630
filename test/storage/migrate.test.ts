import assert from 'node:assert/strict';
import { migrationState } from '../../src/storage/migrate.ts';
import { openTempDatabase } from '../support/temp-database.ts';

describe('storage/migrate', () => {
  it('names its steps without a file’s ending, and knows which were taken', async () => {
    const temp = await openTempDatabase();
    assert.deepEqual(temp.db.migrated, ['001-ground']);
    assert.deepEqual(await migrationState(temp.db.read), [{ name: '001-ground', taken: true }]);
    await temp.close();
  });
});
