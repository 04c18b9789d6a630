import { noAct } from '../support/harness/audit-columns.ts';
import assert from 'node:assert/strict';
import { KEY, someCaller, startHarness } from './harness.ts';
import type { Harness, SendOptions } from './harness.ts';

describe('audit lines', () => {
  let h: Harness;
  beforeEach(async () => {
    h = await startHarness({
      settings: { anonymousPerMinute: 2 },
      callers: {
        revoked: { ...someCaller, revokedAt: 0 },
        tiny: { ...someCaller, plan: 'tiny', accountId: 'acc_tiny' },
      },
    });
  });
  afterEach(() => h.stop());

  it('hold what the contract names', async () => {
    const answer = await h.send('GET', '/v1/messages/msg_1', { headers: { 'user-agent': 'tester/1' } });
    const [row] = h.audits;
    assert.match(row?.id ?? '', /^aud_/);
    assert.deepEqual(
      { ...row, id: '' },
      {
        id: '',
        at: h.clock.now(),
        account_id: 'acc_one',
        key_id: 'key_one',
        actor: 'key:App',
        ip: '127.0.0.1',
        method: 'GET',
        endpoint: '/v1/messages/{id}',
        status: 200,
        result: 'ok',
        error_code: null,
        request_id: answer.headers['x-request-id'],
        ms: 0,
        idempotency_replayed: 0,
        user_agent: 'tester/1',
        ...noAct,
        operation: 'getMessage',
        path: '/v1/messages/msg_1',
        waited: false,
      },
    );
  });

  type Row = [
    method: string,
    path: string,
    options: SendOptions,
    line: [status: number, result: string, code: string | null, waited: boolean, key: string | null] | null,
    why: string,
  ];
  const rows: Row[] = [
    ['GET', '/v1/messages', {}, [200, 'ok', null, false, 'key_one'], 'a read is batched'],
    [
      'POST',
      '/v1/messages',
      { body: { to: 'a' } },
      [202, 'ok', null, true, 'key_one'],
      'a write is committed before the answer',
    ],
    ['POST', '/v1/fails', {}, [500, 'failed', 'internal_error', true, 'key_one'], 'a fault'],
    [
      'POST',
      '/v1/full',
      {},
      [503, 'failed', 'service_unavailable', false, 'key_one'],
      'a want of room: the answer does not wait for what there is too little of',
    ],
    [
      'GET',
      '/v1/nothing',
      {},
      [404, 'refused', 'not_found', true, 'key_one'],
      'a path that is not there, with the key',
    ],
    ['PUT', '/v1/messages', {}, [405, 'refused', 'method_not_allowed', true, 'key_one'], 'a method that is not there'],
    ['GET', '/v1/messages', { key: 'nonsense' }, [401, 'refused', 'invalid_api_key', true, null], 'an unknown key'],
    ['GET', '/v1/messages', { key: 'revoked' }, [401, 'refused', 'key_revoked', true, 'key_one'], 'a revoked key'],
    ['DELETE', '/v1/settings', {}, [403, 'refused', 'insufficient_scope', true, 'key_one'], 'a scope that is missing'],
    ['GET', '/v1/messages', { key: null }, null, 'no key, no use of a key'],
    ['GET', '/healthz', { key: null }, null, 'health checks'],
    ['GET', '/healthz', { key: null, headers: { authorization: 'Basic YTpi' } }, null, 'what needs no key'],
    [
      'GET',
      '/v1/messages',
      { key: null, headers: { authorization: 'ak_live_1' } },
      [401, 'refused', 'missing_api_key', true, null],
      'a key that is not sent as a bearer token',
    ],
  ];
  for (const [method, path, options, line, why] of rows) {
    it(`${line === null ? 'are not written for' : 'are written for'} ${why}`, async () => {
      await h.send(method, path, options);
      const got = h.audits.map((row) => [row.status, row.result, row.error_code, row.waited, row.key_id]);
      assert.deepEqual(got, line === null ? [] : [line]);
    });
  }

  it('have the path as it was asked, the field that was refused, and the idempotency key', async () => {
    await h.send('GET', '/v1/messages/msg_1?expand=content');
    await h.send('POST', '/v1/messages', { body: { to: 5 }, headers: { 'idempotency-key': 'order-1' } });
    assert.deepEqual(
      h.audits.map(({ path, error_field, idempotency_key }) => [path, error_field, idempotency_key]),
      [
        ['/v1/messages/msg_1', h.audits[0]?.error_field, null],
        [null, 'to', 'order-1'],
      ],
    );
  });

  it('have details where there are any: query, text of the error, body as the setting says', async () => {
    await h.send('GET', '/v1/messages/msg_1');
    assert.equal(h.details.length, 0);
    await h.send('GET', '/v1/messages?to=ana%40x.test');
    assert.equal(h.details[0]?.query, 'to=ana%40x.test');
    await h.send('POST', '/v1/messages?to=ana%40x.test', { key: 'nonsense', body: { to: 5 } });
    assert.deepEqual([h.details[1]?.query, h.details[1]?.body], [null, null], 'of a stranger only the error');
    assert.match(h.details[1]?.error_message ?? '', /no such API key/);
    for (const [keepBodies, kept] of [
      ['none', [null]],
      ['refused', ['{"to":5,"html":"(1 characters)"}']],
      ['all', ['{"to":"a"}', '{"to":5,"html":"(1 characters)"}']],
    ] as const) {
      const own = await startHarness({ deps: { keepBodies } });
      await own.send('POST', '/v1/messages', { body: { to: 'a' } });
      await own.send('POST', '/v1/messages', { body: { to: 5, html: 'x' } });
      await own.stop();
      assert.deepEqual(
        own.details.map(({ body }) => body),
        kept,
        keepBodies,
      );
      assert.match(own.details.at(-1)?.error_message ?? '', /html/);
    }
  });

  it('have no part of a malformed body', async () => {
    const bodies = ['{"a": hunter2}', `{"password": hunter2${', "more": 1'.repeat(9)}}`, '{"a":1, hunter2}', 'hunter2'];
    for (const text of bodies) {
      const { error } = await h.send('POST', '/v1/messages', { body: text });
      assert.match(error.message, /^The body is not valid JSON/);
    }
    assert.deepEqual(
      h.details.map(({ error_message: message }) => /hunter2/.exec(message ?? '')),
      bodies.map(() => null),
    );
    assert.equal(h.details[0]?.error_message, "The body is not valid JSON: Unexpected token 'h'.");
  });

  it('are written for each refused request of a known key', async () => {
    for (let n = 0; n < 5; n++) await h.send('GET', '/v1/messages', { key: 'tiny' });
    assert.deepEqual(
      h.audits.map((row) => row.status),
      [200, 200, 200, 429, 429],
    );
  });

  it('are not written without end for keys nobody knows', async () => {
    for (let n = 0; n < 5; n++) await h.send('GET', '/v1/messages', { key: 'nonsense' });
    assert.deepEqual(
      h.audits.map((row) => row.status),
      [401, 401],
    );
  });

  it('are in the log where they cannot be written, and the answer stands', async () => {
    const broken = await startHarness({
      deps: {
        audit: { write: () => Promise.reject(new Error('disk full')), later: () => undefined, note: () => undefined },
      },
    });
    assert.equal((await broken.send('POST', '/v1/messages', { body: { to: 'a' }, key: KEY })).status, 202);
    assert.ok(broken.logged.some((fields) => 'audit' in fields));
    await broken.stop();
  });

  for (const [method, path, endpoint] of [
    ['PATCH', '/v1/messages/keep%40example.net', '/v1/messages/{id}'],
    ['OPTIONS', '/v1/messages/keep@example.net', '/v1/messages/{id}'],
    ['PATCH', '/v1/messages', '/v1/messages'],
    ['DELETE', '/v1/recipient/keep%40example.net', '/v1/recipient/{address}'],
    ['DELETE', '/v1/recipient/keep%2540example.net/x', '/v1/recipient/{address}/x'],
    ['DELETE', '/v1//keep@example.net', '/v1//{address}'],
    ['DELETE', '/v1/%ff/keep@example.net', '/v1/%ff/{address}'],
    ['GET', '/v1/nothing', '/v1/nothing'],
  ])
    it(`keep no address of a path that has no route: ${String(method)} ${String(path)}`, async () => {
      await h.send(String(method), String(path));
      assert.deepEqual(
        h.audits.map((row) => [row.endpoint, row.path]),
        [[endpoint, null]],
      );
      assert.doesNotMatch(JSON.stringify([h.audits, h.details]), /keep/);
    });

  it('cut what a client can make long', async () => {
    await h.send('GET', `/v1/${'x'.repeat(5000)}`, { headers: { 'user-agent': 'y'.repeat(5000) } });
    assert.deepEqual(
      h.audits.map((row) => [row.endpoint.length, row.user_agent?.length]),
      [[200, 512]],
    );
  });
});
