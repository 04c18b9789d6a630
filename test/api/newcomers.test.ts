import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import tls from 'node:tls';
import type { BudgetName } from '../../src/base/budgets.ts';
import { Newcomers } from '../../src/api/newcomers.ts';
import { server as certificate } from '../support/harness/certificate.ts';
import { KEY, startHarness, type Harness } from './harness.ts';

describe('connections of strangers', () => {
  let h: Harness;
  const sockets: net.Socket[] = [];
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await h.stop();
  });

  const connect = async (localAddress = '127.0.0.1'): Promise<net.Socket> => {
    const socket = net.connect({ port: h.port, host: '127.0.0.1', localAddress });
    sockets.push(socket);
    socket.on('error', () => undefined).resume();
    await once(socket, 'connect');
    return socket;
  };
  const closed = async (socket: net.Socket): Promise<void> => {
    if (!socket.closed) await once(socket, 'close');
  };
  const asking = (socket: net.Socket, key: string | null): Promise<string> => {
    socket.write(
      `GET /v1/messages HTTP/1.1\r\nHost: x\r\n${key === null ? '' : `Authorization: Bearer ${key}\r\n`}\r\n`,
    );
    return once(socket, 'data').then(([data]) => String(data).slice(9, 12));
  };

  it('are bounded for each network, and one that shows a key is counted no more', async () => {
    const refused: BudgetName[] = [];
    const newcomers = new Newcomers([], {
      limits: { perNetwork: 3, inAll: 10 },
      usedUp: (budget) => refused.push(budget),
    });
    h = await startHarness({ deps: { newcomers } });
    const [first, second] = [await connect(), await connect(), await connect()];
    await closed(await connect());
    assert.deepEqual(refused, ['http_connections_network']);
    assert.equal(await asking(first, null), '401');
    assert.equal(newcomers.count, 3);
    assert.notEqual(await asking(first, KEY), '401');
    assert.equal(newcomers.count, 2, 'the key makes room for the next');
    const next = await connect();
    assert.equal(await asking(next, null), '401');
    second.destroy();
    await closed(second);
    for (const socket of [first, next]) socket.destroy();
    while (newcomers.count > 1) await turn();
    const last = await connect();
    assert.equal(await asking(last, null), '401');
    assert.equal(newcomers.count, 2);
  });

  it('that a few networks hold open do not keep out a program with a key', async () => {
    const used: BudgetName[] = [];
    const newcomers = new Newcomers([], {
      limits: { perNetwork: 10, inAll: 4 },
      usedUp: (budget) => used.push(budget),
    });
    h = await startHarness({ deps: { newcomers } });
    const unfinished = async (from: string): Promise<net.Socket> => {
      const socket = await connect(from);
      socket.write('GET /v1/messages HTTP/1.1\r\nHost: x\r\nX-A: ');
      return socket;
    };
    const alone = await unfinished('127.21.0.1');
    const many = [await unfinished('127.20.0.1'), await unfinished('127.20.0.2'), await unfinished('127.20.0.3')];
    const program = await connect('127.99.0.1');
    assert.notEqual(await asking(program, KEY), '401');
    await closed(many[0] ?? alone);
    assert.deepEqual(used, ['http_connections']);
    assert.equal(newcomers.count, 3);
    for (const socket of [alone, ...many.slice(1)]) assert.equal(socket.destroyed, false);
  });

  it('give way under TLS too, also in the middle of the handshake', async () => {
    const newcomers = new Newcomers([], { limits: { perNetwork: 10, inAll: 2 } });
    h = await startHarness({ deps: { newcomers }, settings: { tls: certificate } });
    const secure = async (): Promise<tls.TLSSocket> => {
      const socket = tls.connect({ port: h.port, host: '127.0.0.1', rejectUnauthorized: false });
      sockets.push(socket);
      socket.on('error', () => undefined).resume();
      await once(socket, 'secureConnect');
      return socket;
    };
    const [silent, idle] = [await connect(), await secure()];
    const first = await secure();
    await closed(silent);
    const second = await secure();
    await closed(idle);
    assert.notEqual(await asking(first, KEY), '401');
    assert.notEqual(await asking(second, KEY), '401');
  });

  it('are bounded in all', async () => {
    const refused: BudgetName[] = [];
    const newcomers = new Newcomers([], {
      limits: { perNetwork: 3, inAll: 2 },
      usedUp: (budget) => refused.push(budget),
    });
    h = await startHarness({ deps: { newcomers } });
    const first = await connect();
    await Promise.all([connect(), connect()]);
    await closed(first);
    assert.equal(newcomers.count, 2);
    assert.deepEqual(refused, ['http_connections']);
  });

  it('know the TLS session of a connection by its address', async () => {
    const newcomers = new Newcomers([]);
    h = await startHarness({ deps: { newcomers }, settings: { tls: certificate } });
    const socket = tls.connect({ port: h.port, host: '127.0.0.1', rejectUnauthorized: false });
    sockets.push(socket);
    await once(socket, 'secureConnect');
    assert.equal(newcomers.count, 1);
    assert.notEqual(await asking(socket, KEY), '401');
    assert.equal(newcomers.count, 0);
  });

  it('are not counted of a trusted proxy, which brings those of many clients', async () => {
    const newcomers = new Newcomers(['127.0.0.1'], { limits: { perNetwork: 1, inAll: 1 } });
    h = await startHarness({ deps: { newcomers }, settings: { trustedProxies: ['127.0.0.1'] } });
    const sockets = await Promise.all([connect(), connect(), connect()]);
    assert.equal(newcomers.count, 0);
    for (const socket of sockets) assert.equal(await asking(socket, null), '401');
  });
});
