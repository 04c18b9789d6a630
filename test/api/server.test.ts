import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import net from 'node:net';
import { Readable } from 'node:stream';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { z } from 'zod';
import { route } from '../../src/api/route.ts';
import { catalogue } from '../../src/base/problem.ts';
import type { ProblemCode } from '../../src/base/problem.ts';
import { KEY, someCaller, someRoutes, startHarness } from './harness.ts';
import type { Harness, Received, SendOptions } from './harness.ts';

const good = { to: 'ana@example.net' };

/** The headers that every answer of the API has. */
function assertCommon(answer: Received, why: string): void {
  for (const name of [
    'x-ratelimit-limit',
    'x-ratelimit-remaining',
    'x-ratelimit-reset',
    'ratelimit',
    'ratelimit-policy',
    'date',
  ]) {
    assert.ok(answer.headers[name] !== undefined, `${why}: no ${name}`);
  }
  assert.match(String(answer.headers['x-request-id']), /^req_[0-7][0-9a-hjkmnp-tv-z]{25}$/, why);
  assert.equal(answer.headers['x-content-type-options'], 'nosniff', why);
  assert.ok(answer.headers['cache-control'] !== undefined, why);
}

function assertProblem(answer: Received, code: ProblemCode, field: string | null, why: string): void {
  assertCommon(answer, why);
  assert.equal(answer.error.code, code, why);
  assert.equal(answer.status, catalogue[code].status, why);
  assert.deepEqual(Object.keys(answer.json as object), ['error'], why);
  assert.deepEqual(Object.keys(answer.error), ['code', 'message', 'field', 'request_id'], why);
  assert.equal(answer.error.field, field, why);
  assert.equal(answer.error.request_id, answer.headers['x-request-id'], why);
  assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8', why);
  assert.equal(answer.headers['cache-control'], 'no-store', why);
  assert.equal(
    answer.headers['retry-after'] !== undefined,
    answer.status >= 500 || answer.status === 429,
    `${why}: Retry-After`,
  );
  assert.equal(
    answer.headers['www-authenticate']?.startsWith('Bearer realm="api"') ?? false,
    answer.status === 401 || code === 'insufficient_scope',
    `${why}: WWW-Authenticate`,
  );
}

