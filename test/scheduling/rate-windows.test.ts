import assert from 'node:assert/strict';
import { RateWindows, secondsLeft } from '../../src/scheduling/rate-windows.ts';

const minute = Date.parse('2026-01-31T09:30:00.000Z');

describe('scheduling/rate-windows', () => {
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
    const windows = new RateWindows({ mostNames: 2 });
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

  describe('of two nodes', () => {
    const limit = 100;
    const use = (windows: RateWindows, times: number, at: number): void => {
      for (let n = 0; n < times; n++) windows.take('a', limit, at);
    };

    it('count what the other one tells of names above a quarter of their limit, each request once', () => {
      const [one, two] = [1, 2].map(() => new RateWindows({ isShared: () => true })) as [RateWindows, RateWindows];
      use(one, 25, minute);
      assert.deepEqual(one.untold(minute), []);
      use(one, 15, minute);
      const told = one.untold(minute + 2000);
      assert.deepEqual(told, [{ name: 'a', window: minute / 60_000, requests: 40 }]);
      for (const counted of told) two.add(counted, minute + 2100);
      assert.equal(two.peek('a', limit, minute).remaining, 60);
      assert.deepEqual(two.untold(minute + 2100), [], 'what was told is not told back');
      use(two, 61, minute + 2200);
      assert.equal(two.take('a', limit, minute + 2200).over, true);
      use(one, 1, minute + 2300);
      assert.deepEqual(one.untold(minute + 2300), [{ name: 'a', window: minute / 60_000, requests: 1 }]);
    });

    it('leave out what was counted in another minute', () => {
      const windows = new RateWindows({ isShared: () => true });
      windows.add({ name: 'a', window: 0, requests: 90 }, minute);
      assert.equal(windows.peek('a', limit, minute).remaining, 100);
      use(windows, 50, minute);
      assert.deepEqual(windows.untold(2 * minute), []);
      use(windows, 30, 2 * minute);
      assert.deepEqual(windows.untold(2 * minute), [{ name: 'a', window: (2 * minute) / 60_000, requests: 30 }]);
    });

    it('note nothing while there is one node', () => {
      const windows = new RateWindows();
      use(windows, 90, minute);
      assert.deepEqual(windows.untold(minute), []);
    });
  });
});
