import assert from 'node:assert/strict';
import { lagAt, parseLag } from './loop-lag.ts';

const at = (a: number, b: number, all: number) =>
  parseLag(
    `# TYPE posthorn_event_loop_lag_seconds histogram\nposthorn_event_loop_lag_seconds_bucket{le="0.005"} ${String(a)}\nposthorn_event_loop_lag_seconds_bucket{le="0.05"} ${String(b)}\nposthorn_event_loop_lag_seconds_bucket{le="+Inf"} ${String(all)}\nposthorn_event_loop_lag_seconds_sum 3\n`,
  );

describe('the lag of the event loop', () => {
  for (const [name, before, after, share, ms] of [
    ['all looks in the first bucket', at(0, 0, 0), at(100, 100, 100), 0.99, 5],
    ['one of a hundred later', at(0, 0, 0), at(98, 99, 100), 0.99, 50],
    ['more than one of a hundred beyond the last', at(0, 0, 0), at(90, 95, 100), 0.99, Infinity],
    ['only what came between two readings', at(0, 50, 100), at(100, 150, 200), 0.99, 5],
    ['no look', at(1, 2, 3), at(1, 2, 3), 0.99, NaN],
  ] as const)
    it(name, () => {
      assert.equal(lagAt(before, after, share), ms);
    });
});
