/** The endpoints of `/v1/webhooks` with good and bad input; what the calls do is test/journeys/webhooks.test.ts. */
import assert from 'node:assert/strict';
import { allEventTypes, eventTypes } from '../../src/events/event.ts';
import { Event } from '../../src/api/records.ts';
import { startTestApp, type Answer, type TestApp } from '../support/harness/app.ts';

type Json = Record<string, unknown>;

interface Refusal {
  error: { code: string; field: string | null; message: string };
}

describe('api/webhooks', () => {
  let app: TestApp;
  let number = 0;
  before(async () => {
    app = await startTestApp({ zones: { 'inside.test A': ['10.0.0.1'], 'both.test A': ['10.0.0.1', '8.8.8.8'] } });
    await app.operator.ask('updateDomain', { params: { id: 'acme.test' }, body: { receiving: true } });
  });
  after(() => app.stop());

  const url = (): string => `https://hooks.acme.test/${String(number++)}`;
  const post = <Body = Record<string, unknown>>(
    body: object,
    headers: Record<string, string> = {},
  ): Promise<Answer<Body>> => app.request('POST', '/v1/webhooks', body, { headers });
  const keyWith = async (...scopes: string[]): Promise<string> =>
    (await app.operator.ask<{ id: string; key: string }>('createKey', { body: { name: 'k', scopes } })).key;

  it('answers with the whole record', async () => {
    const given = {
      url: 'https://Hooks.ACME.test:443/a b',
      description: 'Orders',
      events: ['bounced', 'sent', 'sent'],
      streams: ['broadcast'],
      domains: ['Acme.test'],
      addresses: ['Reply+*@Acme.test'],
      include_machine_events: true,
      include_engagement: true,
      headers: { 'X-Token': 'one' },
      concurrency: 3,
    };
    const { status, body, headers } = await post(given);
    assert.equal(status, 201);
    const { id, secret, created_at, updated_at, ...rest } = body;
    assert.equal(headers.get('location'), `/v1/webhooks/${String(id)}`);
    assert.match(String(id), /^whk_[0-9a-z]{26}$/);
    assert.match(String(secret), /^whsec_/);
    assert.equal(created_at, updated_at);
    assert.deepEqual(rest, {
      object: 'webhook',
      url: 'https://hooks.acme.test/a%20b',
      description: 'Orders',
      events: ['sent', 'bounced'],
      streams: ['broadcast'],
      domains: ['acme.test'],
      addresses: ['reply+*@acme.test'],
      include_machine_events: true,
      include_engagement: true,
      concurrency: 3,
      header_names: ['X-Token'],
      status: 'active',
      disabled_reason: null,
      failing_since: null,
      rests_until: null,
      next_attempt_at: null,
      last_success_at: null,
      last_failure_at: null,
    });
    const read = await app.get(`/v1/webhooks/${String(id)}`);
    assert.deepEqual(read.body, { ...rest, id, created_at, updated_at });
    const shown = await app.get(`/v1/webhooks/${String(id)}/secret`);
    assert.deepEqual(shown.body, { object: 'webhook_secret', webhook_id: id, secret, previous: [] });
  });

  it('takes only a URL, for the six kinds', async () => {
    for (const more of [{}, { events: ['*'] }]) {
      const { body } = await post({ url: url(), ...more });
      assert.deepEqual(body['events'], eventTypes);
      assert.deepEqual([body['status'], body['concurrency'], body['include_engagement']], ['active', 10, false]);
    }
    assert.equal((await post({ url: url(), enabled: false })).body['status'], 'paused');
  });

  for (const [body, code, field, reason] of [
    [{}, 'missing_field', 'url', 'no URL'],
    [{ url: 17 }, 'invalid_type', 'url', 'a number'],
    [{ url: '' }, 'invalid_webhook_url', 'url', 'empty'],
    [{ url: 'hooks.acme.test' }, 'invalid_webhook_url', 'url', 'no URL'],
    [{ url: 'http://hooks.acme.test/' }, 'invalid_webhook_url', 'url', 'not encrypted'],
    [{ url: 'https://a:b@hooks.acme.test/' }, 'invalid_webhook_url', 'url', 'a password'],
    [{ url: 'https://hooks.acme.test/#a' }, 'invalid_webhook_url', 'url', 'a fragment'],
    [{ url: 'https://hooks.acme.test:25/' }, 'invalid_webhook_url', 'url', 'a port of mail'],
    [{ url: `https://hooks.acme.test/${'x'.repeat(2048)}` }, 'field_too_long', 'url', 'too long'],
    [{ url: 'https://127.0.0.1/' }, 'webhook_url_forbidden', 'url', 'loopback'],
    [{ url: 'https://2130706433/' }, 'webhook_url_forbidden', 'url', 'loopback as a number'],
    [{ url: 'https://[::1]/' }, 'webhook_url_forbidden', 'url', 'loopback of IPv6'],
    [{ url: 'https://inside.test/' }, 'webhook_url_forbidden', 'url', 'a name for a private address'],
    [{ events: [] }, 'invalid_field', 'events', 'no kinds'],
    [{ events: 'sent' }, 'invalid_type', 'events', 'no list'],
    [{ events: ['sent', 'read'] }, 'unknown_event_type', 'events[1]', 'no such kind'],
    [{ events: ['sent', 'Sent'] }, 'unknown_event_type', 'events[1]', 'another case'],
    [{ events: Array.from({ length: 20 }, () => 'sent') }, 'too_many_items', 'events', 'many'],
    [{ description: 'x'.repeat(201) }, 'field_too_long', 'description', 'too long'],
    [{ streams: ['transactional', 'nowhere'] }, 'unknown_stream', 'streams[1]', 'no such stream'],
    [{ domains: ['acme.test', 'a b'] }, 'invalid_field', 'domains[1]', 'no domain'],
    [{ domains: Array.from({ length: 101 }, (_, n) => `d${String(n)}.test`) }, 'too_many_items', 'domains', 'many'],
    [{ headers: { Host: 'x' } }, 'header_not_allowed', 'headers.Host', 'ours'],
    [{ headers: { 'X-A': 'a\r\nb' } }, 'invalid_header', 'headers.X-A', 'two lines'],
    [{ headers: { 'X-A': 1 } }, 'invalid_type', 'headers.X-A', 'a number'],
    [{ headers: ['X-A'] }, 'invalid_type', 'headers', 'a list'],
    [{ concurrency: 0 }, 'invalid_field', 'concurrency', 'none at once'],
    [{ concurrency: 11 }, 'invalid_field', 'concurrency', 'too many at once'],
    [{ include_engagement: 'yes' }, 'invalid_type', 'include_engagement', 'a word'],
    [{ event: ['sent'] }, 'unknown_field', 'event', 'a typing error'],
    [{ secret: 'whsec_abc' }, 'unknown_field', 'secret', 'the secret is ours to make'],
  ] as const) {
    it(`refuses ${JSON.stringify(body).slice(0, 70)}: ${reason}`, async () => {
      const whole = 'url' in body || reason === 'no URL' ? body : { url: url(), ...body };
      const { status, body: answer } = await post<Refusal>(whole);
      assert.ok(status === 400, String(status));
      assert.deepEqual([answer.error.code, answer.error.field], [code, field], answer.error.message);
    });
  }

  it('takes a name that has a public address besides, and one that does not resolve yet', async () => {
    assert.equal((await post({ url: 'https://both.test/' })).status, 201);
    assert.equal((await post({ url: 'https://not-yet.test/' })).status, 201);
  });

  it('takes each URL once, however it is written', async () => {
    const at = url();
    const first = await post({ url: at });
    assert.equal(first.status, 201);
    const twin = await post<Refusal>({ url: at.replace('https://hooks', 'HTTPS://HOOKS') });
    assert.deepEqual([twin.status, twin.body.error.code, twin.body.error.field], [409, 'already_exists', 'url']);
    const other = await post({ url: url() });
    const path = `/v1/webhooks/${String(other.body['id'])}`;
    assert.equal((await app.request('PATCH', path, { url: at })).status, 409);
    assert.equal((await app.request('PATCH', path, { url: other.body['url'] })).status, 200, 'its own URL');
  });

  it('changes what is given, and no more', async () => {
    const { body: before } = await post({ url: url(), headers: { 'X-A': 'one' }, description: 'first' });
    const path = `/v1/webhooks/${String(before['id'])}`;
    app.clock.advance(1000);
    const { secret: _, ...record } = before;
    const { body: after } = await app.request<{ updated_at: string }>('PATCH', path, { events: ['complained'] });
    assert.deepEqual(after, { ...record, events: ['complained'], updated_at: after.updated_at });
    assert.notEqual(after.updated_at, before['updated_at']);
    assert.deepEqual((await app.request('PATCH', path, { headers: {} })).body['header_names'], []);
    const bad = await app.request<Refusal>('PATCH', path, { url: 'https://10.0.0.1/' });
    assert.equal(bad.body.error.code, 'webhook_url_forbidden');
  });

  it('tells of people only by a key that may see them', async () => {
    const key = await keyWith('webhook');
    const refused = await app.request<Refusal>(
      'POST',
      '/v1/webhooks',
      { url: url(), include_engagement: true },
      { key },
    );
    assert.deepEqual(
      [refused.status, refused.body.error.code, refused.body.error.field],
      [403, 'insufficient_scope', 'include_engagement'],
    );
    assert.match(refused.headers.get('www-authenticate') ?? '', /scope="event:engagement"/);
    const { body } = await post({ url: url(), include_engagement: true });
    const path = `/v1/webhooks/${String(body['id'])}`;
    // Nor may such a key lead them elsewhere.
    assert.equal((await app.request('PATCH', path, { url: url() }, { key })).status, 403);
    assert.equal((await app.request('PATCH', path, { description: 'x' }, { key })).status, 200);
    assert.equal((await app.request('PATCH', path, { url: url(), include_engagement: false }, { key })).status, 200);
  });

  it('opens each part to its own scope', async () => {
    const { body } = await post({ url: url() });
    const path = `/v1/webhooks/${String(body['id'])}`;
    for (const [scope, open] of [
      ['webhook:read', ['GET ', 'GET /deliveries', 'GET /replays']],
      ['webhook:secret', ['GET /secret', 'POST /secret/rotate']],
      ['webhook:replay', ['POST /test', 'POST /replay', 'POST /deliveries/whd_x/resend']],
      [
        'webhook',
        [
          'GET ',
          'GET /deliveries',
          'GET /replays',
          'GET /secret',
          'POST /secret/rotate',
          'POST /test',
          'POST /replay',
          'POST /deliveries/whd_x/resend',
          'PATCH ',
        ],
      ],
    ] as const) {
      const key = await keyWith(scope);
      for (const one of [
        'GET ',
        'GET /deliveries',
        'GET /replays',
        'GET /secret',
        'POST /secret/rotate',
        'POST /test',
        'POST /replay',
        'POST /deliveries/whd_x/resend',
        'PATCH ',
      ]) {
        const [method = '', rest = ''] = one.split(' ');
        const { status } = await app.request(method, path + rest, method === 'GET' ? undefined : {}, { key });
        assert.equal(status !== 403, (open as readonly string[]).includes(one), `${scope}: ${one} ${String(status)}`);
      }
    }
  });

  it('gives the first answer again, secret and all, and keeps it where we cannot read it', async () => {
    const headers = { 'idempotency-key': 'hook-1' };
    const body = { url: url() };
    const first = await post(body, headers);
    const second = await post(body, headers);
    assert.equal(second.text, first.text);
    assert.equal(second.headers.get('idempotency-replayed'), 'true');
    const path = `/v1/webhooks/${String(first.body['id'])}/secret/rotate`;
    const turned = await app.request('POST', path, undefined, { headers });
    const again = await app.request('POST', path, undefined, { headers });
    assert.equal(again.text, turned.text);
    const kept = JSON.stringify(await app.app.db.prepared.all('SELECT body FROM idempotency'));
    assert.ok(!kept.includes('whsec_'));
    assert.equal(
      (await app.get(`/v1/webhooks/${String(first.body['id'])}/secret`)).body['secret'],
      turned.body['secret'],
    );
  });

  it('keeps the last secrets for a day, a handful at most', async () => {
    const { body } = await post({ url: url() });
    const path = `/v1/webhooks/${String(body['id'])}/secret`;
    const secrets = [String(body['secret'])];
    for (let n = 0; n < 5; n++) {
      const { body: made } = await app.request<{ secret: string; previous: { secret: string }[] }>(
        'POST',
        `${path}/rotate`,
      );
      assert.deepEqual(
        made.previous.map(({ secret }) => secret),
        secrets.toReversed(),
      );
      secrets.push(made.secret);
    }
    const full = await app.request<Refusal>('POST', `${path}/rotate`);
    assert.deepEqual([full.status, full.body.error.code], [409, 'invalid_state']);
    app.clock.advance(86_400_000);
    assert.deepEqual((await app.get<{ previous: unknown[] }>(path)).body.previous, []);
    assert.equal((await app.request('POST', `${path}/rotate`)).status, 200);
  });

  it('lists in pages, newest first', async () => {
    await app.operator.call('accounts.add', { name: 'pages', plan: 'unlimited' });
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account: 'pages',
      body: { name: 'k', scopes: ['webhook'] },
    });
    for (let n = 0; n < 3; n++) await app.request('POST', '/v1/webhooks', { url: url() }, { key });
    const first = await app.get<{ data: { id: string }[]; next_cursor: string; has_more: boolean }>(
      '/v1/webhooks?limit=2',
      { key },
    );
    const second = await app.get<{ data: { id: string }[]; next_cursor: null }>(
      `/v1/webhooks?limit=2&after=${first.body.next_cursor}`,
      { key },
    );
    const ids = [...first.body.data, ...second.body.data].map(({ id }) => id);
    assert.deepEqual(ids, ids.toSorted().toReversed());
    assert.equal(new Set(ids).size, 3);
    assert.deepEqual([first.body.has_more, second.body.next_cursor], [true, null]);
    assert.equal((await app.get('/v1/webhooks?after=x', { key })).status, 400);
  });

  for (const [path, body, code, field, reason] of [
    ['test', { type: 'read' }, 'unknown_event_type', 'type', 'no such kind'],
    ['test', { kind: 'sent' }, 'unknown_field', 'kind', 'a typing error'],
    ['replay', {}, 'missing_field', 'since', 'no time'],
    ['replay', { since: 'yesterday' }, 'invalid_field', 'since', 'no time'],
    ['replay', { since: '2026-01-31T00:00:00' }, 'invalid_field', 'since', 'no offset'],
    [
      'replay',
      { since: '2026-01-31T00:00:00Z', until: '2026-01-30T00:00:00Z' },
      'invalid_field',
      'since',
      'ends before it begins',
    ],
    ['replay', { since: '2030-01-01T00:00:00Z' }, 'invalid_field', 'since', 'has not come yet'],
    ['replay', { since: '2026-01-01T00:00:00Z', only: 'new' }, 'invalid_field', 'only', 'no such choice'],
    ['replay', { since: '2026-01-01T00:00:00Z', types: ['read'] }, 'unknown_event_type', 'types[0]', 'no such kind'],
  ] as const) {
    it(`refuses ${path} with ${JSON.stringify(body)}: ${reason}`, async () => {
      const { body: hook } = await post({ url: url() });
      const { status, body: answer } = await app.request<Refusal>(
        'POST',
        `/v1/webhooks/${String(hook['id'])}/${path}`,
        body,
      );
      assert.equal(status, 400);
      assert.deepEqual([answer.error.code, answer.error.field], [code, field], answer.error.message);
    });
  }

  it('sends nothing again to an endpoint that is paused', async () => {
    const { body } = await post({ url: url(), enabled: false });
    const answer = await app.request<Refusal>('POST', `/v1/webhooks/${String(body['id'])}/replay`, {
      since: '2026-01-01T00:00:00Z',
    });
    assert.deepEqual([answer.status, answer.body.error.code], [409, 'invalid_state']);
  });

  it('has room for a hundred endpoints of an account', async () => {
    await app.operator.call('accounts.add', { name: 'full', plan: 'unlimited' });
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account: 'full',
      body: { name: 'k', scopes: ['webhook'] },
    });
    for (let n = 0; n < 100; n++)
      assert.equal((await app.request('POST', '/v1/webhooks', { url: url() }, { key })).status, 201);
    const { status, body } = await app.request<Refusal>('POST', '/v1/webhooks', { url: url() }, { key });
    assert.deepEqual([status, body.error.code], [409, 'invalid_state']);
  });

  it('describes the six calls in the OpenAPI document, each with a sample of its kind', async () => {
    const { body } = await app.get<{ webhooks: Record<string, Json> }>('/v1/openapi.json', { key: null });
    assert.deepEqual(Object.keys(body.webhooks), allEventTypes);
    for (const type of allEventTypes) {
      const { post: call } = body.webhooks[type] as {
        post: {
          parameters: { name: string }[];
          requestBody: { content: { 'application/json': { examples: Record<string, { value: unknown }> } } };
        };
      };
      assert.deepEqual(
        call.parameters.map(({ name }) => name),
        ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
      );
      const sample = call.requestBody.content['application/json'].examples[type]?.value;
      assert.deepEqual(Event.parse(sample), sample);
    }
  });
});
