/** The queue's depth and the time of acceptance, minute by minute. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { Histogram } from '../../src/operator/metrics/exposition.ts';
import { createHistory, percentiles } from '../../src/operator/metrics/meters.ts';
import { startTestApp } from '../support/harness/app.ts';

describe('operator/history: percentiles', () => {
  for (const [why, counts, expected] of [
    ['nothing was measured', [0, 0, 0], null],
    ['no buckets at all', [], null],
    ['all in the first', [100, 100, 100], { p50: 5, p95: 9.5, p99: 9.9 }],
    ['half and half', [50, 100, 100], { p50: 10, p95: 91, p99: 98.2 }],
    ['beyond the last bound', [0, 0, 10], { p50: 100, p95: 100, p99: 100 }],
  ] as const) {
    it(why, () => {
      const bounds = [0.01, 0.1, Infinity];
      assert.deepEqual(percentiles(counts.map((count, at) => ({ le: bounds[at] ?? Infinity, count }))), expected);
    });
  }
});

describe('operator/history', () => {
  it('looks once a minute, at what was added since, and ends when told', async () => {
    const app = await startTestApp();
    try {
      const accept = new Histogram([0.01, 0.1]);
      const history = createHistory({
        db: app.app.db,
        clock: app.clock,
        mta: { sizes: () => ({ workers: 3 }) },
        accepted: () => accept.buckets(),
        failed: (error) => {
          throw error;
        },
      });
      const looked = async (count: number): Promise<void> => {
        while (history.moments().length < count) await turn();
      };
      await app.send({ send_at: new Date(app.clock.now() + 3_600_000).toISOString() });
      accept.observe(0.005);
      app.clock.advance(60_000);
      await looked(1);
      assert.deepEqual(history.moments(), [
        { at: app.clock.now(), waiting: 1, connections: 3, accept: { p50: 5, p95: 9.5, p99: 9.9 } },
      ]);
      app.clock.advance(60_000);
      await looked(2);
      assert.equal(history.moments()[1]?.accept, null, 'nothing came in this minute');
      history.stop();
      app.clock.advance(600_000);
      await turn();
      assert.equal(history.moments().length, 2);
    } finally {
      await app.stop();
    }
  });
});