describe('api/server', () => {
  let h: Harness;
  before(async () => {
    h = await startHarness({
      callers: {
        expired: { ...someCaller, expiresAt: 1000 },
        revoked: { ...someCaller, revokedAt: 1000, expiresAt: 1000 },
        later: { ...someCaller, expiresAt: Date.parse('2099-01-01'), revokedAt: Date.parse('2099-01-01') },
        elsewhere: { ...someCaller, allowedIps: ['192.0.2.0/24', '2001:db8::1'] },
        here: { ...someCaller, allowedIps: ['127.0.0.0/8'] },
        reader: { ...someCaller, scopes: ['message:read'] },
        sender: { ...someCaller, scopes: ['send'] },
      },
    });
  });
  after(() => h.stop());

  type Row = [method: string, path: string, options: SendOptions, code: ProblemCode, field: string | null, why: string];
  const text = { 'content-type': 'text/plain' };
  const rows: Row[] = [
    ['GET', '/v1/messages', { key: null }, 'missing_api_key', null, 'no key'],
    [
      'GET',
      '/v1/messages',
      { key: null, headers: { authorization: 'Basic YTpi' } },
      'missing_api_key',
      null,
      'another scheme',
    ],
    [
      'GET',
      '/v1/messages',
      { key: null, headers: { authorization: 'Bearer' } },
      'missing_api_key',
      null,
      'scheme alone',
    ],
    ['GET', '/v1/messages', { key: 'two words' }, 'missing_api_key', null, 'malformed token'],
    ['GET', '/v1/messages', { key: 'ak_live_nonsense' }, 'invalid_api_key', null, 'unknown key'],
    ['GET', '/v1/messages', { key: 'x'.repeat(5000) }, 'missing_api_key', null, 'absurdly long token'],
    ['GET', '/v1/messages', { key: 'toString' }, 'invalid_api_key', null, 'name of an object member'],
    ['GET', '/v1/messages', { key: 'expired' }, 'key_expired', null, 'lifetime over'],
    ['GET', '/v1/messages', { key: 'revoked' }, 'key_revoked', null, 'revoked says more than expired'],
    ['GET', '/v1/messages', { key: 'elsewhere' }, 'ip_not_allowed', null, 'address not on the list'],
    ['POST', '/v1/messages', { key: 'reader', body: good }, 'insufficient_scope', null, 'scope'],
    [
      'POST',
      '/v1/messages',
      { key: 'sender', body: { ...good, recipients: [] } },
      'insufficient_scope',
      null,
      'scope by form of the body',
    ],
    ['GET', '/v1/nothing', {}, 'not_found', null, 'unknown path'],
    ['GET', '/', { key: null }, 'not_found', null, 'outside of the API'],
    ['GET', '/v1/messages/', {}, 'not_found', null, 'a path is exact'],
    ['GET', '/v1/Messages', {}, 'not_found', null, 'a path is case-sensitive'],
    ['GET', '/v1/messages/zzz', {}, 'not_found', 'id', 'no object can have this id'],
    ['PUT', '/v1/messages', {}, 'method_not_allowed', null, 'method'],
    ['TRACE', '/v1/messages', { key: null }, 'method_not_allowed', null, '405 comes before 401'],
    ['GET', '/v1/messages', { headers: { accept: '*/*;q=0' } }, 'not_acceptable', 'Accept', 'JSON forbidden'],
    ['GET', '/v1/messages?limit=x', {}, 'invalid_parameter', 'limit', 'malformed parameter'],
    ['GET', '/v1/messages?limt=1', {}, 'invalid_parameter', 'limt', 'unknown parameter'],
    ['GET', '/v1/messages?limit=%ff', {}, 'invalid_parameter', 'limit', 'undecodable parameter'],
    ['GET', '/v1/messages/msg_1?x=1', {}, 'invalid_parameter', 'x', 'parameter where there is none'],
    ['GET', '/v1/messages/%ff', {}, 'invalid_request', null, 'undecodable path'],
    ['GET', '/v1/messages', { headers: { expect: '200-ok' } }, 'expectation_failed', 'Expect', 'unknown expectation'],
    ['POST', '/v1/messages', { body: '{}', headers: text }, 'unsupported_media_type', null, 'media type'],
    [
      'POST',
      '/v1/messages',
      { body: '{}', headers: { 'content-type': 'application/json; charset=latin1' } },
      'unsupported_media_type',
      null,
      'charset',
    ],
    [
      'POST',
      '/v1/messages',
      { body: '{}', headers: { 'content-encoding': 'br' } },
      'unsupported_media_type',
      null,
      'encoding',
    ],
    ['POST', '/v1/messages', {}, 'invalid_json', null, 'no body'],
    ['POST', '/v1/messages', { body: '{"to":' }, 'invalid_json', null, 'broken'],
    ['POST', '/v1/messages', { body: '[]' }, 'invalid_json', null, 'no object'],
    ['POST', '/v1/messages', { body: '{"to":"a","to":"b"}' }, 'invalid_json', null, 'member twice'],
    ['POST', '/v1/messages', { body: Buffer.from([0x7b, 0xff, 0x7d]) }, 'invalid_json', null, 'not UTF-8'],
    ['POST', '/v1/messages', { body: {} }, 'missing_field', 'to', 'member missing'],
    ['POST', '/v1/messages', { body: { to: 1 } }, 'invalid_type', 'to', 'wrong type'],
    ['POST', '/v1/messages', { body: { to: 'x'.repeat(21) } }, 'field_too_long', 'to', 'too long'],
    ['POST', '/v1/messages', { body: { ...good, subjct: '' } }, 'unknown_field', 'subjct', 'typing error'],
    ['POST', '/v1/fails', { body: { x: 1 } }, 'unknown_field', 'x', 'body where there is none'],
    [
      'POST',
      '/v1/messages',
      { body: good, headers: { 'idempotency-key': 'a b' } },
      'invalid_idempotency_key',
      'Idempotency-Key',
      'space in the key',
    ],
    ['POST', '/v1/fails', {}, 'internal_error', null, 'a fault of ours'],
  ];
  for (const [method, path, options, code, field, why] of rows) {
    it(`${method} ${path.slice(0, 40)} answers ${code}: ${why}`, async () => {
      assertProblem(await h.send(method, path, options), code, field, why);
    });
  }

  /** Each row breaks two rules; the answer names the one that is checked first. */
  const order: [method: string, path: string, options: SendOptions, code: ProblemCode, why: string][] = [
    ['GET', '/v1/nothing', { key: null }, 'not_found', '404 before 401'],
    ['DELETE', '/v1/messages', { key: 'revoked' }, 'method_not_allowed', '405 before 401'],
    ['GET', '/v1/messages', { key: 'revoked', headers: { accept: '*/*;q=0' } }, 'key_revoked', '401 before 406'],
    [
      'POST',
      '/v1/messages',
      { key: 'elsewhere', body: '{', headers: text },
      'ip_not_allowed',
      '403 (address) before 415',
    ],
    ['POST', '/v1/messages', { key: 'reader', body: '{', headers: text }, 'unsupported_media_type', '415 before JSON'],
    ['POST', '/v1/messages', { key: 'reader', body: '{' }, 'invalid_json', 'JSON before scope'],
    [
      'POST',
      '/v1/messages',
      { key: 'reader', body: {}, headers: { 'idempotency-key': '' } },
      'insufficient_scope',
      'scope before the idempotency key',
    ],
    [
      'POST',
      '/v1/messages',
      { body: {}, headers: { 'idempotency-key': '' } },
      'invalid_idempotency_key',
      'idempotency key before fields',
    ],
  ];
  for (const [method, path, options, code, why] of order) {
    it(`checks in order: ${why}`, async () => {
      assert.equal((await h.send(method, path, options)).error.code, code);
    });
  }

  it('answers with the common headers, and Location where there is one', async () => {
    const answer = await h.send('POST', '/v1/messages', { body: good });
    assertCommon(answer, '202');
    assert.equal(answer.status, 202);
    assert.equal(answer.headers.location, '/v1/messages/msg_1');
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
  });

  it('reads every header field of a head that is not too large', async () => {
    const many = 'a:\r\n'.repeat(2100);
    const answer = await h.raw(
      `POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${many}Authorization: Bearer ${KEY}\r\n\r\n`,
    );
    assert.match(answer, /^HTTP\/1.1 400 /, 'the key was read, and the body is missing');
  });

  it('takes keys that end in the future, the allowed address, and the scheme in any case', async () => {
    for (const key of ['later', 'here']) assert.equal((await h.send('GET', '/v1/messages', { key })).status, 200);
    const headers = { authorization: `bEARER ${KEY}` };
    assert.equal((await h.send('GET', '/v1/messages', { key: null, headers })).status, 200);
  });

  it('tells 401s apart by their challenge (RFC 6750)', async () => {
    const none = await h.send('GET', '/v1/messages', { key: null });
    const unknown = await h.send('GET', '/v1/messages', { key: 'ak_live_nonsense' });
    const scope = await h.send('POST', '/v1/messages', { key: 'reader', body: good });
    assert.equal(none.headers['www-authenticate'], 'Bearer realm="api"');
    assert.equal(unknown.headers['www-authenticate'], 'Bearer realm="api", error="invalid_token"');
    assert.equal(scope.headers['www-authenticate'], 'Bearer realm="api", error="insufficient_scope", scope="send"');
    assert.match(scope.error.message, /`send`/);
  });

  it('shows the address it saw to who is refused for it', async () => {
    assert.match((await h.send('GET', '/v1/messages', { key: 'elsewhere' })).error.message, /127\.0\.0\.1/);
  });

  it('keeps the text of a fault to itself and logs it', async () => {
    const answer = await h.send('POST', '/v1/fails');
    assert.ok(!answer.text.includes('secret of the house'));
    assert.ok(h.logged.some((fields) => 'err' in fields && String(fields.err).includes('secret of the house')));
  });

  it('answers OPTIONS without a key and HEAD as GET without its body', async () => {
    const options = await h.send('OPTIONS', '/v1/messages', { key: null });
    assert.equal(options.status, 204);
    assert.equal(options.headers.allow, 'POST, HEAD, GET, OPTIONS');
    assert.equal(options.headers['content-length'], undefined);
    assertCommon(options, 'OPTIONS');
    const unknown = await h.send('OPTIONS', '/v1/nothing', { key: null });
    assertProblem(unknown, 'not_found', null, 'OPTIONS of nothing');
    const [head, get] = [await h.send('HEAD', '/v1/messages'), await h.send('GET', '/v1/messages')];
    assert.equal(head.status, 200);
    assert.equal(head.text, '');
    assert.equal(head.headers['content-length'], get.headers['content-length']);
    assert.equal((await h.send('HEAD', '/v1/messages', { key: null })).status, 401);
  });

  it('names the methods on 405', async () => {
    assert.equal((await h.send('PATCH', '/v1/messages')).headers.allow, 'POST, HEAD, GET, OPTIONS');
  });

  it('answers JSON to who does not ask for it, and 406 only to who forbids it', async () => {
    const accepts: [accept: string, status: number][] = [
      ['text/html', 200],
      ['text/html, */*;q=0', 406],
      ['application/json;q=0', 406],
      ['*/*;q=0, application/json', 200],
      ['application/*;q=0.0', 406],
      ['application/json;q=0.001', 200],
      ['', 200],
    ];
    for (const [accept, status] of accepts) {
      assert.equal((await h.send('GET', '/v1/messages', { headers: { accept } })).status, status, accept);
    }
  });

  it('takes the absolute form of the target', async () => {
    const answer = await h.raw(
      `GET http://api.test/v1/messages?limit=3 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nConnection: close\r\n\r\n`,
    );
    assert.match(answer, /^HTTP\/1\.1 200 /);
    assert.match(answer, /"limit":"3"/);
  });

  it('answers health checks without a key, outside of every rate limit', async () => {
    assert.deepEqual((await h.send('GET', '/healthz', { key: null })).json, { status: 'ok' });
    assert.deepEqual((await h.send('GET', '/readyz', { key: null })).json, {
      status: 'ok',
      checks: { database: true },
    });
  });
});

