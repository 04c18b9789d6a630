/** Readers that are all taken are trouble that passes (503, 452), not a fault of the program's (500, 451). */
import assert from 'node:assert/strict';
import knex from 'knex';
import { isStorageTrouble } from '../../src/storage/commit.ts';

const silent = (): void => undefined;

describe('storage: readers that are all taken', () => {
  it('are trouble that passes', async () => {
    const pool = knex({
      client: 'sqlite3',
      connection: { filename: ':memory:' },
      useNullAsDefault: true,
      log: { warn: silent, error: silent, debug: silent, deprecate: silent },
      acquireConnectionTimeout: 5,
      pool: { min: 1, max: 1 },
    });
    const held = await pool.transaction();
    const error: unknown = await pool.raw('SELECT 1').then(
      () => assert.fail('there was a reader left'),
      (reason: unknown) => reason,
    );
    assert.equal(isStorageTrouble(error), true);
    await held.rollback();
    await pool.destroy();
    assert.equal(isStorageTrouble(new Error('SQLITE_CONSTRAINT')), false);
  });
});
