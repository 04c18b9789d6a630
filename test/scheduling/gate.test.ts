import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createGate } from '../../src/scheduling/gate.ts';

describe('scheduling/gate', () => {
  it('lets so many in, the next in the order they came, and refuses beyond', async () => {
    const gate = createGate({ most: 2, waiting: 2 });
    const [one, two] = [await gate.enter(), await gate.enter()];
    const order: string[] = [];
    const third = Promise.resolve(gate.enter()).then((leave) => {
      order.push('third');
      return leave;
    });
    const fourth = Promise.resolve(gate.enter()).then((leave) => {
      order.push('fourth');
      return leave;
    });
    assert.equal(await gate.enter(), null);
    assert.deepEqual(gate.sizes(), { inside: 2, waiting: 2 });
    one?.();
    (await third)?.();
    (await fourth)?.();
    assert.deepEqual(order, ['third', 'fourth']);
    two?.();
    assert.deepEqual(gate.sizes(), { inside: 0, waiting: 0 });
    assert.throws(() => two?.(), /twice/);
  });

  /** A caller takes a place where there is one, else waits; a caller that leaves makes way for at most one. */
  it('never lets in more than it may, of a share or in all, and leaves none outside while there is room', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({ most: fc.integer({ min: 1, max: 5 }), mostOfShare: fc.integer({ min: 1, max: 5 }) }),
        fc.array(fc.oneof(fc.constantFrom('a', 'b', 'c'), fc.nat(4)), { maxLength: 60 }),
        async ({ most, mostOfShare }, steps) => {
          const gate = createGate({ most, mostOfShare, waiting: Infinity });
          const inside: { share: string; leave: () => void }[] = [];
          const waiting: string[] = [];
          const count = (list: readonly string[], share: string): number => list.filter((one) => one === share).length;
          for (const step of steps) {
            if (typeof step === 'string') {
              waiting.push(step);
              void Promise.resolve(gate.enter(step)).then((leave) => {
                waiting.splice(waiting.indexOf(step), 1);
                if (leave !== null) inside.push({ share: step, leave });
              });
            } else inside.splice(step, 1)[0]?.leave();
            await new Promise((resolve) => setImmediate(resolve));
            const shares = inside.map(({ share }) => share);
            assert.deepEqual(gate.sizes(), { inside: inside.length, waiting: waiting.length });
            assert.ok(inside.length <= most);
            for (const share of ['a', 'b', 'c']) {
              assert.ok(count(shares, share) <= mostOfShare);
              const hasRoom = inside.length < most && count(shares, share) < mostOfShare;
              assert.ok(!hasRoom || count(waiting, share) === 0, `${share} waits although there is room`);
            }
          }
        },
      ),
    );
  });
});
