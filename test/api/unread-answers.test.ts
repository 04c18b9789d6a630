/** Answers that a client does not read: they are in memory until it has taken them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import tls from 'node:tls';
import { route } from '../../src/api/route.ts';
import { server as certificate, testCa as ca } from '../support/harness/certificate.ts';
import { KEY, startHarness, type Harness } from './harness.ts';

const MIB = 2 ** 20;
/** More than the operating system takes of a connection that is not read. */
const large = Buffer.alloc(20 * MIB, 'a');
const common = {
  description: 'Large.',
  tag: 'any',
  scope: ['send'],
  responses: { 200: { description: 'Any.', types: ['application/octet-stream'] } },
} as const;
const answer = () => ({ status: 200, bytes: large, type: 'application/octet-stream' });

const routes = [
  route({ ...common, method: 'POST', path: '/v1/computed', operationId: 'renderTemplate', touches: 'nothing' }, answer),
  route({ ...common, method: 'GET', path: '/v1/large', operationId: 'getMessageRaw' }, answer),
  route(
    {
      ...common,
      method: 'POST',
      path: '/v1/large',
      operationId: 'sendMessage',
      act: { says: 'sent', type: 'message' },
    },
    answer,
  ),
];

describe('answers that are not read', () => {
  let h: Harness;
  const sockets: net.Socket[] = [];
  const start = async (unreadMs: number, more: object = {}): Promise<void> => {
    const settings = { unreadMs, body: { heldBytes: 60 * MIB }, ...more };
    h = await startHarness({ routes, settings });
  };
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await h.stop();
  });

  /** Asks, and reads no more than the beginning of the answer; returns its status. */
  async function ask(method: string, isSecure = false, more = ''): Promise<string> {
    const socket = isSecure
      ? tls.connect({ port: h.port, host: '127.0.0.1', ca, checkServerIdentity: () => undefined })
      : net.connect(h.port, '127.0.0.1');
    sockets.push(socket);
    socket.on('error', () => undefined);
    socket.write(`${method} /v1/large HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n${more}\r\n`);
    const [beginning] = (await once(socket, 'data')) as [Buffer];
    socket.pause();
    return beginning.subarray(9, 12).toString();
  }

  const connections = (): Promise<number> =>
    new Promise((resolve) => {
      h.api.server.getConnections((_, count) => {
        resolve(count);
      });
    });

  it('share the memory of bodies: an account cannot have more than its part of it', async () => {
    await start(60_000);
    assert.equal(await ask('GET'), '200');
    assert.equal(await ask('GET'), '503');
    assert.equal(await ask('POST'), '200', 'work that was done is told');
    for (const socket of sockets.splice(0)) socket.destroy();
    while ((await connections()) > 0) await turn();
    assert.equal(await ask('GET'), '200', 'what is read or given up is free again');
  });

  it('share it also when they are given again under an Idempotency-Key', async () => {
    await start(60_000);
    const answers: string[] = [];
    for (let n = 0; n < 3; n++) answers.push(await ask('POST', false, 'Idempotency-Key: one\r\n'));
    assert.deepEqual(answers, ['200', '200', '503']);
  });

  it('are not kept under an Idempotency-Key where they were only computed', async () => {
    await start(60_000);
    const key = { 'idempotency-key': 'one' };
    assert.equal((await h.send('POST', '/v1/computed', { headers: key })).status, 200);
    assert.equal(h.rows.size, 0);
  });

  for (const isSecure of [false, true])
    it(`are given up when their client takes nothing for a while${isSecure ? ', over TLS too' : ''}`, async () => {
      await start(200, isSecure ? { tls: certificate } : {});
      assert.equal(await ask('GET', isSecure), '200');
      while ((await connections()) > 0) await turn();
      assert.equal(await ask('GET', isSecure), '200');
    });

  it('go on to a client that is slow', async () => {
    await start(1000);
    assert.equal(await ask('GET'), '200');
    const [socket] = sockets;
    let bytes = 0;
    socket?.on('data', (piece: Buffer) => {
      bytes += piece.length;
      if (bytes < 19 * MIB) setTimeout(() => socket.resume(), 5);
      socket.pause();
    });
    socket?.resume();
    while (bytes < 19 * MIB && (await connections()) > 0) await turn();
    assert.ok(bytes >= 19 * MIB, String(bytes));
  });
});
