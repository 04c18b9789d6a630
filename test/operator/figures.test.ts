/** The figures of the queue where mail waits for more domains than are looked at one by one. */
import assert from 'node:assert/strict';
import { queueFigures } from '../../src/operator/metrics/metrics.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';

describe('operator/figures: a queue for more than a thousand domains, of which another node may have some', () => {
  let test: TestApp;

  before(async () => {
    test = await startTestApp({ settings: { delivery: { routes: { '*': 'hold' } } } });
    for (const [from, to] of [
      [0, 1000],
      [1000, 1004],
      [0, 2],
    ] as const) {
      const recipients = Array.from({ length: to - from }, (_, n) => ({ to: `r@d${String(from + n)}.test` }));
      const { status, text } = await test.request('POST', '/v1/messages', {
        from: 'hi@acme.test',
        subject: 'News',
        text: 'Good day.',
        recipients,
      });
      assert.equal(status, 202, text);
    }
  });
  after(() => test.stop());

  it('counts each mail once, the domains with the least due among the other lanes, and makes no report of a lane', async () => {
    const unused = (): never => assert.fail('a report of lanes was made');
    const families = await queueFigures({
      db: test.app.db,
      clock: test.clock,
      mta: { reports: { lanes: unused, lane: unused, laneOf: (domain: string) => `mx.${domain}` } },
    } as unknown as Parameters<typeof queueFigures>[0]);
    const samples = (name: string) => families.find((one) => one.name === name)?.samples ?? [];
    assert.equal(samples('posthorn_queue_total_depth')[0]?.value, 1006);
    const depth = new Map(samples('posthorn_queue_depth').map(({ labels, value }) => [labels?.['lane'], value]));
    assert.deepEqual([depth.size, depth.get('mx.d0.test'), depth.get('mx.d1.test')], [51, 2, 2]);
    assert.equal(depth.get('~other'), 1006 - 2 - 2 - 48);
  });
});
