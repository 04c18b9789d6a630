import assert from 'node:assert/strict';
import fc from 'fast-check';
import { asksForLess, newThrottle, pushedBack, succeeded, type Throttle } from '../../src/mta/throttle.ts';

const limits = { initial: 2, max: 10 };

describe('mta/throttle', () => {
  it('grows by one after as many successes as there are connections', () => {
    let throttle = newThrottle(limits, 0);
    const seen: number[] = [];
    for (let count = 0; count < 9; count++) {
      throttle = succeeded(throttle, limits, count);
      seen.push(throttle.limit);
    }
    assert.deepEqual(seen, [2, 3, 3, 3, 4, 4, 4, 4, 5]);
    assert.deepEqual([throttle.cause, throttle.causeAt], ['growth after successes', 8]);
  });

  it('grows no further than its cap', () => {
    let throttle = newThrottle(limits, 0);
    for (let count = 0; count < 1000; count++) throttle = succeeded(throttle, limits, count);
    assert.equal(throttle.limit, 10);
  });

  it('halves, says why, and grows back from there', () => {
    const full: Throttle = { ...newThrottle(limits, 0), limit: 9 };
    let throttle = pushedBack(full, '421 too many connections', 500);
    assert.deepEqual([throttle.limit, throttle.cause, throttle.causeAt], [4, '421 too many connections', 500]);
    for (let count = 0; count < 4; count++) throttle = succeeded(throttle, limits, 600);
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
          throttle = isGood ? succeeded(throttle, limits, now) : pushedBack(throttle, 'slow', now);
          assert.ok(throttle.limit >= 1 && throttle.limit <= limits.max);
        }
      }),
    );
  });

  describe('asksForLess', () => {
    for (const [reason, code, enhanced, text, verdict, expected] of [
      ['421', 421, null, 'closing', 'other', true],
      ['4.7.x', 450, '4.7.28', 'unusual rate', 'policy', true],
      ['a throttling text', 451, null, 'too many messages', 'rate_limited', true],
      ['greylisting asks for patience, not for less', 451, '4.7.1', 'Greylisted', 'rate_limited', false],
      ['a full mailbox is one recipient’s trouble', 452, '4.2.2', 'mailbox full', 'mailbox_full', false],
      ['a final refusal', 550, '5.7.1', 'rate', 'rate_limited', false],
      ['the network', null, null, 'reset', 'network', false],
      ['an acceptance', 250, '2.0.0', 'ok', '', false],
    ] as const) {
      it(`${expected ? 'yes' : 'no'}: ${reason}`, () => {
        assert.equal(asksForLess(code, enhanced, text, verdict), expected);
      });
    }
  });
});
