/** The self-test over the whole program: it finds what is well and what is not, and leaves the customers' numbers alone. */
import assert from 'node:assert/strict';
import net from 'node:net';
import type { AddressInfo } from 'node:net';
import { handIn } from '../../src/inbound/self-test.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';

describe('the self-test of bounces', () => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startTestApp();
  });
  afterEach(() => app.stop());

  it('recognises a bounce that it sends to itself, and the numbers of no account change', async () => {
    for (let times = 0; times < 2; times++) {
      const { ok, why } = await app.operator.call('inbound.selfTest', {});
      assert.deepEqual([ok, why], [true, null]);
    }
    const stats = await app.operator.ask('getStats');
    assert.doesNotMatch(JSON.stringify(stats), /"(?:accepted|sent|delivered|bounced)":[1-9]/);
    assert.deepEqual((await app.get<{ data: unknown[] }>('/v1/messages')).body.data, []);
    assert.deepEqual((await app.get<{ data: unknown[] }>('/v1/events?type=sent,delivered,bounced')).body.data, []);
    assert.deepEqual((await app.get<{ data: unknown[] }>('/v1/suppressions')).body.data, []);
    const events = await app.app.db
      .reader<{ type: string; test: number }>('events')
      .select('type', 'test')
      .orderBy('sequence');
    assert.deepEqual(
      events.map(({ type, test }) => `${type} ${String(test)}`),
      ['sent 1', 'delivered 1', 'bounced 1', 'sent 1', 'delivered 1', 'bounced 1'],
    );
    const books = await app.operator.call('books', {});
    assert.ok(books.balanced, books.faults.join());
  });

  it('says what is wrong where the report is never read', async () => {
    await app.app.db.commit.transact((tx) =>
      tx.run("CREATE TRIGGER deaf BEFORE INSERT ON reports BEGIN SELECT RAISE(ABORT, 'no'); END"),
    );
    const { ok, why } = await app.operator.call('inbound.selfTest', {});
    assert.equal(ok, false);
    assert.match(why ?? '', /^the MX listener did not take a bounce: 451 4\.3\.0 /);
  });

  it('says what is wrong where the mail is not delivered in time', async () => {
    await app.app.db.commit.transact((tx) =>
      tx.run("CREATE TRIGGER stuck BEFORE UPDATE ON deliveries BEGIN SELECT RAISE(ABORT, 'no'); END"),
    );
    const armed = app.clock.armed(15_000);
    const result = app.operator.call('inbound.selfTest', {});
    await armed;
    app.clock.advance(15_000);
    const { ok, why } = await result;
    assert.equal(ok, false);
    assert.match(why ?? '', /^a simulated mail was not delivered within 15 s/);
  });
});

describe('handing a mail in', () => {
  const order = {
    host: '127.0.0.1',
    helo: 'a.test',
    from: '',
    to: 'b@a.test',
    mail: Buffer.from('x'),
    patienceMs: 5000,
  };

  for (const [what, script, expected] of [
    ['is told of a refusal', '550 5.7.1 no\r\n', /^550 5\.7\.1 no$/],
    ['is told that nobody stayed', '', /closed/],
  ] as const)
    it(what, async () => {
      const server = net.createServer((socket) => socket.on('error', () => undefined).end(script));
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      const handed = await handIn({ ...order, port });
      assert.match(handed.kind === 'refused' ? handed.why : assert.fail('it was taken'), expected);
      await new Promise((resolve) => server.close(resolve));
    });

  it('waits no longer than it has patience', async () => {
    const sockets: net.Socket[] = [];
    const server = net.createServer((socket) => sockets.push(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const handed = await handIn({ ...order, port, patienceMs: 50 });
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
    assert.match(handed.kind === 'refused' ? handed.why : assert.fail('it was taken'), /greeting/i);
  });
});
