import assert from 'node:assert/strict';
import fc from 'fast-check';
import { WaitingLine } from '../../src/scheduling/places.ts';

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

  it('has nobody twice in one share, and lets those go who wait no more', () => {
    const line = new WaitingLine<string>();
    for (const [share, item] of [
      ['a', 'x'],
      ['a', 'x'],
      ['b', 'x'],
      ['a', 'y'],
    ] as const)
      line.add(share, item);
    assert.deepEqual([line.all, line.of('a')], [3, 2]);
    line.delete('a', 'x');
    line.delete('a', 'x');
    line.delete('none', 'x');
    line.delete('b', 'x');
    assert.deepEqual([line.all, line.of('b'), line.next(), line.next()], [1, 0, { share: 'a', item: 'y' }, undefined]);
  });

  it('gives everything back once, in the order of each share, whatever comes and goes', () => {
    const share = fc.constantFrom('a', 'b', 'c');
    const step = fc.oneof(
      share.map((to) => ({ kind: 'add' as const, to })),
      fc.constant({ kind: 'next' as const }),
      fc.tuple(share, fc.nat(40)).map(([of, at]) => ({ kind: 'delete' as const, of, at })),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400, size: 'max' }), (steps) => {
        const line = new WaitingLine<number>();
        const waiting: Record<string, number[]> = { a: [], b: [], c: [] };
        for (const [n, one] of steps.entries())
          if (one.kind === 'add') {
            line.add(one.to, n);
            waiting[one.to]?.push(n);
          } else if (one.kind === 'delete') {
            const [gone] = waiting[one.of]?.splice(one.at, 1) ?? [];
            line.delete(one.of, gone ?? -1);
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
