import assert from 'node:assert/strict';
import fc from 'fast-check';
import { DueHeap } from '../../src/scheduling/due-heap.ts';

describe('scheduling/due-heap', () => {
  it('gives what is due, first things first, and nothing that is not', () => {
    const heap = new DueHeap<string>();
    assert.deepEqual([heap.nextAt(), heap.takeDue(100), heap.size], [null, undefined, 0]);
    for (const at of [30, 10, 20]) heap.add(at, `at ${at}`);
    assert.deepEqual([heap.nextAt(), heap.takeDue(9)], [10, undefined]);
    assert.deepEqual([heap.takeDue(20), heap.takeDue(20), heap.takeDue(20)], ['at 10', 'at 20', undefined]);
    assert.deepEqual([heap.size, heap.nextAt()], [1, 30]);
  });

  it('behaves like a sorted list', () => {
    const step = fc.oneof(
      fc.record({ add: fc.integer({ min: 0, max: 50 }) }),
      fc.record({ take: fc.integer({ min: 0, max: 60 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const heap = new DueHeap<number>();
        let list: number[] = [];
        for (const one of steps) {
          if ('add' in one) {
            heap.add(one.add, one.add);
            list = [...list, one.add].sort((a, b) => a - b);
          } else {
            const [first] = list;
            const expected = first !== undefined && first <= one.take ? first : undefined;
            if (expected !== undefined) list.shift();
            assert.equal(heap.takeDue(one.take), expected);
          }
          assert.deepEqual([heap.size, heap.nextAt()], [list.length, list[0] ?? null]);
        }
      }),
    );
  });
});
