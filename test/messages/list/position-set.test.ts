import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  BLOCK_SIZE,
  decodePositions,
  encodePositions,
  intersect,
  positionsIn,
} from '../../../src/messages/list/position-set.ts';

const set = fc.uniqueArray(fc.nat(BLOCK_SIZE - 1), { maxLength: 600 }).map((all) => all.sort((a, b) => a - b));

describe('messages/position-set', () => {
  it('gives back what went in, few or many', () => {
    const edges = [[], [0], [BLOCK_SIZE - 1], [31, 32, 63, 64], Array.from({ length: BLOCK_SIZE }, (_, at) => at)];
    for (const positions of edges)
      assert.deepEqual(positionsIn(decodePositions(encodePositions(positions))), positions);
    fc.assert(
      fc.property(set, (positions) => {
        const bytes = encodePositions(positions);
        assert.ok(bytes.length <= BLOCK_SIZE / 8);
        assert.deepEqual(positionsIn(decodePositions(bytes)), positions);
      }),
    );
  });

  it('leaves what is in both', () => {
    fc.assert(
      fc.property(set, set, (one, other) => {
        const bitmap = decodePositions(encodePositions(one));
        const both = one.filter((position) => other.includes(position));
        assert.equal(intersect(bitmap, decodePositions(encodePositions(other))), both.length > 0);
        assert.deepEqual(positionsIn(bitmap), both);
      }),
    );
  });
});
