import assert from 'node:assert/strict';
import type { Asked } from './node-clients.ts';
import { faultPlan, faults } from './node-faults.ts';
import { longestDowntime } from './node-tally.ts';
import { randomFrom } from './random.ts';

const asked = (at: number, status: number): Asked => ({
  node: 'one',
  at,
  ms: 5,
  status,
  code: '',
  hasRetryAfter: false,
});
const isGood = ({ status }: Asked): boolean => status === 202;

describe('torture/node-tally', () => {
  it('finds the longest time from the first failure to the end of the next success', () => {
    const rows: [statuses: readonly number[], ms: number][] = [
      [[], 0],
      [[202, 202], 0],
      [[202, 0, 503, 202, 0, 202], 25],
      [[0, 0, 202], 25],
    ];
    for (const [statuses, ms] of rows) {
      const answers = statuses.map((status, place) => asked(place * 10, status));
      assert.equal(longestDowntime(answers.reverse(), isGood), ms, statuses.join());
    }
  });

  it('plays each fault once in a series, the same ones for the same seed', () => {
    const plan = faultPlan(faults.length * 2, randomFrom(3));
    assert.deepEqual(new Set(plan.slice(0, faults.length)), new Set(faults));
    assert.deepEqual(faultPlan(5, randomFrom(3)), plan.slice(0, 5));
    assert.notDeepEqual(faultPlan(5, randomFrom(4)), plan.slice(0, 5));
  });
});