describe('api/server: rate limits', () => {
  let h: Harness;
  beforeEach(async () => {
    h = await startHarness({
      settings: { anonymousPerMinute: 2, trustedProxies: ['127.0.0.1'] },
      callers: {
        tiny: { ...someCaller, plan: 'tiny', accountId: 'acc_tiny' },
        twin: { ...someCaller, plan: 'tiny', accountId: 'acc_tiny' },
      },
    });
  });
  afterEach(() => h.stop());

  it('counts an account over all its keys, and starts anew with the minute', async () => {
    h.clock.advance(18_000);
    const first = await h.send('GET', '/v1/messages', { key: 'tiny' });
    assert.equal(first.headers['x-ratelimit-limit'], '3');
    assert.equal(first.headers['x-ratelimit-remaining'], '2');
    assert.equal(first.headers['x-ratelimit-reset'], String(Date.parse('2026-01-31T09:31:00Z') / 1000));
    assert.equal(first.headers['ratelimit-policy'], '"default";q=3;w=60');
    assert.equal(first.headers['ratelimit'], '"default";r=2;t=42');
    await h.send('GET', '/v1/nothing', { key: 'twin' });
    await h.send('GET', '/v1/messages', { key: 'twin' });
    const over = await h.send('GET', '/v1/messages', { key: 'tiny' });
    assertProblem(over, 'rate_limited', null, 'fourth of three');
    assert.equal(over.headers['retry-after'], '42');
    assert.equal(over.headers['x-ratelimit-remaining'], '0');
    assert.equal((await h.send('GET', '/v1/messages')).status, 200, 'another account is not concerned');
    h.clock.advance(42_000);
    assert.equal((await h.send('GET', '/v1/messages', { key: 'tiny' })).status, 200);
  });

  it('a bad key is 401 with its cause, however often its address has called', async () => {
    const h = await startHarness({
      settings: { anonymousPerMinute: 2 },
      callers: { expired: { ...someCaller, expiresAt: 1 }, revoked: { ...someCaller, revokedAt: 1 } },
    });
    for (let n = 0; n < 4; n++)
      for (const [key, code] of [
        ['expired', 'key_expired'],
        ['revoked', 'key_revoked'],
        ['unknown', 'invalid_api_key'],
        ['x'.repeat(300), 'invalid_api_key'],
      ] as const) {
        const answer = await h.send('GET', '/v1/messages', { key });
        assertProblem(answer, code, null, key);
        assert.equal(answer.headers['retry-after'], undefined, 'nothing that makes a client try again');
      }
    assertProblem(
      await h.send('GET', '/v1/messages', { key: null }),
      'rate_limited',
      null,
      'they count for the address',
    );
    await h.stop();
  });

  it('counts callers without a valid key by address, and answers 429 to those without any', async () => {
    const from = (ip: string, key: string | null): SendOptions => ({ key, headers: { 'x-forwarded-for': ip } });
    assert.equal((await h.send('GET', '/v1/messages', from('192.0.2.7', null))).status, 401);
    assert.equal((await h.send('GET', '/v1/messages', from('192.0.2.7', 'unknown'))).status, 401);
    assertProblem(await h.send('GET', '/v1/messages', from('192.0.2.7', null)), 'rate_limited', null, 'third of two');
    assert.equal((await h.send('GET', '/v1/openapi.json', from('192.0.2.7', null))).status, 429, 'the document too');
    assert.equal((await h.send('GET', '/v1/nothing', from('192.0.2.7', null))).status, 404, '404 comes before');
    assert.equal(
      (await h.send('GET', '/readyz', from('192.0.2.7', null))).status,
      200,
      'health checks are not counted',
    );
    assert.equal(
      (await h.send('GET', '/v1/messages', from('192.0.2.7', KEY))).status,
      200,
      'a valid key is not concerned',
    );
    assert.equal((await h.send('GET', '/v1/messages', from('192.0.2.8', null))).status, 401, 'nor is another address');
  });
});

