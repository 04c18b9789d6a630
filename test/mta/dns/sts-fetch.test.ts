import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import { createStsFetch } from '../../../src/mta/dns/sts.ts';
import type { DnsAnswer } from '../../../src/net/resolver.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { endlessAnswers, sendWithoutEnd } from '../../support/fakes/endless-answers.ts';
import { stsServer } from '../../support/harness/certificate.ts';

const found: Extract<DnsAnswer<string>, { kind: 'found' }> = {
  kind: 'found',
  records: ['127.0.0.1'],
  name: 'mta-sts.dest.test',
  ttl: 60,
  secure: false,
};

describe('mta/dns/sts-fetch', () => {
  /** Fetches the policy from a web server that answers in this way, on a clock that stands still. */
  async function fetchFrom(
    answer: (socket: TLSSocket) => void,
    { port: wanted = 0, before = [] }: { port?: number; before?: readonly string[] } = {},
  ) {
    const sockets = new Set<TLSSocket>();
    const server = createServer(stsServer, (socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('data', () => answer(socket));
    });
    server.listen(wanted, '127.0.0.1');
    await once(server, 'listening');
    const resolver = {
      a: () => Promise.resolve({ ...found, records: [...before, '127.0.0.1'] }),
      aaaa: () => Promise.resolve({ kind: 'no_data' } as const),
    };
    const { port } = server.address() as AddressInfo;
    const fetch = createStsFetch(
      { clock: new FakeClock(), resolver },
      { allowPrivate: true, port, ca: stsServer.cert },
    );
    const fetched = await fetch('dest.test');
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
    return fetched;
  }

  for (const [what, break_] of [
    ['closes the connection', (socket: Socket) => socket.end()],
    ['resets it', (socket: Socket) => socket.resetAndDestroy()],
    ['has no TLS', (socket: Socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')],
  ] as const)
    it(`asks the next address where the first takes the connection and ${what}`, async () => {
      const broken = createTcpServer((socket) => {
        socket.on('error', () => undefined);
        socket.resume();
        break_(socket);
      });
      broken.listen(0, '127.0.0.2');
      await once(broken, 'listening');
      const { port } = broken.address() as AddressInfo;
      const fetched = await fetchFrom((socket) => socket.write(answer), { port, before: ['127.0.0.2'] });
      await new Promise((resolve) => broken.close(resolve));
      assert.deepEqual(fetched, { kind: 'text', text: policy });
    });

  const information = 'HTTP/1.1 103 Early Hints\r\n\r\n';
  const policy = 'version: STSv1\r\nmode: enforce\r\nmx: mx.dest.test\r\nmax_age: 86400\r\n';
  const answer = `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${String(policy.length)}\r\n\r\n${policy}`;

  it('reads a policy behind a few informational answers', async () => {
    const fetched = await fetchFrom((socket) => socket.write(information.repeat(10) + answer));
    assert.deepEqual(fetched, { kind: 'text', text: policy });
  });

  for (const { what, begin, piece } of [
    ...endlessAnswers,
    { what: 'a body', begin: 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n', piece: 'x'.repeat(1000) },
  ])
    it(`gives up an answer that never ends: ${what}`, async () => {
      const fetched = await fetchFrom((socket) => sendWithoutEnd(socket, begin, piece));
      assert.ok(fetched.kind === 'failed');
      // Node's own parser limits the extensions of a chunk.
      assert.match(fetched.why, /^(?:more than 80 KiB came without an end|Parse Error: Chunk extensions overflow)$/);
    });
});
