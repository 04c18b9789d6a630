import assert from 'node:assert/strict';
import net from 'node:net';
import { catalogue } from '../../src/base/problem.ts';
import type { ProblemCode } from '../../src/base/problem.ts';
import { KEY, startHarness } from './harness.ts';
import type { Harness } from './harness.ts';

/** Envelope and headers of a raw answer, as strict as for those that come through the router. */
function assertRaw(text: string, code: ProblemCode, why: string): void {
  const [head = '', body = ''] = text.split('\r\n\r\n');
  assert.match(head, new RegExp(`^HTTP/1\\.1 ${catalogue[code].status} `), `${why}: ${text.slice(0, 60)}`);
  for (const name of [
    'X-Request-Id',
    'X-RateLimit-Limit',
    'X-RateLimit-Remaining',
    'X-RateLimit-Reset',
    'RateLimit',
    'Cache-Control',
    'X-Content-Type-Options',
    'Date',
    'Content-Length',
  ]) {
    assert.match(head, new RegExp(`\\r\\n${name}: .`), `${why}: no ${name}`);
  }
  assert.match(head, /\r\nContent-Type: application\/json; charset=utf-8(\r\n|$)/, why);
  const { error } = JSON.parse(body) as { error: Record<string, unknown> };
  assert.deepEqual(Object.keys(error), ['code', 'message', 'field', 'request_id'], why);
  assert.equal(error['code'], code, why);
  assert.ok(head.includes(`X-Request-Id: ${String(error['request_id'])}`), why);
}

describe('api/client-errors', () => {
  let h: Harness;
  before(async () => {
    h = await startHarness({ settings: { anonymousPerMinute: 1000 } });
  });
  after(() => h.stop());

  const rows: [text: string, code: ProblemCode, why: string][] = [
    ['nonsense\r\n\r\n', 'invalid_request', 'no HTTP'],
    ['GET /v1/messages\r\n\r\n', 'invalid_request', 'no version'],
    ['BREW /v1/messages HTTP/1.1\r\nHost: x\r\n\r\n', 'invalid_request', 'a method HTTP does not know'],
    ['GET /v1/messages HTTP/1.1\r\nHost : x\r\n\r\n', 'invalid_request', 'space before the colon'],
    ['GET /v1/messages HTTP/1.1\r\nHost: x\r\nX: a\u0000b\r\n\r\n', 'invalid_request', 'NUL in a header'],
    ['GET /v1/mess ages HTTP/1.1\r\nHost: x\r\n\r\n', 'invalid_request', 'space in the path'],
    [
      `GET /v1/messages HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`,
      'invalid_request',
      'headers over 16 KiB',
    ],
    [`GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 'invalid_request', 'path over 16 KiB'],
    [
      'POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
      'invalid_request',
      'two lengths: request smuggling',
    ],
    ['POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n', 'invalid_request', 'length is no number'],
    ['CONNECT example.net:443 HTTP/1.1\r\nHost: x\r\n\r\n', 'invalid_request', 'no proxy'],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'invalid_request', 'HTTP/2 preface'],
    [
      '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003',
      'invalid_request',
      'a TLS hello on the plain port',
    ],
    ['GET /v1/messages HTTP/1.1\r\nConnection: close\r\n\r\n', 'invalid_request', 'no Host'],
    ['GET /v1/messages HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n', 'invalid_request', 'two Hosts'],
    ['GET /v1/%c3%28 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 'invalid_request', 'undecodable path'],
    [
      'GET /v1/messages HTTP/1.1\r\nHost: a\r\nExpect: x\r\nConnection: close\r\n\r\n',
      'expectation_failed',
      'expectation',
    ],
    ['GET http://[ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n', 'invalid_request', 'a target that is no URL'],
    ['GET /v1/nothing HTTP/1.0\r\n\r\n', 'not_found', 'HTTP/1.0 needs no Host'],
    [
      `POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      'invalid_request',
      'damaged chunk in a body that is being read',
    ],
  ];
  for (const [text, code, why] of rows) {
    it(`answers ${code}: ${why}`, async () => {
      assertRaw(await h.raw(text), code, why);
    });
  }

  it('counts garbage against its address', async () => {
    const left = async (): Promise<number> =>
      Number(/X-RateLimit-Remaining: (\d+)/.exec(await h.raw('nonsense\r\n\r\n'))?.[1]);
    const first = await left();
    assert.equal(await left(), first - 1);
  });

  it('answers a good request before the garbage behind it', async () => {
    const text = await h.raw(
      `GET /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n\r\nnonsense\r\n\r\n`,
    );
    assert.match(text, /^HTTP\/1\.1 200 /);
    assertRaw(text.slice(text.indexOf('HTTP/1.1 400')), 'invalid_request', 'second answer');
  });

  it('answers two requests on one connection in order', async () => {
    const one = (limit: number, more: string): string =>
      `GET /v1/messages?limit=${limit} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n${more}\r\n`;
    const text = await h.raw(one(1, '') + one(2, 'Connection: close\r\n'));
    assert.deepEqual(
      [...text.matchAll(/"limit":"(\d)"/g)].map(([, limit]) => limit),
      ['1', '2'],
    );
  });

  it('answers a client that never stops sending garbage', async () => {
    assertRaw(await h.raw('nonsense\r\n\r\n', 'x'.repeat(200_000)), 'invalid_request', 'garbage without end');
  });

  it('says nothing to who has gone', async () => {
    const socket = net.connect(h.port, '127.0.0.1');
    await new Promise<void>((resolve) => socket.once('connect', resolve));
    socket.write('GET /v1/mess');
    socket.resetAndDestroy();
    assert.equal((await h.send('GET', '/v1/messages')).status, 200);
  });
});

describe('api/client-errors: slowness', () => {
  it('answers 408 to a head that does not come', async () => {
    const h = await startHarness({ settings: { headMs: 60 } });
    assertRaw(await h.raw('GET /v1/messages HTTP/1.1\r\nHost: x\r\nX-Slow: '), 'request_timeout', 'slow head');
    assertRaw(await h.raw(), 'request_timeout', 'no head at all');
    await h.stop();
  });

  it('answers 408 to a request that takes too long altogether', async () => {
    const h = await startHarness({ settings: { headMs: 60, requestMs: 120 } });
    const head = `POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n`;
    assertRaw(await h.raw(head, '{'), 'request_timeout', 'slow body');
    await h.stop();
  });
});
