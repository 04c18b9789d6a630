import assert from 'node:assert/strict';
import { createGate } from '../../src/scheduling/gate.ts';

describe('base/gate', () => {
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
});
