/** The metrics of a whole running program, as Prometheus gets them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { createMeters } from '../../src/operator/metrics/meters.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { startMailServer } from '../support/fakes/fake-mail-server.ts';

const TOKEN = 'a-token-of-the-operator';
const FRESH_MS = 5_001;

/** Where the port of its own is, by the log. */
const urlOf = (test: TestApp): string => {
  const line = test.logged.find(({ event }) => event === 'metrics');
  assert.equal(typeof line?.['url'], 'string');
  return String(line?.['url']);
};

async function scrape(url: string, token?: string): Promise<{ status: number; text: string; response: Response }> {
  const response = await fetch(url, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } });
  return { status: response.status, text: await response.text(), response };
}

/** The value of one sample, by its name with labels. */
const value = (text: string, sample: string): number | null => {
  const line = text.split('\n').find((one) => one.startsWith(`${sample} `));
  return line === undefined ? null : Number(line.slice(sample.length + 1));
};

describe('metrics', () => {
  it('tell what happened to mail, and what waits in which lane', async () => {
    const host = await startMailServer();
    const test = await startTestApp({
      mailPort: host.port,
      zones: zonesFor('dest.test'),
      settings: { metrics: { port: 0 }, delivery: { routes: { 'held.test': 'hold' } } },
    });
    const url = urlOf(test);
    const { id } = await test.send();
    await host.reached('message');
    const bounced = await test.send({ to: 'bounced@simulator.posthorn.test' });
    await test.send({ to: 'bo@held.test' });
    await test.send({ to: 'cy@later.test', send_at: new Date(test.clock.now() + 3_600_000).toISOString() });
    await test.follow().of(bounced.id, 'bounced');
    await test.follow().of(id, 'delivered');
    await test.get('/v1/nothing');
    test.clock.advance(FRESH_MS);
    const { status, text, response } = await scrape(url);
    assert.equal(status, 200);
    assert.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
    for (const [sample, expected] of [
      ['posthorn_accepted_total', 4],
      ['posthorn_delivered_total', 1],
      ['posthorn_bounced_total{class="hard"}', 1],
      ['posthorn_bounced_total{class="soft"}', 0],
      ['posthorn_attempts_total{outcome="accepted"}', 1],
      ['posthorn_attempts_total{outcome="refused"}', 0],
      ['posthorn_attempts_total{outcome="simulated"}', 1],
      ['posthorn_queue_total_depth', 2],
      ['posthorn_queue_depth{lane="~hold"}', 1],
      ['posthorn_queue_due{lane="~hold"}', 1],
      ['posthorn_queue_due{lane="~unresolved"}', 0],
      ['posthorn_queue_oldest_due_age_seconds{lane="~hold"}', 5.001],
      ['posthorn_queue_oldest_due_age_seconds{lane="~unresolved"}', 0],
      ['posthorn_accept_seconds_count', 4],
      ['posthorn_http_requests_total{operation="sendMessage",code="202"}', 4],
      ['posthorn_http_requests_total{operation="none",code="404"}', 1],
      ['posthorn_attempt_phase_seconds_count{phase="auth"}', null],
      ['posthorn_books_balanced', 1],
      ['posthorn_reports{kind="unread",state="new"}', 0],
      ['posthorn_submissions_total{code="250"}', 0],
      ['posthorn_webhook_endpoints{status="active"}', 0],
      ['posthorn_webhook_calls_waiting', 0],
      ['posthorn_webhook_backlog_events', 0],
    ] as const)
      assert.equal(value(text, sample), expected, sample);
    assert.ok(
      (value(text, 'posthorn_commit_batch_size_sum') ?? 0) >= (value(text, 'posthorn_commit_batch_size_count') ?? 1),
    );
    assert.ok((value(text, 'posthorn_database_bytes{file="database"}') ?? 0) > 10_000);
    assert.ok((value(text, 'process_resident_memory_bytes') ?? 0) > 10_000_000);
    assert.doesNotMatch(text, /ana@|bo@|acme/, 'no address and no customer');
    await test.stop();
    await host.close();
  });

  it('pass promtool', async function () {
    if (spawnSync('promtool', ['--version']).status !== 0)
      this.skip('promtool is not installed (apt-get install prometheus)');
    const test = await startTestApp({ settings: { metrics: { port: 0 } } });
    await test.send({ to: 'deferred@simulator.posthorn.test' });
    await test.settled();
    const { text } = await scrape(urlOf(test));
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
    assert.deepEqual([status, stdout, stderr], [0, '', '']);
    await test.stop();
  });

  it('read the queue once for many who ask at the same time', async () => {
    const test = await startTestApp({ settings: { metrics: { port: 0 } } });
    const url = urlOf(test);
    await scrape(url);
    await test.send({ to: 'delivered@simulator.posthorn.test' });
    await test.settled();
    assert.equal(value((await scrape(url)).text, 'posthorn_accepted_total'), 0);
    test.clock.advance(FRESH_MS);
    assert.equal(value((await scrape(url)).text, 'posthorn_accepted_total'), 1);
    await test.stop();
  });

  it('go by a token on the port of the API, and are nowhere without one', async () => {
    const test = await startTestApp({ settings: { metrics: { token: TOKEN } } });
    const url = `${test.url}/metrics`;
    assert.equal((await scrape(url, TOKEN)).status, 200);
    for (const wrong of [undefined, '', 'a-token-of-the-operator2', test.key, 'x'.repeat(3000)]) {
      const { status, response } = await scrape(url, wrong);
      assert.equal(status, 401, wrong);
      assert.equal(response.headers.get('www-authenticate'), 'Bearer realm="metrics"');
    }
    assert.equal((await test.get('/v1/domains')).status, 200, 'the API is where it was');
    const audited = await test.app.db.prepared.all<{ n: number }>(
      'SELECT COUNT(*) AS n FROM audit WHERE endpoint = ?',
      ['/metrics'],
    );
    assert.deepEqual(audited, [{ n: 0 }]);
    await test.stop();
    const without = await startTestApp();
    assert.equal((await without.get('/metrics', { key: null })).status, 404);
    await without.stop();
  });

  it('refuse other paths and methods on their own port, where a token counts as well', async () => {
    const test = await startTestApp({ settings: { metrics: { port: 0, token: TOKEN } } });
    const url = urlOf(test);
    assert.equal((await scrape(url)).status, 401);
    assert.equal((await scrape(url, TOKEN)).status, 200);
    assert.equal((await scrape(url.replace('/metrics', '/v1/messages'), TOKEN)).status, 404);
    assert.equal((await fetch(url, { method: 'POST', body: 'x' })).status, 405);
    const head = await fetch(`${url}?name=x`, { method: 'HEAD', headers: { authorization: `Bearer ${TOKEN}` } });
    assert.deepEqual([head.status, await head.text()], [200, '']);
    assert.equal((await test.get('/metrics')).status, 404, 'not on the API besides');
    const socket = net.connect(Number(new URL(url).port), '127.0.0.1');
    socket.write('NONSENSE\r\n\r\n');
    socket.resume();
    await once(socket, 'close');
    await test.stop();
  });

  it('say so where they cannot be read', async () => {
    const test = await startTestApp({ settings: { metrics: { port: 0 } } });
    test.app.mta.reports.laneOf = () => {
      throw new Error('a fault');
    };
    await test.send({ to: 'x@later.test', send_at: new Date(test.clock.now() + 3_600_000).toISOString() });
    const { status, text } = await scrape(urlOf(test));
    assert.deepEqual([status, text.includes('a fault')], [503, false]);
    assert.ok(test.logged.some(({ event }) => event === 'metrics_failed'));
    await test.stop();
  });

  it('refuse a port that is taken, and leave nothing open', async () => {
    const taken = net.createServer();
    taken.listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as net.AddressInfo;
    await assert.rejects(startTestApp({ settings: { metrics: { port } } }), { code: 'EADDRINUSE' });
    await new Promise((resolve) => taken.close(resolve));
  });
});

describe('meters', () => {
  it('see a loop that is late', () => {
    class LateClock extends FakeClock {
      late = 0;
      override monotonic(): number {
        return super.monotonic() + this.late;
      }
    }
    const clock = new LateClock();
    const meters = createMeters({ clock });
    clock.advance(100);
    clock.late = 40;
    clock.advance(100);
    const lag = meters.families().find(({ name }) => name === 'posthorn_event_loop_lag_seconds');
    const at = (le: string): number | undefined => lag?.samples.find(({ labels }) => labels?.['le'] === le)?.value;
    assert.deepEqual([at('0.001'), at('0.025'), at('0.05'), at('+Inf')], [1, 1, 2, 2]);
    meters.stop();
    assert.equal(clock.nextAt(), null);
  });
});
