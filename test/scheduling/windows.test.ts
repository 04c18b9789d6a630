import assert from 'node:assert/strict';
import { RateWindows, secondsLeft } from '../../src/scheduling/rate-windows.ts';

const minute = Date.parse('2026-01-31T09:30:00.000Z');

describe('Windows', () => {
  it('count down to nothing, then over, until the minute ends', () => {
    const windows = new RateWindows();
    const rates = [1, 2, 3].map((n) => windows.take('a', 2, minute + n));
    assert.deepEqual(
      rates.map(({ remaining, over }) => [remaining, over]),
      [
        [1, false],
        [0, false],
        [0, true],
      ],
    );
    assert.equal(rates[0]?.reset, minute / 1000 + 60);
    assert.equal(windows.take('a', 2, minute + 59_999).over, true);
    assert.equal(windows.take('a', 2, minute + 60_000).remaining, 1);
  });

  it('keep names apart', () => {
    const windows = new RateWindows();
    windows.take('a', 1, minute);
    assert.equal(windows.take('b', 1, minute).over, false);
    assert.equal(windows.take('a', 1, minute).over, true);
  });

  it('show without counting', () => {
    const windows = new RateWindows();
    windows.take('a', 1, minute);
    windows.take('a', 1, minute);
    assert.deepEqual(windows.peek('a', 1, minute), { limit: 1, remaining: 0, reset: minute / 1000 + 60, over: false });
    assert.equal(windows.peek('b', 1, minute).remaining, 1);
  });

  it('share one count among newcomers when there are too many', () => {
    const windows = new RateWindows(2);
    windows.take('a', 1, minute);
    windows.take('b', 1, minute);
    assert.equal(windows.take('c', 1, minute).over, false);
    assert.equal(windows.take('d', 1, minute).over, true, 'counted with c');
    assert.equal(windows.take('a', 1, minute).over, true, 'known ones keep their own');
  });

  it('say how long to wait, at least a second', () => {
    const rate = new RateWindows().take('a', 1, minute);
    assert.equal(secondsLeft(rate, minute), 60);
    assert.equal(secondsLeft(rate, minute + 59_999), 1);
  });
});
