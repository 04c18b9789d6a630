/** The time in which a thread waits is not counted as its work; that in which it computes is. */
import assert from 'node:assert/strict';
import { createThreadClock } from '../../src/base/thread-time.ts';

describe('base/thread-time', () => {
  it('counts work and not waiting', () => {
    const clock = createThreadClock();
    const begun = clock();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    const waited = clock() - begun;
    assert.ok(waited < 100, `200 ms of waiting count as ${String(waited)} ms`);
    let turns = 0;
    while (clock() - begun < waited + 20) turns++;
    assert.ok(turns > 0);
  });

  it('never goes back', () => {
    const clock = createThreadClock();
    let last = clock();
    for (let n = 0; n < 100_000; n++) {
      const now = clock();
      assert.ok(now >= last);
      last = now;
    }
  });
});
