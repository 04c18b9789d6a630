/** Readers that are all taken are trouble that passes (503, 452), not a fault of the program's (500, 451). */
import assert from 'node:assert/strict';
import knex from 'knex';
import { isStorageTrouble } from '../../src/storage/commit.ts';

describe('storage: readers that are all taken', () => {
  it('are trouble that passes', () => {
    assert.equal(isStorageTrouble(new knex.KnexTimeoutError('Timeout acquiring a connection.')), true);
    assert.equal(isStorageTrouble(new Error('Timeout acquiring a connection.')), false);
  });
});
