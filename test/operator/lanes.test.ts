/** A lane that several nodes have, as one: sums of what adds up, and with its node what concerns one only. */
import assert from 'node:assert/strict';
import { laneFigures } from '../../src/operator/metrics/metrics.ts';
import { mergedLane, type FleetLane } from '../../src/operator/lanes.ts';
import type { LaneLimit, LaneReport } from '../../src/messages/delivery/why.ts';

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
  changes: [],
  ...more,
});
const merged = (one: Partial<LaneReport>, two: Partial<LaneReport>): FleetLane =>
  mergedLane([
    { node: 'one', value: state(one) },
    { node: 'two', value: state(two) },
  ]) ?? assert.fail('there are two');

describe('operator/lanes: one lane of several nodes', () => {
  it('is the lane itself where one node has it', () => {
    const own = state({ limits: [limit(10, 'start'), limit(4, 'nodes')], perMinute: 30, waits: [wait('It waits.')] });
    assert.deepEqual(mergedLane([{ node: 'one', value: own }]), {
      ...own,
      nodes: ['one'],
    });
  });

  it('adds mail and connections, and has the limits that the nodes share', () => {
    const lane = merged({ limit: 9, perMinute: 30 }, { slots: 1, limit: 9, perMinute: 30 });
    const { nodes, waiting, slots, limit: most, perMinute } = lane;
    assert.deepEqual([nodes, waiting, slots, most, perMinute], [['one', 'two'], 4, 4, 9, 30]);
  });

  it('is parked only while no node sends', () => {
    assert.equal(merged({ parkedUntil: 5000 }, {}).parkedUntil, null);
    assert.equal(merged({ parkedUntil: 5000 }, { parkedUntil: 4000 }).parkedUntil, 4000);
  });

  it('has the reply and the cause of the node that made progress last, and each limit and wait once', () => {
    const lane = merged(
      { lastReply: '250 ok', lastProgressAt: 10, waits: [wait('Two waits.'), wait('Both wait.')] },
      { lastReply: '451 no', lastProgressAt: 20, cause: '421', causeAt: 5, waits: [wait('Both wait.')] },
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
      mta: { reports: { lanes: (most: number) => Promise.resolve(lanes.slice(0, most)) } },
    } as unknown as Parameters<typeof laneFigures>[0]);
    assert.equal(connections?.samples.length, 50);
    assert.deepEqual(connections.samples[1], { labels: { lane: 'mx1.test' }, value: 1 });
  });
});