describe('api/server: answers', () => {
  const Empty = z.strictObject({});
  const reply = (path: string, handler: Parameters<typeof route>[1]) =>
    route(
      {
        method: 'GET',
        path,
        operationId: 'getStats',
        description: 'Any.',
        tag: 'any',
        scope: ['send'],
        responses: {
          200: {
            description: 'Any.',
            schema: z.record(z.string(), z.string()),
            types: ['text/plain', 'text/event-stream', 'application/octet-stream'],
          },
          204: { description: 'None.' },
          206: { description: 'Some.', schema: Empty },
        },
      },
      handler,
    );
  const long = 'träge '.repeat(400);
  let h: Harness;
  before(async () => {
    h = await startHarness({
      routes: [
        reply('/v1/long', () => ({ status: 200, body: { long } })),
        reply('/v1/none', () => ({ status: 204, body: null })),
        reply('/v1/bytes', () => ({ status: 200, bytes: Buffer.from([1, 2, 3]), type: 'application/octet-stream' })),
        reply('/v1/stream', () => ({ status: 200, stream: Readable.from(['one ', 'two']), type: 'text/event-stream' })),
      ],
    });
  });
  after(() => h.stop());

  it('compresses long JSON as the client accepts it', async () => {
    const br = await h.send('GET', '/v1/long', { headers: { 'accept-encoding': 'gzip, br' } });
    assert.equal(br.headers['content-encoding'], 'br');
    assert.deepEqual(JSON.parse(brotliDecompressSync(br.bytes).toString()), { long });
    const gzip = await h.send('GET', '/v1/long', { headers: { 'accept-encoding': 'gzip, br;q=0' } });
    assert.equal(gzip.headers['content-encoding'], 'gzip');
    assert.deepEqual(JSON.parse(gunzipSync(gzip.bytes).toString()), { long });
    const plain = await h.send('GET', '/v1/long');
    assert.equal(plain.headers['content-encoding'], undefined);
    assert.equal(plain.headers.vary, 'Accept-Encoding');
    assert.deepEqual(plain.json, { long });
  });

  it('answers nothing, bytes and streams as they are', async () => {
    const none = await h.send('GET', '/v1/none');
    assert.equal(none.status, 204);
    assert.equal(none.headers['content-type'], undefined);
    const bytes = await h.send('GET', '/v1/bytes', { headers: { 'accept-encoding': 'gzip' } });
    assert.deepEqual([...bytes.bytes], [1, 2, 3]);
    assert.equal(bytes.headers['content-type'], 'application/octet-stream');
    const stream = await h.send('GET', '/v1/stream', { headers: { 'accept-encoding': 'gzip' } });
    assert.equal(stream.text, 'one two');
    assert.equal(stream.headers['content-encoding'], undefined);
    assert.equal((await h.send('HEAD', '/v1/stream')).text, '');
  });
});

