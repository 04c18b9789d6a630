import assert from 'node:assert/strict';
import fc from 'fast-check';
import { WaitingLine } from '../../src/scheduling/waiting-line.ts';

describe('scheduling/waiting-line', () => {
  it('gives shares their turns, and those of a share in the order in which they came', () => {
    const line = new WaitingLine<number>();
    for (const n of [1, 2, 3]) line.add('large', n);
    line.add('small', 4);
    assert.deepEqual([line.all, line.of('large'), line.of('none')], [4, 3, 0]);
    const taken = [1, 2, 3, 4, 5].map(() => line.next()?.item);
    assert.deepEqual(taken, [1, 4, 2, 3, undefined]);
    assert.deepEqual([line.all, line.of('large')], [0, 0]);
  });

  it('passes over shares that may not go', () => {
    const line = new WaitingLine<number>();
    line.add('a', 1);
    line.add('b', 2);
    const isB = (share: string): boolean => share === 'b';
    assert.deepEqual([line.next(isB), line.next(isB), line.all], [{ share: 'b', item: 2 }, undefined, 1]);
    assert.deepEqual(line.next(), { share: 'a', item: 1 });
  });

  it('gives everything back once, in the order of each share, whatever comes and goes', () => {
    const step = fc.oneof(fc.constantFrom('a', 'b', 'c'), fc.constant(null));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400, size: 'max' }), (steps) => {
        const line = new WaitingLine<number>();
        const waiting: Record<string, number[]> = { a: [], b: [], c: [] };
        for (const [n, share] of steps.entries())
          if (share !== null) {
            line.add(share, n);
            waiting[share]?.push(n);
          } else {
            const next = line.next();
            const all = Object.values(waiting).flat();
            assert.equal(next === undefined, all.length === 0);
            if (next !== undefined) assert.equal(waiting[next.share]?.shift(), next.item);
          }
        for (const [share, items] of Object.entries(waiting)) assert.equal(line.of(share), items.length);
        assert.equal(line.all, Object.values(waiting).flat().length);
      }),
    );
  });
});
