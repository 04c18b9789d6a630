/** Readers that are all taken are trouble that passes (503, 452), not a fault of the program's (500, 451). */
import assert from 'node:assert/strict';
import knex from 'knex';
import { isStorageTrouble } from '../../src/storage/commit.ts';
import { connect } from '../../src/storage/database.ts';

describe('storage: readers that are all taken', () => {
  it('are trouble that passes', () => {
    assert.equal(isStorageTrouble(new knex.KnexTimeoutError('Timeout acquiring a connection.')), true);
    assert.equal(isStorageTrouble(new Error('Timeout acquiring a connection.')), false);
  });

  it('are trouble that passes where they close while a request waits for one', async () => {
    const readers = connect(':memory:', 1, []);
    const client = readers.client as {
      acquireConnection(): Promise<unknown>;
      releaseConnection(one: unknown): Promise<void>;
    };
    const taken = await client.acquireConnection();
    const waiting = assert.rejects(readers.raw('SELECT 1').then(), isStorageTrouble);
    const closed = readers.destroy();
    await client.releaseConnection(taken);
    await waiting;
    await closed;
  });
});
