/** A lane that several nodes have, as one: sums of what adds up, and with its node what concerns one only. */
import assert from 'node:assert/strict';
import { laneFigures } from '../../src/operator/metrics/figures.ts';
import { mergedLane, type FleetLane } from '../../src/operator/lanes.ts';
import type { LaneLimit, LaneReport } from '../../src/messages/delivery/lane-report.ts';

const limit = (to: number, by: LaneLimit['by'], more: Partial<LaneLimit> = {}): LaneLimit => ({
  what: 'connections',
  to,
  by,
  cause: by,
  since: null,
  ...more,
});
const wait = (message: string): LaneReport['waits'][number] => ({
  reason: 'connections_in_use',
  message,
  since: null,
  until: null,
  by: 'us',
  stops: false,
});
const state = (more: Partial<LaneReport> = {}): LaneReport => ({
  name: 'mx.dest.test',
  source: null,
  waiting: 2,
  slots: 3,
  limit: 4,
  perMinute: null,
  cause: 'start',
  causeAt: null,
  limits: [limit(10, 'start')],
  parkedUntil: null,
  waits: [],
  lastReply: null,
  lastProgressAt: 0,
  ...more,
});
const merged = (one: Partial<LaneReport>, two: Partial<LaneReport>): FleetLane =>
  mergedLane([
    { node: 'one', lane: state(one) },
    { node: 'two', lane: state(two) },
  ]) ?? assert.fail('there are two');

describe('operator/lanes: one lane of several nodes', () => {
  it('is the lane itself where one node has it', () => {
    const own = state({ limits: [limit(10, 'start'), limit(4, 'nodes')], perMinute: 30, waits: [wait('It waits.')] });
    assert.deepEqual(mergedLane([{ node: 'one', lane: own }]), {
      ...own,
      nodes: ['one'],
    });
  });

  it('adds mail and connections, and has the limit that the nodes share', () => {
    const {
      nodes,
      waiting,
      slots,
      limit: most,
    } = merged(
      { limits: [limit(10, 'start'), limit(7, 'nodes')], limit: 7 },
      { slots: 1, limits: [limit(9, 'receiver'), limit(2, 'nodes')], limit: 2 },
    );
    assert.deepEqual([nodes, waiting, slots, most], [['one', 'two'], 4, 4, 9]);
    assert.equal(merged({ limits: [], limit: 64 }, { limits: [], limit: 64 }).limit, 128, 'workers without a network');
  });

  it('has the rate that limits it, at any of them', () => {
    assert.equal(merged({}, {}).perMinute, null);
    assert.equal(merged({ perMinute: 60 }, { perMinute: 30 }).perMinute, 30);
    assert.equal(merged({ perMinute: 60 }, {}).perMinute, 60);
  });

  it('is parked only while no node sends', () => {
    assert.equal(merged({ parkedUntil: 5000 }, {}).parkedUntil, null);
    assert.equal(merged({ parkedUntil: 5000 }, { parkedUntil: 4000 }).parkedUntil, 4000);
  });

  it('has the newest reply and cause, and each limit and wait once', () => {
    const lane = merged(
      { lastReply: '250 ok', lastProgressAt: 10, cause: '421', causeAt: 5, waits: [wait('Both wait.')] },
      { lastReply: '451 no', lastProgressAt: 20, waits: [wait('Both wait.'), wait('Two waits.')] },
    );
    assert.deepEqual([lane.lastReply, lane.lastProgressAt, lane.cause, lane.causeAt], ['451 no', 20, '421', 5]);
    assert.deepEqual(
      lane.waits.map(({ message }) => message),
      ['Both wait.', 'Two waits.'],
    );
    assert.deepEqual(
      lane.limits.map(({ to }) => to),
      [10],
    );
  });

  it('figures have the fifty busiest lanes of the node', async () => {
    const lanes = Array.from({ length: 60 }, (_, n) => state({ name: `mx${String(n)}.test`, slots: n }));
    const [connections] = await laneFigures({
      mta: { lanes: (most: number) => Promise.resolve(lanes.slice(0, most)) },
    } as unknown as Parameters<typeof laneFigures>[0]);
    assert.equal(connections?.samples.length, 50);
    assert.deepEqual(connections.samples[1], { labels: { lane: 'mx1.test' }, value: 1 });
  });
});
