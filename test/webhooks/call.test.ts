import assert from 'node:assert/strict';
import type { Fetched, SafeFetch, SafeRequest } from '../../src/net/safe-fetch.ts';
import { callEndpoint } from '../../src/webhooks/call.ts';
import type { Endpoint } from '../../src/webhooks/endpoint.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const clock = new FakeClock();
const endpoint: Endpoint = {
  id: 'whk_1',
  accountId: 'acc_1',
  url: 'https://hooks.acme.test/',
  events: new Set(),
  streams: [],
  domains: [],
  addresses: [],
  include_machine_events: false,
  include_engagement: false,
  concurrency: 10,
  headers: [['X-Token', 'one']],
  secrets: [{ secret: Buffer.alloc(32), until: null }],
};

async function call(fetched: Fetched, of = endpoint) {
  const sent: SafeRequest[] = [];
  const fetch: SafeFetch = {
    send(request) {
      sent.push(request);
      return Promise.resolve(fetched);
    },
    vet: (href) => Promise.resolve({ kind: 'ok', href }),
    close: () => undefined,
  };
  const result = await callEndpoint({ fetch, clock }, of, { eventId: 'evt_1', body: '{"ž":1}', attempt: 2 });
  return { result, request: sent[0] ?? assert.fail() };
}

const answered = (status: number, headers: Record<string, string> = {}, body: string | Buffer = ''): Fetched => ({
  kind: 'answered',
  status,
  headers,
  body: Buffer.from(body),
});

describe('webhooks/call', () => {
  for (const [status, kind, reason] of [
    [200, 'delivered', 'the ordinary case'],
    [204, 'delivered', 'nothing to say'],
    [299, 'delivered', 'the last success'],
    [199, 'failed', 'no final answer'],
    [300, 'failed', 'a choice'],
    [301, 'failed', 'a redirect'],
    [400, 'failed', 'a fault of the call is tried again, too'],
    [404, 'failed', 'not there (yet)'],
    [409, 'failed', 'a conflict'],
    [410, 'gone', 'no more calls'],
    [500, 'failed', 'a fault of theirs'],
    [0, 'failed', 'no status'],
  ] as const) {
    it(`${String(status)} is ${kind}: ${reason}`, async () => {
      const { result } = await call(answered(status));
      assert.deepEqual([result.kind, result.statusCode, result.error === null], [kind, status, kind === 'delivered']);
    });
  }

  it('says where a redirect leads', async () => {
    const { result } = await call(answered(308, { location: 'https://hooks.acme.test/new/' }));
    assert.equal(result.error, 'the endpoint answered 308: it redirects to https://hooks.acme.test/new/');
  });

  it('sends our headers and theirs, of which none can take the place of ours', async () => {
    const { request } = await call(answered(200), {
      ...endpoint,
      headers: [
        ['X-Token', 'one'],
        ['User-Agent', 'mine'],
        ['webhook-id', 'x'],
      ],
    });
    const { 'webhook-signature': signature, ...headers } = request.headers;
    assert.match(signature ?? '', /^v1,[A-Za-z0-9+/]{43}=$/);
    assert.deepEqual(headers, {
      'X-Token': 'one',
      'User-Agent': 'posthorn-webhooks/1',
      'webhook-id': 'evt_1',
      'Content-Type': 'application/json',
      'Content-Length': '8',
      'webhook-attempt': '2',
      'webhook-timestamp': String(clock.now() / 1000),
    });
  });

  for (const [status, headers, wait] of [
    [429, { 'retry-after': '60' }, 60_000],
    [503, { 'retry-after': '60' }, 60_000],
    [500, { 'retry-after': '60' }, null],
    [503, {}, null],
  ] as const) {
    it(`${String(status)} with ${JSON.stringify(headers)} asks for ${String(wait)} ms`, async () => {
      assert.equal((await call(answered(status, headers))).result.retryAfterMs, wait);
    });
  }

  for (const [body, kept, reason] of [
    ['', null, 'none'],
    ['thanks', 'thanks', 'a text'],
    [Buffer.alloc(10_000, 'x'), 'x'.repeat(4096), 'only its first 4 KiB'],
    [Buffer.from([0x61, 0xff, 0x00, 0x62]), 'a\ufffd\ufffdb', 'bytes that are no text'],
    [Buffer.concat([Buffer.alloc(4095, 'x'), Buffer.from('ž')]), `${'x'.repeat(4095)}\ufffd`, 'a character cut in two'],
  ] as const) {
    it(`keeps of an answer ${reason}`, async () => {
      assert.equal((await call(answered(200, {}, body))).result.answer, kept);
    });
  }

  it('describes a failure in words, and separates it from an end by us', async () => {
    const failed = await call({ kind: 'failed', why: 'dns', text: 'no address was found' });
    assert.deepEqual(
      [failed.result.kind, failed.result.error, failed.result.statusCode],
      ['failed', 'no address was found', null],
    );
    assert.equal((await call({ kind: 'failed', why: 'closed', text: 'stopping' })).result.kind, 'closed');
  });
});
