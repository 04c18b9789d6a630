import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { logAcceptErrors } from '../../src/net/listening.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

describe('net/accept-errors', () => {
  let lines: Record<string, unknown>[];
  const log = { error: (fields: Record<string, unknown>) => void lines.push(fields) };
  beforeEach(() => {
    lines = [];
  });

  it('tells of connections that could not be accepted once a minute, and the server goes on', async () => {
    const clock = new FakeClock();
    const server = createServer();
    logAcceptErrors({ clock, log }, server, 'http');
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const fault = Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' });
    for (let i = 0; i < 5; i++) server.emit('error', fault);
    clock.advance(60_000);
    server.emit('error', fault);
    assert.deepEqual(
      lines.map(({ event, server: what, unreported }) => [event, what, unreported]),
      [
        ['accept_failed', 'http', 0],
        ['accept_failed', 'http', 4],
      ],
    );
    assert.ok(server.listening);
    server.close();
    await once(server, 'close');
  });

  it('leaves the error of a port that cannot be had to whoever wanted it', async () => {
    const first = createServer().listen(0, '127.0.0.1');
    await once(first, 'listening');
    const address = first.address();
    assert.ok(typeof address === 'object' && address !== null);
    const second = createServer();
    logAcceptErrors({ clock: new FakeClock(), log }, second, 'http');
    second.listen(address.port, '127.0.0.1');
    const [error] = (await once(second, 'error')) as [NodeJS.ErrnoException];
    assert.deepEqual([error.code, lines], ['EADDRINUSE', []]);
    first.close();
    await once(first, 'close');
  });
});
