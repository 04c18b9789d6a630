import assert from 'node:assert/strict';
import { createJumpMeter, createRunningSince } from '../../src/base/clock-jumps.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

describe('clock jumps', () => {
  it('are measured once, in both directions, and small steps are none', () => {
    const clock = new FakeClock();
    const jumped = createJumpMeter(clock);
    clock.advance(DAY);
    assert.equal(jumped(), 0);
    clock.jump(2 * MINUTE);
    assert.deepEqual([jumped(), jumped()], [2 * MINUTE, 0]);
    clock.jump(-DAY);
    assert.equal(jumped(), -DAY);
    for (let n = 0; n < 10; n++) {
      clock.jump(MINUTE / 2);
      assert.equal(jumped(), 0);
    }
  });

  it('forward begin the time in which the program runs anew; back, the same moment has another time', () => {
    const clock = new FakeClock();
    const start = clock.now();
    const since = createRunningSince(clock);
    clock.advance(DAY);
    assert.equal(since(), start);
    clock.jump(4 * DAY);
    assert.equal(since(), start + 5 * DAY);
    clock.advance(MINUTE);
    clock.jump(-4 * DAY);
    assert.equal(since(), start + DAY);
  });
});
