import assert from 'node:assert/strict';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { AddressMemory, connectFirst } from '../../../src/mta/connection/connect.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { startMailServer } from '../../support/fakes/fake-mail-server.ts';
import type { FakeMailServer } from '../../support/fakes/fake-mail-server.ts';

/** Listens and never accepts: once its queue is full, the kernel drops what comes, as a firewall would. */
const silent = `
  const { parentPort, workerData } = require('node:worker_threads');
  const server = require('node:net').createServer();
  server.listen({ host: '127.0.0.7', port: workerData, backlog: 1 }, () => {
    parentPort.postMessage('listening');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });`;

async function startSilent(port: number): Promise<() => Promise<void>> {
  const worker = new Worker(silent, { eval: true, workerData: port });
  await new Promise((resolve) => worker.once('message', resolve));
  const fillers: Socket[] = [];
  for (let at = 0; at < 4; at++) fillers.push(connect({ host: '127.0.0.7', port }).on('error', () => undefined));
  // A backlog of one takes two.
  await Promise.all(fillers.slice(0, 2).map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
  return async () => {
    for (const socket of fillers) socket.destroy();
    await worker.terminate();
  };
}

describe('mta/connection/connect', () => {
  let server: FakeMailServer;
  let clock: FakeClock;
  beforeEach(async () => {
    server = await startMailServer();
    clock = new FakeClock();
  });
  afterEach(() => server.close());

  it('gives a dead address two seconds before the next is tried in parallel', async () => {
    const stop = await startSilent(server.port);
    const connecting = connectFirst(
      { clock },
      { ips: ['127.0.0.7', '127.0.0.1'], port: server.port, timeoutMs: 30_000 },
    );
    clock.advance(1999);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(server.sessions.length, 0);
    clock.advance(1);
    const connected = await connecting;
    assert.deepEqual([connected.kind, connected.ip], ['connected', '127.0.0.1']);
    assert.equal(clock.nextAt(), null);
    if (connected.kind === 'connected') connected.socket.destroy();
    await stop();
  });

  it('bug: an address that is silent was tried first again for each connection', async () => {
    const stop = await startSilent(server.port);
    const addresses = new AddressMemory();
    const target = { ips: ['127.0.0.7', '127.0.0.1'], port: server.port, timeoutMs: 30_000 };
    const connectNow = async (): Promise<string> => {
      const connected = await connectFirst({ clock, addresses }, target);
      if (connected.kind === 'connected') connected.socket.destroy();
      return `${connected.kind} ${connected.ip}`;
    };
    const first = connectNow();
    clock.advance(2000);
    assert.equal(await first, 'connected 127.0.0.1');
    // No time passes.
    assert.equal(await connectNow(), 'connected 127.0.0.1');
    clock.advance(5 * 60_000);
    const later = connectNow();
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(clock.nextAt(), clock.now() + 2000, 'then it may begin again');
    clock.advance(2000);
    assert.equal(await later, 'connected 127.0.0.1');
    await stop();
  });

  it('fails when the last address has had its time', async () => {
    const stop = await startSilent(server.port);
    const connecting = connectFirst({ clock }, { ips: ['127.0.0.7'], port: server.port, timeoutMs: 30_000 });
    clock.advance(30_000);
    assert.deepEqual(await connecting, {
      kind: 'failed',
      ip: '127.0.0.7',
      text: 'no connection to 127.0.0.7 within 30 s',
    });
    const given = new AbortController();
    const ended = connectFirst(
      { clock },
      { ips: ['127.0.0.7'], port: server.port, timeoutMs: 30_000, signal: given.signal },
    );
    given.abort('given up: the program stops');
    assert.deepEqual(await ended, { kind: 'failed', ip: '127.0.0.7', text: 'given up: the program stops' });
    assert.equal(clock.nextAt(), null);
    await stop();
  });

  it('tries the next address at once when one refuses, and never more than eight', async () => {
    const refusing = Array.from({ length: 7 }, (_, at) => `127.0.1.${String(at + 1)}`);
    const found = await connectFirst(
      { clock },
      { ips: [...refusing, '127.0.0.1'], port: server.port, timeoutMs: 1000 },
    );
    assert.equal(found.kind, 'connected');
    found.socket.destroy();
    const many = await connectFirst(
      { clock },
      { ips: [...refusing, '127.0.1.8', '127.0.0.1'], port: server.port, timeoutMs: 1000 },
    );
    assert.deepEqual([many.kind, many.ip], ['failed', '127.0.1.8']);
  });

  it('closes the connection that came second', async () => {
    const connecting = connectFirst(
      { clock },
      { ips: ['127.0.0.1', '127.0.0.1'], port: server.port, timeoutMs: 30_000 },
    );
    clock.advance(2000);
    const result = await connecting;
    assert.equal(clock.nextAt(), null);
    if (result.kind === 'connected') result.socket.destroy();
    await Promise.all(server.sessions.map(({ closed }) => closed));
  });

  it('takes families in turn, and a source only for its own', async () => {
    let six: FakeMailServer | null = null;
    while (six === null)
      try {
        six = await startMailServer({ listen: { host: '::1', port: server.port } });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
        // Another program has this port at ::1.
        await server.close();
        server = await startMailServer();
      }
    // 127.0.0.9 refuses; next in turn is IPv6, although it is last. A source of IPv4 must not hinder it.
    const found = await connectFirst(
      { clock },
      { ips: ['127.0.0.9', '127.0.0.1', '::1'], port: server.port, localAddresses: ['127.0.0.3'], timeoutMs: 1000 },
    );
    assert.deepEqual([found.kind, found.ip], ['connected', '::1']);
    if (found.kind === 'connected') found.socket.destroy();
    const four = await connectFirst(
      { clock },
      { ips: ['127.0.0.1', '::1'], port: server.port, localAddresses: ['127.0.0.3'], timeoutMs: 1000 },
    );
    assert.equal(four.kind === 'connected' && four.socket.localAddress, '127.0.0.3');
    if (four.kind === 'connected') four.socket.destroy();
    await six.close();
  });
});
