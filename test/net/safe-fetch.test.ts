import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import {
  createSafeFetch,
  MOST_BYTES,
  type Fetched,
  type SafeFetch,
  type SafeFetchOptions,
} from '../../src/net/safe-fetch.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';
import { server as certificate, expired, testCa } from '../support/harness/certificate.ts';
import { corpus, NO_CORPORA } from '../support/harness/corpora.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import { endlessAnswers, sendWithoutEnd } from '../support/fakes/endless-answers.ts';
import { startReceiver, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';
import type { Zones } from '../support/fakes/zones.ts';

/** The time to connect is that of the system's clock: a busy machine may need more than the usual five seconds for TLS. */
const LOOPBACK = {
  allowHttp: true,
  allowCidrs: ['127.0.0.0/8'],
  ownAddresses: () => ['127.0.0.1'],
  connectMs: 300_000,
};

describe('base/safe-fetch', () => {
  let clock: FakeClock;
  let resolver: FakeResolver;
  const open: { close(): void | Promise<void> }[] = [];

  beforeEach(() => {
    clock = new FakeClock();
    resolver = new FakeResolver();
  });
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await one.close();
    assert.equal(clock.nextAt(), null, 'a timer was left');
  });

  function fetcher(options: Partial<SafeFetchOptions> = {}, zones: Zones = {}): SafeFetch {
    resolver.zones = zones;
    const fetch = createSafeFetch({ resolver, clock }, { ...LOOPBACK, ...options });
    open.push(fetch);
    return fetch;
  }

  async function receiving(options: Parameters<typeof startReceiver>[0] = {}): Promise<WebhookReceiver> {
    const receiver = await startReceiver(options);
    open.push(receiver);
    return receiver;
  }

  /** A listener that does what it likes with what connects. */
  async function rawServer(on: (socket: Socket) => void): Promise<number> {
    const sockets = new Set<Socket>();
    const server: Server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      on(socket);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    open.push({
      async close() {
        for (const socket of sockets) socket.destroy();
        await new Promise((resolve) => server.close(resolve));
      },
    });
    return (server.address() as AddressInfo).port;
  }

  /** Resolves when the socket closes, in whichever way. */
  const closing = (socket: Socket): Promise<void> =>
    new Promise((resolve) => void socket.once('close', () => resolve()));

  const post = (fetch: SafeFetch, url: string, headers: Record<string, string> = {}): Promise<Fetched> =>
    fetch.send({ method: 'POST', url, headers: { 'Content-Type': 'text/plain', ...headers }, body: 'hello' });

  function why(fetched: Fetched): string {
    assert.ok(fetched.kind === 'failed', JSON.stringify(fetched));
    return fetched.why;
  }

  it('posts, and gives status, headers and body', async () => {
    const receiver = await receiving();
    receiver.answer = { status: 201, headers: { 'X-One': 'two' }, body: 'done' };
    const fetched = await post(fetcher(), receiver.url, { 'X-Own': 'yes' });
    assert.ok(fetched.kind === 'answered');
    assert.deepEqual([fetched.status, fetched.headers['x-one'], fetched.body.toString()], [201, 'two', 'done']);
    const [call] = receiver.calls;
    assert.deepEqual([call?.body, call?.headers['x-own'], call?.path], ['hello', 'yes', '/hook']);
  });

  it('uses a connection again', async () => {
    const receiver = await receiving();
    const fetch = fetcher();
    const sockets = (): number => new Set(receiver.calls.slice(-3).map(({ socket }) => socket)).size;
    // A connection is kept for four seconds of the system's clock, which a busy machine may let pass between two calls.
    do for (let n = 0; n < 3; n++) assert.equal((await post(fetch, receiver.url)).kind, 'answered');
    while (sockets() > 1);
  });

  it('closes an unused connection soon, however long the other side would keep it', async () => {
    const sockets: Socket[] = [];
    const port = await rawServer((socket) => {
      sockets.push(socket);
      socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nKeep-Alive: timeout=600\r\nContent-Length: 0\r\n\r\n'));
    });
    assert.equal((await post(fetcher(), `http://127.0.0.1:${String(port)}/`)).kind, 'answered');
    const [socket = assert.fail()] = sockets;
    await once(socket, 'close', { signal: AbortSignal.timeout(60_000) });
  });

  it('makes a new connection where the kept one was closed just then', async () => {
    const receiver = await receiving();
    const fetch = fetcher();
    assert.equal((await post(fetch, receiver.url)).kind, 'answered');
    receiver.calls[0]?.socket.resetAndDestroy();
    assert.equal((await post(fetch, receiver.url)).kind, 'answered');
    assert.equal(receiver.calls.length, 2);
  });

  it('connects to the vetted address, and says the name in Host and SNI', async () => {
    const receiver = await receiving({ tls: certificate });
    const fetch = fetcher({ ca: testCa }, { 'mx1.dest.test A': ['127.0.0.1'] });
    const fetched = await post(fetch, `https://mx1.dest.test:${String(receiver.port)}/x`);
    assert.ok(fetched.kind === 'answered', JSON.stringify(fetched));
    assert.equal(receiver.calls[0]?.headers.host, `mx1.dest.test:${String(receiver.port)}`);
    assert.deepEqual(resolver.asked, ['mx1.dest.test A', 'mx1.dest.test AAAA']);
  });

  it('accepts a certificate for an address, where the URL has one', async () => {
    const receiver = await receiving({ tls: certificate });
    assert.equal((await post(fetcher({ ca: testCa }), receiver.url)).kind, 'answered');
  });

  describe('verifies', () => {
    for (const [name, options, tls, reason] of [
      ['other.test', { ca: testCa }, certificate, 'a certificate for another name'],
      ['mx1.dest.test', {}, certificate, 'a certificate of nobody we trust'],
      ['mx1.dest.test', { ca: testCa }, expired, 'a certificate that has expired'],
    ] as const) {
      it(`and refuses ${reason}`, async () => {
        const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
        const receiver = await receiving({ tls });
        const fetch = fetcher(options, { [`${name} A`]: ['127.0.0.1'] });
        try {
          assert.equal(why(await post(fetch, `https://${name}:${String(receiver.port)}/`)), 'broken');
        } finally {
          if (before !== undefined) process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before;
        }
        assert.equal(receiver.calls.length, 0);
      });
    }
  });

  describe('reaches nothing that only we can reach', () => {
    for (const [host, zones, reason] of [
      ['127.0.0.1', {}, 'loopback'],
      ['2130706433', {}, 'loopback as one number'],
      ['0x7f000001', {}, 'loopback in hex'],
      ['0177.0.0.1', {}, 'loopback in octal'],
      ['127.1', {}, 'loopback, shortened'],
      ['[::1]', {}, 'loopback of IPv6'],
      ['[::ffff:127.0.0.1]', {}, 'loopback, mapped'],
      ['[64:ff9b::7f00:1]', {}, 'loopback by NAT64'],
      ['[2002:7f00:1::]', {}, 'loopback by 6to4'],
      ['[2001:0:7f00:1::]', {}, 'Teredo'],
      ['169.254.169.254', {}, 'the metadata service'],
      ['0', {}, 'this host'],
      ['inside.test', { 'inside.test A': ['10.0.0.5'] }, 'a name for a private address'],
      ['inside.test', { 'inside.test AAAA': ['::ffff:10.0.0.5'] }, 'a name for a mapped one'],
      [
        'inside.test',
        { 'inside.test A': ['127.0.0.1', '192.168.0.1'], 'inside.test AAAA': ['fe80::1'] },
        'a name for nothing else',
      ],
      ['alias.test', { 'alias.test CNAME': ['inside.test'], 'inside.test A': ['10.0.0.5'] }, 'an alias of such a name'],
    ] as const) {
      it(`${host}: ${reason}`, async () => {
        const fetch = fetcher({ allowCidrs: [] }, zones);
        assert.equal(why(await post(fetch, `http://${host}:8080/`)), 'forbidden');
        assert.equal((await fetch.vet(`http://${host}:8080/`)).kind, 'forbidden');
      });
    }

    it('by any of the URLs that others collected for it', async function () {
      const folder = corpus('security');
      if (folder === null) return this.skip(NO_CORPORA);
      const { must_block: lists } = JSON.parse(readFileSync(path.join(folder, 'ssrf-urls.json'), 'utf8')) as {
        must_block: Record<string, string[]>;
      };
      const urls = Object.values(lists).flat();
      assert.ok(urls.length > 50);
      // Their names lead to where such names lead.
      const names = urls.flatMap((url) => (URL.canParse(url) ? [new URL(url).hostname.replace(/\.$/, '')] : []));
      const zones = Object.fromEntries(names.map((name) => [`${name} A`, ['127.0.0.1']]));
      const fetch = fetcher({ allowCidrs: [], ownAddresses: () => [] }, zones);
      for (const url of urls) {
        assert.match(why(await post(fetch, url)), /^(?:url|forbidden)$/, url);
        assert.match((await fetch.vet(url)).kind, /^(?:bad|forbidden)$/, url);
      }
      return undefined;
    });

    it('itself, by its public address', async () => {
      const fetch = fetcher({ allowCidrs: [], ownAddresses: () => ['198.41.0.4'] }, { 'us.test A': ['198.41.0.4'] });
      assert.equal(why(await post(fetch, 'https://us.test/')), 'forbidden');
    });

    it('by a name that changes between two looks: there is one look, that of the connection', async () => {
      const receiver = await receiving();
      const fetch = fetcher({ allowCidrs: ['127.0.0.1/32'] });
      const url = `http://flip.test:${String(receiver.port)}/`;
      let again: Fetched;
      // On a busy machine the four seconds for which a connection is kept may be over before the second call.
      do {
        resolver.asked.length = 0;
        resolver.zones = { 'flip.test A': ['127.0.0.1'] };
        assert.equal((await post(fetch, url)).kind, 'answered');
        assert.equal(resolver.asked.length, 2);
        resolver.zones = { 'flip.test A': ['127.0.0.2'] };
        again = await post(fetch, url);
      } while (again.kind !== 'answered');
      assert.equal(resolver.asked.length, 2, 'the kept connection leads to the address that was vetted');
      const calls = receiver.calls.length;
      receiver.calls.at(-1)?.socket.resetAndDestroy();
      assert.equal(why(await post(fetch, url)), 'forbidden');
      assert.equal(receiver.calls.length, calls);
    });

    it('but the public ones among several addresses', async () => {
      const receiver = await receiving();
      const fetch = fetcher({ allowCidrs: ['127.0.0.1/32'] }, { 'both.test A': ['10.0.0.1', '127.0.0.1'] });
      assert.equal((await post(fetch, `http://both.test:${String(receiver.port)}/`)).kind, 'answered');
    });

    it('by a redirect, which is an answer like any other', async () => {
      const target = await receiving();
      const receiver = await receiving();
      receiver.answer = { status: 307, headers: { location: target.url } };
      const fetched = await post(fetcher(), receiver.url);
      assert.ok(fetched.kind === 'answered' && fetched.status === 307);
      assert.equal(target.calls.length, 0);
    });

    it('by a proxy of the environment', async () => {
      const proxy = await receiving();
      const receiver = await receiving();
      const names = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'all_proxy', 'ALL_PROXY'];
      const before = names.map((name) => process.env[name]);
      for (const name of names) process.env[name] = proxy.url;
      try {
        assert.equal((await post(fetcher(), receiver.url)).kind, 'answered');
      } finally {
        for (const [at, name] of names.entries()) {
          if (before[at] === undefined) Reflect.deleteProperty(process.env, name);
          else process.env[name] = before[at];
        }
      }
      assert.deepEqual([proxy.calls.length, receiver.calls.length], [0, 1]);
    });

    it('by a URL of another kind', async () => {
      const fetch = fetcher({ allowHttp: false });
      for (const url of [
        'http://hooks.test/',
        'file:///etc/passwd',
        'https://a:b@hooks.test/',
        'https://hooks.test:25/',
        'x',
      ])
        assert.equal(why(await post(fetch, url)), 'url', url);
      assert.deepEqual(resolver.asked, []);
    });
  });

  it('tries the next address where one cannot be reached', async () => {
    const receiver = await receiving();
    // 127.0.0.2 is loopback too, but no server listens there.
    const fetch = fetcher({}, { 'two.test A': ['127.0.0.2', '127.0.0.1'] });
    assert.equal((await post(fetch, `http://two.test:${String(receiver.port)}/`)).kind, 'answered');
  });

  it('says that nobody listens', async () => {
    const port = await rawServer(() => undefined);
    await open.pop()?.close();
    assert.equal(why(await post(fetcher(), `http://127.0.0.1:${String(port)}/`)), 'broken');
  });

  it('says that a name does not resolve; registration lets it pass', async () => {
    for (const zones of [{}, { 'gone.test A': 'SERVFAIL' }] as unknown as Zones[]) {
      const fetch = fetcher({}, zones);
      assert.equal(why(await post(fetch, 'https://gone.test/')), 'dns');
      assert.deepEqual(await fetch.vet('https://gone.test'), { kind: 'ok', href: 'https://gone.test/' });
    }
  });

  it('gives up on a connection that does not come about in time', async () => {
    // The TCP connection opens at once, but nothing answers the TLS hello.
    const port = await rawServer(() => undefined);
    const answer = await post(fetcher({ ca: testCa, connectMs: 20 }), `https://127.0.0.1:${String(port)}/`);
    assert.match(answer.kind === 'failed' ? answer.text : '', /^no answer: Connect Timeout Error/);
  });

  it('says in words why TLS failed, without what OpenSSL puts around it', async () => {
    const port = await rawServer((socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    const answer = await post(fetcher({ ca: testCa }), `https://127.0.0.1:${String(port)}/`);
    assert.match(
      answer.kind === 'failed' ? answer.text : '',
      /^no answer: TLS failed: the other side does not speak TLS on this port \((?:wrong version number|packet length too long)\)$/,
    );
  });

  for (const [text, said] of [
    ['an answer that never begins', ''],
    ['a head that never ends', 'HTTP/1.1 200 OK\r\nX-A: 1\r\n'],
    ['a body that never ends', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc'],
  ] as const) {
    it(`gives up after 15 s: ${text}`, async () => {
      let met = (): void => undefined;
      const seen = new Promise<void>((resolve) => (met = resolve));
      const port = await rawServer((socket) =>
        socket.once('data', () => {
          // With something to say: it has left this side when `met` is called.
          if (said === '') met();
          else socket.write(said, met);
        }),
      );
      const answer = post(fetcher(), `http://127.0.0.1:${String(port)}/`);
      await seen;
      await settleEventLoop();
      clock.advance(15_000);
      assert.equal(why(await answer), 'timeout');
    });
  }

  for (const [text, bytes] of [
    ['no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['nothing', ''],
    ['half a head', 'HTTP/1.1 200 OK\r\nX-A'],
    ['half a body', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd'],
    ['an upgrade nobody asked for', 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'],
    ['a head without end', `HTTP/1.1 200 OK\r\n${`X-A: ${'a'.repeat(1000)}\r\n`.repeat(100)}\r\n`],
  ] as const) {
    it(`calls an answer broken that is ${text}`, async () => {
      const port = await rawServer((socket) => socket.once('data', () => socket.end(bytes)));
      assert.equal(why(await post(fetcher(), `http://127.0.0.1:${String(port)}/`)), 'broken');
    });
  }

  it('reads 64 KiB of an answer and no more', async () => {
    const receiver = await receiving();
    receiver.answer = { status: 200, body: Buffer.alloc(5_000_000, 'x') };
    const fetched = await post(fetcher(), receiver.url);
    assert.ok(fetched.kind === 'answered');
    assert.equal(fetched.body.length, MOST_BYTES);
    const { socket } = receiver.calls[0] ?? assert.fail();
    while (!socket.destroyed) await turn();
  });

  it('takes an answer after a few informational ones', async () => {
    const port = await rawServer((socket) =>
      socket.once('data', () => {
        socket.write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(3));
        socket.write('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n');
      }),
    );
    const fetched = await post(fetcher(), `http://127.0.0.1:${String(port)}/`);
    assert.equal(fetched.kind === 'answered' && fetched.status, 204);
  });

  for (const { what, begin, piece } of endlessAnswers)
    it(`ends an answer that never ends: ${what}`, async () => {
      const gone: Promise<void>[] = [];
      const port = await rawServer((socket) => {
        gone.push(closing(socket));
        socket.once('data', () => sendWithoutEnd(socket, begin, piece));
      });
      const fetched = await post(fetcher(), `http://127.0.0.1:${String(port)}/`);
      assert.deepEqual(fetched, {
        kind: 'failed',
        why: 'broken',
        text: 'no answer: more than 80 KiB came without an end',
      });
      assert.equal(gone.length, 1, 'it is not sent again');
      await gone[0];
    });

  it('counts what comes on a kept connection before the next request, and begins anew with each', async () => {
    const sockets: Socket[] = [];
    const port = await rawServer((socket) => {
      sockets.push(socket);
      socket.on('data', () => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n${'x'.repeat(60_000)}`));
    });
    const fetch = fetcher();
    for (let n = 0; n < 4; n++) {
      const fetched = await post(fetch, `http://127.0.0.1:${String(port)}/`);
      assert.equal(fetched.kind === 'answered' && fetched.body.length, 60_000);
    }
    const last = sockets.at(-1) ?? assert.fail();
    const gone = closing(last);
    sendWithoutEnd(last, '', '\r\n'.repeat(500));
    await gone;
  });

  it('counts what TLS puts around an answer', async () => {
    const server = createTlsServer(certificate, (socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n');
        let left = 20_000;
        // Each byte becomes a record of its own.
        const next = (): void => {
          if (left-- > 0) socket.write('x', next);
        };
        next();
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    open.push({ close: () => new Promise<void>((resolve) => void server.close(() => resolve())) });
    const { port } = server.address() as AddressInfo;
    assert.equal(why(await post(fetcher({ ca: testCa }), `https://127.0.0.1:${String(port)}/`)), 'broken');
  });

  it('ends what is under way when it is closed, and takes nothing after', async () => {
    const receiver = await receiving();
    receiver.answer = 'hang';
    const fetch = fetcher();
    const answer = post(fetch, receiver.url);
    await receiver.reached(1);
    fetch.close();
    assert.equal(why(await answer), 'closed');
    assert.equal(why(await post(fetch, receiver.url)), 'closed');
  });

  it('looks a name up for registration as for a call', async () => {
    const fetch = fetcher({ allowCidrs: [], allowHttp: false }, { 'ok.test A': ['8.8.8.8', '10.0.0.1'] });
    assert.deepEqual(await fetch.vet('https://OK.test'), { kind: 'ok', href: 'https://ok.test/' });
    assert.equal((await fetch.vet('http://ok.test/')).kind, 'bad');
  });
});
