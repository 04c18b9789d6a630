import assert from 'node:assert/strict';
import { insertRows, mergeRows } from '../../src/storage/rows.ts';
import type { Connection } from '../../src/storage/connection.ts';
import { acceptedCounter } from '../support/harness/mail-rows.ts';

describe('storage/rows: rows with one key', () => {
  it('are added up, without changing what was handed in', () => {
    const rows = [
      { day: 'a', n: 1 },
      { day: 'b', n: 2 },
      { day: 'a', n: 3 },
    ];
    const before = structuredClone(rows);
    assert.deepEqual(mergeRows(rows, { key: ['day'], adds: ['n'] }), [
      { day: 'a', n: 4 },
      { day: 'b', n: 2 },
    ]);
    assert.deepEqual(rows, before);
  });

  it('leave the last where a row is replaced, and the first where it stays', () => {
    const rows = [
      { day: 'a', text: 'first' },
      { day: 'a', text: 'last' },
    ];
    assert.deepEqual(mergeRows(rows, { key: ['day'], sets: ['text'] }), [{ day: 'a', text: 'last' }]);
    assert.deepEqual(mergeRows(rows, { key: ['day'] }), [{ day: 'a', text: 'first' }]);
    assert.deepEqual(mergeRows(rows, { key: ['day'], sets: ['text'], where: 'old.end < new.begin' }), [
      { day: 'a', text: 'first' },
    ]);
  });

  it('are told apart by every column of the key', () => {
    const rows = [
      { a: 'x', b: 'yz', n: 1 },
      { a: 'xy', b: 'z', n: 1 },
    ];
    assert.equal(mergeRows(rows, { key: ['a', 'b'], adds: ['n'] }).length, 2);
  });

  it('go to PostgreSQL in the order of their keys: transactions that meet them in another would wait for each other', async () => {
    const written: string[] = [];
    const connection: Connection = {
      engine: 'postgres',
      all: () => Promise.resolve([]),
      run: (_, values = []) => Promise.resolve(void written.push(String(values.at(-1)))),
      close: () => Promise.resolve(),
    };
    const rows = ['b', 'c', 'a'].map((account) => acceptedCounter(1, 'queued', account));
    await insertRows(connection, [{ counters: rows }]);
    await insertRows(connection, [{ counters: [...rows].reverse() }]);
    const [first, second] = written;
    assert.ok(first !== undefined && first.length > 0);
    assert.equal(first, second);
  });
});
