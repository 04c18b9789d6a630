import assert from 'node:assert/strict';
import fc from 'fast-check';
import { newThrottle, pushedBack, succeeded, type Throttle } from '../../../src/mta/lanes/throttle.ts';

const limits = { initial: 2, max: 10 };

describe('mta/lanes/throttle', () => {
  it('grows by one after as many successes as there are connections', () => {
    let throttle = newThrottle(limits, 0);
    const seen: number[] = [];
    for (let count = 0; count < 9; count++) {
      throttle = succeeded(throttle, limits, true, count);
      seen.push(throttle.limit);
    }
    assert.deepEqual(seen, [2, 3, 3, 3, 4, 4, 4, 4, 5]);
    assert.deepEqual([throttle.cause, throttle.causeAt], ['growth after successes', 8]);
  });

  it('grows no further than its cap', () => {
    let throttle = newThrottle(limits, 0);
    for (let count = 0; count < 1000; count++) throttle = succeeded(throttle, limits, true, count);
    assert.equal(throttle.limit, 10);
  });

  it('halves, says why, and grows back from there', () => {
    const full: Throttle = { ...newThrottle(limits, 0), limit: 9 };
    let throttle = pushedBack(full, '421 too many connections', 500);
    assert.deepEqual([throttle.limit, throttle.cause, throttle.causeAt], [4, '421 too many connections', 500]);
    for (let count = 0; count < 4; count++) throttle = succeeded(throttle, limits, true, 600);
    assert.equal(throttle.limit, 5);
  });

  it('halves at most once in ten seconds, and never below one', () => {
    let throttle: Throttle = { ...newThrottle(limits, 0), limit: 8 };
    const seen = [0, 1, 9_999, 10_000, 20_000, 30_000, 40_000].map(
      (now) => (throttle = pushedBack(throttle, 'x', now)).limit,
    );
    assert.deepEqual(seen, [4, 4, 4, 2, 1, 1, 1]);
  });

  it('keeps no endless reply', () => {
    assert.equal(pushedBack(newThrottle(limits, 0), 'x'.repeat(5000), 0).cause.length, 200);
  });

  it('stays within its bounds whatever comes', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat({ max: 15_000 }))), (steps) => {
        let throttle = newThrottle(limits, 0);
        let now = 0;
        for (const [isGood, wait] of steps) {
          now += wait;
          throttle = isGood ? succeeded(throttle, limits, true, now) : pushedBack(throttle, 'slow', now);
          assert.ok(throttle.limit >= 1 && throttle.limit <= limits.max);
        }
      }),
    );
  });

  it('grows only while all of it is in use', () => {
    let throttle = newThrottle(limits, 0);
    for (let count = 0; count < 100; count++) throttle = succeeded(throttle, limits, false, count);
    assert.equal(throttle.limit, 2);
    assert.equal(succeeded(throttle, limits, true, 100).limit, 3);
  });

  it('stays under what was too many, and tries one more after a quiet half minute', () => {
    let throttle = pushedBack({ ...newThrottle(limits, 0), limit: 6 }, 'busy', 0);
    for (let count = 0; count < 100; count++) throttle = succeeded(throttle, limits, true, 29_999);
    assert.deepEqual([throttle.limit, throttle.ceiling], [5, 5]);
    throttle = succeeded(throttle, limits, true, 30_000);
    assert.deepEqual([throttle.limit, throttle.cause], [6, 'one more tried after a quiet while']);
    for (let count = 0; count < 100; count++) throttle = succeeded(throttle, limits, true, 59_999);
    assert.equal(throttle.limit, 6);
  });
});
