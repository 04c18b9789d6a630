import assert from 'node:assert/strict';
import { addTo, takeFrom } from '../../src/base/sets.ts';

describe('base/sets', () => {
  it('keeps the items of each name, and no empty set', () => {
    const sets = new Map<string, Set<number>>();
    for (const [name, item] of [
      ['a', 1],
      ['a', 2],
      ['a', 2],
      ['b', 3],
    ] as const)
      addTo(sets, name, item);
    assert.deepEqual(
      [...sets].map(([name, items]) => [name, [...items]]),
      [
        ['a', [1, 2]],
        ['b', [3]],
      ],
    );
    takeFrom(sets, 'b', 3);
    takeFrom(sets, 'a', 1);
    takeFrom(sets, 'unknown', 1);
    assert.deepEqual(
      [...sets].map(([name, items]) => [name, [...items]]),
      [['a', [2]]],
    );
  });
});
