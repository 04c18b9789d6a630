/** Another mail server has a port of ours: the rest works, the state is shown everywhere, and the port is taken when it is free. */
import assert from 'node:assert/strict';
import net, { type AddressInfo } from 'node:net';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { until } from '../support/harness/peer.ts';

async function occupy(host: string): Promise<{ port: number; release(): Promise<void> }> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  return { port, release: () => new Promise((resolve) => server.close(() => resolve())) };
}

const ready = async (app: TestApp): Promise<unknown> => (await app.get('/readyz', { key: null })).body;
const gauges = async (app: TestApp): Promise<string[]> => {
  const url = String(app.logged.find(({ event }) => event === 'metrics')?.['url']);
  return [...(await (await fetch(url)).text()).matchAll(/^posthorn_listener_up.*$/gm)].map(([line]) => line);
};

describe('a port for mail that another program has', () => {
  let app: TestApp;
  afterEach(() => app.stop());

  for (const host of ['127.0.0.1', '0.0.0.0']) {
    it(`at ${host} degrades the server, and is taken when it is free`, async () => {
      const other = await occupy(host);
      app = await startTestApp({ settings: { metrics: { port: 0 }, smtp: { mx: { port: other.port } } } });
      assert.equal(app.app.ports.mx, null);
      const lines = app.logged.filter(({ event }) => event === 'smtp_port_taken');
      assert.equal(lines.length, 1);
      assert.match(
        String(lines[0]?.['message']),
        new RegExp(
          `^port ${String(other.port)} is in use by .*: bounces, complaints and mail to domains that receive cannot arrive here`,
        ),
      );
      assert.equal(lines[0]?.['err'], undefined);
      assert.deepEqual(await ready(app), {
        status: 'degraded',
        checks: { database: true, disk: true, listeners: false },
        degraded: ['mx'],
      });
      assert.match((await gauges(app)).join(), /listener="mx"\} 0/);
      // Everything else works.
      const { id } = await app.send({ to: 'delivered@simulator.posthorn.test' });
      await app.follow().of(id, 'delivered');

      app.clock.advance(60_000);
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(app.app.ports.mx, null);
      await other.release();
      await until(() => {
        app.clock.advance(60_000);
        return app.app.ports.mx !== null;
      }, 'the port to be taken');
      assert.equal(app.app.ports.mx, other.port);
      assert.deepEqual(app.logged.filter(({ event }) => event === 'smtp_port_taken').length, 1);
      assert.equal(app.logged.filter(({ event }) => event === 'smtp_port_opened').length, 1);
      assert.deepEqual(await ready(app), { status: 'ok', checks: { database: true, disk: true, listeners: true } });
      assert.match((await gauges(app)).join(), /listener="mx"\} 1/);
    });
  }
});
