import assert from 'node:assert/strict';
import { mergeRows } from '../../src/storage/rows.ts';

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
});
