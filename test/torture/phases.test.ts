import assert from 'node:assert/strict';
import { beyondPromise, phases, planOf } from './phases.ts';
import { randomFrom } from './random.ts';

describe('the plan of kills', () => {
  it('has each phase equally often, in an order that only the seed decides', () => {
    const plan = planOf(phases.length * 3, randomFrom(7));
    for (const phase of phases) assert.equal(plan.filter((one) => one === phase).length, 3, phase);
    assert.deepEqual(plan, planOf(phases.length * 3, randomFrom(7)));
    assert.notDeepEqual(plan, planOf(phases.length * 3, randomFrom(8)));
  });
  it('ends within a round', () => {
    assert.equal(planOf(5, randomFrom(1)).length, 5);
    assert.deepEqual(planOf(0, randomFrom(1)), []);
  });
});

describe('promise 3', () => {
  const cases: [string, Record<string, number>, Record<string, number>, ReturnType<typeof beyondPromise>][] = [
    ['one copy each', { a: 1, b: 1 }, {}, { copies: 0, beyond: [] }],
    ['a second copy of what was in flight at a kill', { a: 2 }, { a: 1 }, { copies: 1, beyond: [] }],
    ['a second copy of what was not', { a: 2, b: 1 }, { b: 1 }, { copies: 1, beyond: ['a'] }],
    ['a third copy after one kill', { a: 3 }, { a: 1 }, { copies: 2, beyond: ['a'] }],
    ['a third copy after two', { a: 3 }, { a: 2 }, { copies: 2, beyond: [] }],
    ['in flight, and yet one copy', { a: 1 }, { a: 1 }, { copies: 0, beyond: [] }],
  ];
  for (const [name, copies, windows, expected] of cases)
    it(name, () => {
      assert.deepEqual(beyondPromise(new Map(Object.entries(copies)), new Map(Object.entries(windows))), expected);
    });
});
