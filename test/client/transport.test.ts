/** The client against a server that misbehaves: a real socket that drops, delays, lies, and says no. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  MailClient,
  NetworkError,
  PosthornError,
  RateLimitError,
  ServerError,
  ValidationError,
} from '../../src/client/index.ts';
import type { MailClientOptions } from '../../src/client/mail-client.ts';
import { fakeAround, LIMIT_MS, type FakeAround } from './around.ts';

interface Asked {
  method: string;
  url: string;
  headers: http.IncomingHttpHeaders;
  body: string;
}

type Act = (response: http.ServerResponse, asked: Asked) => void;

const say =
  (status: number, body: unknown, headers: http.OutgoingHttpHeaders = {}): Act =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };
const refuse = (status: number, code: string, headers: http.OutgoingHttpHeaders = {}): Act =>
  say(status, { error: { code, message: 'No.', field: null, request_id: 'req_1' } }, headers);
const drop: Act = (response) => void response.socket?.destroy();
const breakOff: Act = (response) => {
  response.writeHead(200, { 'content-length': '100' });
  response.write('{"id":');
  response.socket?.end();
};
const nothing: Act = () => undefined;
const good = say(202, { id: 'msg_1' }, { 'x-request-id': 'req_9' });

const MAIL = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 'Hi', text: 'Hello' };

describe('client/transport', () => {
  let server: http.Server;
  let acts: Act[];
  let asked: Asked[];
  let around: FakeAround;
  let heard: (() => void) | null;

  beforeEach(async () => {
    [acts, asked, around, heard] = [[], [], fakeAround(), null];
    server = http.createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      request.on('end', () => {
        const one = {
          method: request.method ?? '',
          url: request.url ?? '',
          headers: request.headers,
          body: Buffer.concat(pieces).toString(),
        };
        asked.push(one);
        (acts.shift() ?? drop)(response, one);
        heard?.();
      });
    });
    // A connection that the server closed after some idle seconds would cost a further try, where the machine is that slow.
    server.keepAliveTimeout = 0;
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
    assert.equal(around.open, 0, 'a time limit was not called off');
  });

  const client = (more: MailClientOptions = {}): MailClient => {
    const { port } = server.address() as AddressInfo;
    const own = { apiKey: 'ak_test_x', baseUrl: `http://127.0.0.1:${port}/`, timeoutMs: LIMIT_MS };
    return new MailClient({ ...own, ...more }, around);
  };
  const requestArrives = (): Promise<void> => new Promise((resolve) => (heard = resolve));

  it('says who it is and what it wants', async () => {
    acts = [good];
    await client({ userAgent: 'shop/2.1' }).messages.send(MAIL, { headers: { 'x-trace': '7' } });
    const [{ method, url, headers, body } = assert.fail()] = asked;
    assert.deepEqual([method, url, JSON.parse(body)], ['POST', '/v1/messages', MAIL]);
    assert.equal(headers.authorization, 'Bearer ak_test_x');
    assert.match(headers['user-agent'] ?? '', /^posthorn-client\/\d+\.\d+\.\d+ shop\/2\.1$/);
    assert.deepEqual(
      [headers['content-type'], headers.accept, headers['x-trace']],
      ['application/json', 'application/json', '7'],
    );
  });

  for (const [reason, first, waits] of [
    ['a dropped connection', [drop], [375]],
    ['an answer that breaks off', [breakOff], [375]],
    ['500', [refuse(500, 'internal_error')], [375]],
    ['503 and the time it names', [refuse(503, 'service_unavailable', { 'retry-after': '7' })], [7250]],
    ['429 and the time it names', [refuse(429, 'rate_limited', { 'retry-after': '30' })], [30_250]],
    ['a page of a proxy', [say(502, '<html>')], [375]],
    ['one after the other', [drop, refuse(500, 'internal_error'), drop], [375, 750, 1500]],
  ] as const) {
    it(`tries again after ${reason}, with the same key and bytes`, async () => {
      acts = [...first, good];
      const { data, response } = await client().messages.send(MAIL).withResponse();
      assert.equal(data.id, 'msg_1');
      assert.deepEqual([response.status, response.requestId, response.tries], [202, 'req_9', first.length + 1]);
      assert.deepEqual(around.waits, waits);
      const keys = new Set(asked.map(({ headers }) => headers['idempotency-key']));
      assert.deepEqual([...keys], ['uuid-1']);
      assert.equal(new Set(asked.map(({ body }) => body)).size, 1);
    });
  }

  for (const [reason, act, type] of [
    ['400', refuse(400, 'invalid_recipient'), ValidationError],
    ['a quota that is used up for hours', refuse(429, 'quota_exceeded', { 'retry-after': '30000' }), RateLimitError],
    ['a redirect', say(302, '', { location: 'http://127.0.0.1:9/' }), PosthornError],
    ['success that is no JSON', say(200, '<html>welcome</html>'), PosthornError],
  ] as const) {
    it(`does not try again after ${reason}`, async () => {
      acts = [act, good];
      await assert.rejects(client().messages.send(MAIL), type);
      assert.deepEqual([asked.length, around.waits], [1, []]);
    });
  }

  it('gives up after the tries it was given', async () => {
    await assert.rejects(client().messages.get('msg_1'), NetworkError);
    assert.equal(asked.length, 4);
    acts = [refuse(500, 'internal_error'), refuse(500, 'internal_error')];
    await assert.rejects(client({ maxRetries: 1 }).messages.get('msg_1'), ServerError);
    assert.equal(asked.length, 6);
    await assert.rejects(client().messages.get('msg_1', {}, { maxRetries: 0 }), NetworkError);
    assert.equal(asked.length, 7);
  });

  it('keeps the key of the caller, and makes a new one for each other request', async () => {
    acts = [good, good, good, good];
    await client().messages.send(MAIL, { idempotencyKey: 'order-17' });
    await client().messages.send(MAIL);
    await client().messages.send(MAIL);
    await client().messages.get('msg_1');
    assert.deepEqual(
      asked.map(({ headers }) => headers['idempotency-key']),
      ['order-17', 'uuid-1', 'uuid-2', undefined],
    );
  });

  it('goes on behind a refusal that is given again, under a key made of its own', async () => {
    const at = '2026-01-31T09:30:00.000Z';
    const replayed = refuse(403, 'domain_not_verified', {
      'idempotency-replayed': 'true',
      'idempotency-first-answer': at,
    });
    acts = [replayed, good, replayed, good];
    const own = client();
    await own.messages.send(MAIL, { idempotencyKey: 'order-17' });
    await own.messages.send(MAIL, { idempotencyKey: 'order-17' });
    const next = `order-17~${String(Date.parse(at))}`;
    assert.deepEqual(
      asked.map(({ headers }) => headers['idempotency-key']),
      ['order-17', next, 'order-17', next],
    );
  });

  it('gives up a try that takes too long, and tries again', async () => {
    acts = [nothing, good];
    const arrives = requestArrives();
    const sent = client().messages.send(MAIL);
    await arrives;
    around.passLimit();
    assert.equal((await sent).id, 'msg_1');
    acts = [nothing];
    const again = requestArrives();
    const late = client().messages.send(MAIL, { maxRetries: 0 });
    await again;
    around.passLimit();
    await assert.rejects(late, (error) => error instanceof NetworkError && error.kind === 'timeout');
  });

  it('gives a long poll the time that it asked the service for', async () => {
    const limits: number[] = [];
    const watching = { ...fakeAround(), after: (ms: number) => (limits.push(ms), () => undefined) };
    acts = [say(200, { data: [] })];
    const { port } = server.address() as AddressInfo;
    const impatient = new MailClient({ apiKey: 'k', baseUrl: `http://127.0.0.1:${port}`, timeoutMs: 500 }, watching);
    await impatient.events.list({ wait: 30 });
    assert.deepEqual(limits, [30_500]);
  });

  it('stops at once when the caller no longer wants it', async () => {
    const reason = new Error('no longer wanted');
    const late = new AbortController();
    acts = [nothing];
    const arrives = requestArrives();
    const sent = client().messages.send(MAIL, { signal: late.signal });
    await arrives;
    late.abort(reason);
    await assert.rejects(sent, reason);
    assert.equal(asked.length, 1);
    await assert.rejects(client().messages.send(MAIL, { signal: AbortSignal.abort(reason) }), reason);
    assert.equal(asked.length, 1);
  });

  it('stops while it waits for the next try', async () => {
    const stop = new AbortController();
    const waiting = { ...around, after: around.after.bind(around) };
    waiting.after = (ms, run) => {
      if (ms >= LIMIT_MS) return around.after(ms, run);
      setImmediate(() => stop.abort(new Error('enough')));
      return () => undefined;
    };
    const { port } = server.address() as AddressInfo;
    const own = new MailClient({ apiKey: 'k', baseUrl: `http://127.0.0.1:${port}`, timeoutMs: LIMIT_MS }, waiting);
    await assert.rejects(own.messages.send(MAIL, { signal: stop.signal }), /enough/);
    assert.equal(asked.length, 1);
  });

  it('leaves nothing at a signal that lives on', async () => {
    const { signal } = new AbortController();
    let listeners = 0;
    const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
    signal.addEventListener = (...given: Parameters<typeof add>) => {
      listeners++;
      add(...given);
    };
    signal.removeEventListener = (...given: Parameters<typeof remove>) => {
      listeners--;
      remove(...given);
    };
    acts = [drop, good];
    await client().messages.send(MAIL, { signal });
    assert.equal(listeners, 0);
  });

  it('tells a failure once, whichever way it is waited for', async () => {
    acts = [refuse(400, 'invalid_recipient'), refuse(400, 'invalid_recipient')];
    await assert.rejects(client().messages.send(MAIL).withResponse(), ValidationError);
    await assert.rejects(client().messages.send(MAIL), ValidationError);
    // An unhandled rejection would end the test run here.
    await new Promise((resolve) => setImmediate(resolve));
  });

  it('does not send what no header may hold', async () => {
    await assert.rejects(client().messages.send(MAIL, { idempotencyKey: 'a\r\nb: c' }), TypeError);
    assert.deepEqual([asked.length, around.waits], [0, []]);
  });

  it('uses the fetch that it is given', async () => {
    const urls: unknown[] = [];
    const own: typeof fetch = async (url) => {
      urls.push(url);
      return Response.json({ object: 'settings' });
    };
    const mail = client({ baseUrl: 'https://mail.example.com/prefix//', fetch: own });
    await mail.settings.get();
    assert.deepEqual(urls, ['https://mail.example.com/prefix/v1/settings']);
  });
});

describe('client/mail-client', () => {
  it('takes key and address from the environment', async () => {
    const seen: unknown[] = [];
    const around = fakeAround({ POSTHORN_API_KEY: 'ak_test_env', POSTHORN_BASE_URL: 'http://127.0.0.1:8025' });
    around.fetch = async (url, init) => {
      seen.push(url, new Headers(init?.headers).get('authorization'));
      return Response.json({});
    };
    await new MailClient({}, around).settings.get();
    assert.deepEqual(seen, ['http://127.0.0.1:8025/v1/settings', 'Bearer ak_test_env']);
  });

  for (const [reason, options, message] of [
    ['no key', { baseUrl: 'http://a.test' }, /`apiKey`, or POSTHORN_API_KEY/],
    ['an empty key', { apiKey: '', baseUrl: 'http://a.test' }, /`apiKey`/],
    ['no address', { apiKey: 'k' }, /`baseUrl`, or POSTHORN_BASE_URL/],
    ['an address that is none', { apiKey: 'k', baseUrl: 'mail.example.com' }, /`baseUrl` must be/],
    ['an address of another kind', { apiKey: 'k', baseUrl: 'ftp://a.test' }, /`baseUrl` must be/],
  ] as const) {
    it(`refuses ${reason}`, () => {
      assert.throws(() => new MailClient(options, fakeAround()), message);
    });
  }
});