describe('api/server: reads', () => {
  it('are not begun for who has hung up while others ran', async () => {
    const finish: (() => void)[] = [];
    let begun = 0;
    const slow = route(
      {
        method: 'GET',
        path: '/v1/slow',
        operationId: 'getStats',
        description: 'Slow.',
        tag: 'any',
        scope: ['send'],
        responses: { 200: { description: 'Any.', schema: z.object({}) } },
      },
      async () => {
        begun++;
        await new Promise<void>((resolve) => finish.push(resolve));
        return { status: 200, body: {} };
      },
    );
    const lasting = route(
      {
        method: 'GET',
        path: '/v1/lasting',
        operationId: 'listEvents',
        description: 'Lasting.',
        tag: 'any',
        scope: ['send'],
        lasts: true,
        responses: { 200: { description: 'Any.', schema: z.object({}) } },
      },
      () => ({ status: 200, body: {} }),
    );
    let seen = 0;
    const authenticate = (): Promise<{ kind: 'found'; caller: typeof someCaller }> => {
      seen++;
      return Promise.resolve({ kind: 'found', caller: someCaller });
    };
    const h = await startHarness({ routes: [slow, lasting], deps: { authenticate } });
    const turns = async (done: () => boolean): Promise<void> => {
      while (!done()) await new Promise((resolve) => setImmediate(resolve));
    };
    const answers = Array.from({ length: 6 }, () => h.send('GET', '/v1/slow'));
    await turns(() => begun === 6);
    let closed = 0;
    h.api.server.on('request', (_request, response: ServerResponse) => response.on('close', () => closed++));
    const gone = Array.from({ length: 3 }, () => net.connect(h.port, '127.0.0.1'));
    for (const socket of gone) socket.write(`GET /v1/slow HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
    await turns(() => seen === 9);
    const patient = h.send('GET', '/v1/slow');
    await turns(() => seen === 10);
    assert.equal((await h.send('GET', '/v1/lasting')).status, 200, 'what lasts waits for nobody');
    for (const socket of gone) socket.destroy();
    await turns(() => closed >= 4);
    assert.equal(begun, 6, 'six of an account run at once');
    finish.shift()?.();
    await turns(() => begun === 7);
    for (const one of finish) one();
    for (const answer of [...answers, patient]) assert.equal((await answer).status, 200);
    assert.equal(begun, 7, 'three never began');
    assert.equal(h.audits.filter(({ status, waited }) => status === 499 && !waited).length, 3);
    await h.stop();
  });
});

describe('api/server: streams', () => {
  const streaming = {
    method: 'GET',
    path: '/v1/stream',
    operationId: 'listEvents',
    description: 'Stream.',
    tag: 'any',
    scope: ['send'],
    responses: { 200: { description: 'Any.', types: ['text/plain'] } },
  } as const;

  it('watches a response once for all listeners of its call, so that Node sees no leak', async () => {
    const stream = route(streaming, (call) => {
      for (let n = 0; n < 4; n++) call.whenOver(() => undefined);
      call.whenKeyEnds(() => undefined);
      return { status: 200, stream: Readable.from(['a', 'b']), type: 'text/plain' };
    });
    const h = await startHarness({ routes: [...someRoutes, stream] });
    const warned: string[] = [];
    const warn = ({ name }: Error): void => void warned.push(name);
    process.on('warning', warn);
    assert.equal((await h.send('GET', '/v1/stream')).text, 'ab');
    await h.stop();
    process.off('warning', warn);
    assert.deepEqual(warned, []);
  });

  it('does not watch the key of an answer whose client has gone already', async () => {
    let gone = (): void => undefined;
    let told = 0;
    let begun = (): void => undefined;
    const isBegun = new Promise<void>((resolve) => (begun = resolve));
    const isOver = new Promise<void>((resolve) => (gone = resolve));
    let watched = (): void => undefined;
    const isWatched = new Promise<void>((resolve) => (watched = resolve));
    const stream = route(streaming, async (call) => {
      call.whenOver(gone);
      begun();
      await isOver;
      call.whenKeyEnds(() => told++);
      watched();
      return { status: 200, stream: Readable.from(['a']), type: 'text/plain' };
    });
    const h = await startHarness({
      routes: [...someRoutes, stream],
      callers: { [KEY]: { ...someCaller, expiresAt: Date.parse('2099-01-01') } },
    });
    const socket = net.connect(h.port, '127.0.0.1');
    socket.write(`GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
    await isBegun;
    socket.destroy();
    await isWatched;
    assert.equal(told, 1);
    await h.stop();
    assert.equal(h.clock.nextAt(), null, 'the timer for the end of the key is left');
  });
});

describe('api/server: stopping', () => {
  it('finishes what runs, refuses what comes, and closes', async () => {
    let finish = (): void => undefined;
    let started = (): void => undefined;
    let over = 0;
    const isStarted = new Promise<void>((resolve) => (started = resolve));
    const slow = route(
      {
        method: 'GET',
        path: '/v1/slow',
        operationId: 'getStats',
        description: 'Slow.',
        tag: 'any',
        scope: ['send'],
        responses: { 200: { description: 'Any.' } },
      },
      async (call) => {
        call.whenOver(() => over++);
        call.whenOver(() => over++);
        started();
        await new Promise<void>((resolve) => (finish = resolve));
        return { status: 200, body: {} };
      },
    );
    const h = await startHarness({ routes: [...someRoutes, slow] });
    const connections: net.Socket[] = [];
    let requests = 0;
    h.api.server.on('connection', (socket) => connections.push(socket)).on('request', () => requests++);
    const turns = async (done: () => boolean): Promise<void> => {
      while (!done()) await new Promise((resolve) => setImmediate(resolve));
    };
    const head = `Host: x\r\nAuthorization: Bearer ${KEY}\r\n\r\n`;
    let text = '';
    const socket = net.connect(h.port, '127.0.0.1');
    socket.on('data', (piece) => (text += piece.toString()));
    const closed = new Promise((resolve) => socket.on('close', resolve));
    socket.write(`GET /v1/slow HTTP/1.1\r\n${head}`);
    await isStarted;
    const early = net.connect(h.port, '127.0.0.1');
    let earlyText = '';
    early.on('data', (piece) => (earlyText += piece.toString()));
    // A connection of which the server has read nothing yet would be reset by the stop.
    early.write('GET /v1/messages HTTP/1.1\r\n');
    await turns(() => (connections[1]?.bytesRead ?? 0) > 0);
    const stopped = h.stop();
    assert.equal(over, 2, 'each listener of the running handler was called');
    socket.write(`GET /v1/messages HTTP/1.1\r\n${head}`);
    early.write(head);
    await new Promise((resolve) => early.on('close', resolve));
    assert.match(earlyText, /^HTTP\/1\.1 503 /);
    assert.match(earlyText, /"code":"service_unavailable"/);
    assert.match(earlyText, /Retry-After: 5\r\n/);
    // The second request waits behind the first on its connection, which would be reset if it were closed before it was read.
    await turns(() => requests === 3);
    finish();
    await closed;
    await stopped;
    assert.match(text, /^HTTP\/1\.1 200 OK\r\n/);
    assert.match(text, /Connection: close/);
    assert.equal(h.clock.nextAt(), null, 'no timer is left');
  });

  it('does not wait for connections that were opened in advance', async () => {
    const h = await startHarness({ routes: someRoutes });
    const connected = new Promise((resolve) => h.api.server.once('connection', resolve));
    const socket = net.connect(h.port, '127.0.0.1');
    const closed = new Promise((resolve) => socket.on('close', resolve));
    socket.resume();
    await connected;
    await Promise.all([h.stop(), closed]);
    assert.equal(h.clock.nextAt(), null, 'no timer is left');
  });

  it('does not wait for ever', async () => {
    let started = (): void => undefined;
    const isStarted = new Promise<void>((resolve) => (started = resolve));
    const stuck = route(
      {
        method: 'GET',
        path: '/v1/stuck',
        operationId: 'getStats',
        description: 'Stuck.',
        tag: 'any',
        scope: ['send'],
        responses: {},
      },
      () => new Promise((_resolve) => started()),
    );
    const h = await startHarness({ routes: [stuck], settings: { drainMs: 5000 } });
    const gone = assert.rejects(h.send('GET', '/v1/stuck'));
    await isStarted;
    const stopped = h.stop();
    h.clock.advance(5000);
    await Promise.all([stopped, gone]);
  });
});
