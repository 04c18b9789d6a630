/** Test keys are a sandbox: whatever one tries on live data, it sees and changes nothing. And a key gives no more than its own rights. */
import assert from 'node:assert/strict';
import { scopeNames } from '../../src/keys/scopes.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { publishedDocument } from '../support/tools/published.ts';
import { worldFor, type World } from '../support/harness/world.ts';

interface Refusal {
  error: { code: string; field: string | null; message: string };
}

interface Operation {
  operationId: string;
  'x-test-keys'?: string;
  requestBody?: { content: Record<string, { examples?: Record<string, { value: unknown }> }> };
}

interface Listed {
  data: { id: string; test: boolean }[];
}

interface Audited {
  id: string;
  key_id: string | null;
  operation: string | null;
  request_id: string;
}

describe('test keys', () => {
  let app: TestApp;
  let world: World;
  let sandbox: string;
  let owner: string;
  let operations: (Operation & { method: string; path: string })[];
  const makeKey = async (more: object): Promise<string> =>
    (
      await app.operator.ask<{ id: string; key: string }>('createKey', {
        body: { name: 'one', scopes: scopeNames, ...more },
      })
    ).key;

  before(async () => {
    app = await startTestApp();
    world = await worldFor(app);
    sandbox = await makeKey({ mode: 'test' });
    owner = await makeKey({});
    const paths = (await publishedDocument())['paths'] as Record<string, Record<string, Operation>>;
    operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
    );
  });
  after(() => app.stop());

  /** All that a live key reads of what the world has, without what its own requests change. */
  async function everything(): Promise<string> {
    const told: unknown[] = [];
    for (const path of Object.keys(world.ids)) {
      const { data } = (await app.get<{ data: object[] }>(`/v1/${path}?limit=100`, { key: owner })).body;
      told.push(
        data.map((one) =>
          Object.fromEntries(Object.entries(one).filter(([name]) => !/^last_used|^requests_24h$/.test(name))),
        ),
      );
    }
    told.push((await app.get('/v1/settings', { key: owner })).body['retention']);
    return JSON.stringify(told);
  }

  it('a test key with every scope reads no secret of a webhook endpoint', async () => {
    const { status, body } = await app.get<Refusal>('/v1/webhooks/whk_any/secret', { key: sandbox });
    assert.deepEqual([status, body.error.code], [403, 'forbidden_in_test_mode']);
  });

  it('a test key with every scope changes nothing live, by no operation there is', async () => {
    const before = await everything();
    const seen = new Set<string>();
    for (const { method, path, operationId, requestBody, ...rest } of operations) {
      if (method === 'GET' || operationId === 'sendMessage') continue;
      const [example] = Object.values(requestBody?.content['application/json']?.examples ?? {});
      const answer = await app.request<Refusal>(method, world.targetOf(path), example?.value, { key: sandbox });
      const code = rest['x-test-keys'] === 'refused' ? 'forbidden_in_test_mode' : 'not_found';
      if (operationId === 'renderTemplate') assert.equal(answer.status, 200);
      else assert.equal(answer.body.error.code, code, `${operationId}: ${answer.text}`);
      seen.add(code);
    }
    assert.equal(seen.size, 2);
    assert.equal(await everything(), before);
  });

  it('a test key sees simulated mail only', async () => {
    const live = await app.send({ to: 'ana@dest.test', send_at: '2026-02-02T00:00:00Z' });
    const test = await app.send({ to: 'ana@dest.test' }, { key: sandbox });
    await app.settled();
    for (const below of ['', '/content', '/raw', '/attempts', '/why', '/reports'])
      assert.equal((await app.get(`/v1/messages/${live.id}${below}`, { key: sandbox })).status, 404, below);
    assert.equal((await app.get(`/v1/messages/${test.id}/content`, { key: sandbox })).status, 200);
    const { data } = (await app.get<Listed>('/v1/messages', { key: sandbox })).body;
    assert.deepEqual(
      data.map(({ id }) => id),
      [test.id],
    );
    const events = (await app.get<Listed>('/v1/events?type=sent,delivered,deferred', { key: sandbox })).body;
    assert.ok(events.data.length > 0 && events.data.every((event) => event.test));
    const { total } = (await app.get<{ total: { sent: number } }>('/v1/stats', { key: sandbox })).body;
    assert.equal(total.sent, 1);
    for (const path of ['/v1/messages', '/v1/events', '/v1/stats']) {
      const { status, body } = await app.get<Refusal>(`${path}?test=false`, { key: sandbox });
      assert.deepEqual([status, body.error.code, body.error.field], [403, 'forbidden_in_test_mode', 'test'], path);
    }
  });

  it('a test key sees no use of a live key and no act of a person in the audit log', async () => {
    await app.get('/v1/messages?to=live-person@dest.test', { key: owner });
    await app.get('/v1/messages?to=test-person@dest.test', { key: sandbox });
    const { data: keys } = (await app.get<{ data: { id: string; mode: string }[] }>('/v1/keys', { key: owner })).body;
    const isTest = ({ key_id }: Audited): boolean => keys.some(({ id, mode }) => id === key_id && mode === 'test');
    const read = async (key: string): Promise<Audited[]> =>
      (await app.get<{ data: Audited[] }>('/v1/audit?limit=100', { key })).body.data;
    const uses = (entries: Audited[]): Audited[] => entries.filter(({ operation }) => operation === 'listMessages');
    // Reads are written in a batch, which the next insert waits for.
    app.clock.advance(1000);
    await app.app.db.commit.insert({});
    const seen = await read(sandbox);
    assert.ok(seen.every(isTest));
    const hidden = (await read(owner)).filter((entry) => !isTest(entry));
    assert.ok(uses(hidden).length > 0 && hidden.some(({ key_id }) => key_id === null));
    for (const { id, request_id } of hidden) {
      assert.equal((await app.get(`/v1/audit/${id}`, { key: sandbox })).status, 404, id);
      const found = (await app.get<{ data: unknown[] }>(`/v1/audit?request_id=${request_id}`, { key: sandbox })).body;
      assert.deepEqual(found.data, [], request_id);
    }
    const queries = await Promise.all(
      uses(seen).map(
        async ({ id }) => (await app.get<{ query: string | null }>(`/v1/audit/${id}`, { key: sandbox })).body.query,
      ),
    );
    assert.ok(queries.includes('to=test-person@dest.test'), queries.join());
  });

  it('a test key sees no events of live mail that also goes to the simulator', async () => {
    const to = 'delivered+events@simulator.posthorn.test';
    const live = await app.send({ to, cc: 'ana@dest.test', subject: 'Live' });
    const path = `/v1/events?message_id=${live.id}`;
    await app.settled();
    const seen = (await app.get<Listed>(`${path}&test=true&type=delivered`, { key: owner })).body;
    assert.equal(seen.data.length, 1);
    for (const more of ['', '&type=delivered']) {
      const { data } = (await app.get<Listed>(path + more, { key: sandbox })).body;
      assert.deepEqual(data, [], more);
    }
  });

  it('a test key erases nothing of live mail that also goes to the simulator', async () => {
    const to = 'delivered+both@simulator.posthorn.test';
    const live = await app.send({ to, cc: 'ana@dest.test', subject: 'Live', send_at: '2026-02-02T00:00:00Z' });
    const path = `/v1/recipients/${encodeURIComponent(to)}`;
    assert.equal((await app.request('DELETE', path, undefined, { key: sandbox })).status, 404);
    const { recipients } = await app.message(live.id);
    assert.deepEqual([recipients[0]?.email, recipients[0]?.status], [to, 'scheduled']);
  });

  it('a key that may not read messages gets none by the Idempotency-Key of another that sent one again', async () => {
    const { id } = await app.send({ subject: 'Of another key' });
    const path = `/v1/messages/${id}/resend`;
    const headers = { 'idempotency-key': 'resend-17' };
    assert.equal((await app.request('POST', path, undefined, { headers })).status, 202);
    const key = await makeKey({ scopes: ['send'] });
    assert.equal((await app.request('POST', path, undefined, { key })).status, 404);
    const refused = await app.request<Refusal>('POST', path, undefined, { key, headers });
    assert.deepEqual([refused.status, refused.body.error.code], [409, 'idempotency_key_reused']);
    assert.equal((await app.request('POST', path, undefined, { key: owner, headers })).status, 202);
  });

  it('a test key cancels, moves and erases its own mail, and of a person only that', async () => {
    const later = { to: 'cy@dest.test', send_at: '2026-02-02T00:00:00Z' };
    const live = await app.send(later);
    const own = await app.send(later, { key: sandbox });
    const bulk = {
      from: 'hi@acme.test',
      subject: 'S',
      text: 'T',
      send_at: later.send_at,
      recipients: [{ to: 'di@dest.test' }],
    };
    const sent = await app.request<{ id: string }>('POST', '/v1/messages', bulk, { key: sandbox });
    const move = { send_at: '2026-02-03T00:00:00Z' };
    assert.equal((await app.request('PATCH', `/v1/messages/${own.id}`, move, { key: sandbox })).status, 200);
    assert.equal((await app.request('PATCH', `/v1/messages/${live.id}`, move, { key: sandbox })).status, 404);
    assert.equal((await app.get(`/v1/batches/${sent.body.id}`, { key: sandbox })).status, 200);
    assert.deepEqual(
      (await app.get<Listed>('/v1/batches', { key: sandbox })).body.data.map(({ id }) => id),
      [sent.body.id],
    );
    assert.equal(
      (await app.request('POST', `/v1/batches/${sent.body.id}/cancel`, undefined, { key: sandbox })).status,
      200,
    );
    assert.equal(
      (await app.request('DELETE', '/v1/recipients/cy%40dest.test', undefined, { key: sandbox })).status,
      204,
    );
    assert.equal((await app.message(own.id)).recipients[0]?.email, 'erased@erased.invalid');
    const { recipients } = await app.message(live.id);
    assert.deepEqual([recipients[0]?.email, recipients[0]?.status], ['cy@dest.test', 'scheduled']);
    assert.equal(
      (await app.request('DELETE', '/v1/recipients/cy%40dest.test', undefined, { key: sandbox })).status,
      404,
    );
  });

  it('a key ends and replaces no key that may do more than itself', async () => {
    const strong = (
      await app.operator.ask<{ id: string; key: string }>('createKey', {
        body: { name: 'strong', scopes: ['key', 'send', 'settings'] },
      })
    ).id;
    const weak = (
      await app.operator.ask<{ id: string; key: string }>('createKey', { body: { name: 'weak', scopes: ['key'] } })
    ).id;
    const key = await makeKey({ scopes: ['key'] });
    const refused = await app.request<Refusal>('DELETE', `/v1/keys/${strong}`, undefined, { key });
    assert.deepEqual(
      [refused.status, refused.body.error.code, refused.body.error.field],
      [403, 'insufficient_scope', 'id'],
    );
    const replaced = await app.request<Refusal>(
      'POST',
      '/v1/keys',
      { name: 'new', scopes: ['key'], replaces: strong },
      { key },
    );
    assert.deepEqual(
      [replaced.status, replaced.body.error.code, replaced.body.error.field],
      [403, 'insufficient_scope', 'replaces'],
    );
    assert.equal(
      (await app.get<{ revoked_at: string | null }>(`/v1/keys/${strong}`, { key: owner })).body.revoked_at,
      null,
    );
    assert.equal((await app.request('DELETE', `/v1/keys/${weak}`, undefined, { key })).status, 204);
  });

  it('a replay shows no key the making of one that may do more than itself', async () => {
    const headers = { 'idempotency-key': 'making-of-a-key' };
    const made = await app.request<{ key: string }>(
      'POST',
      '/v1/keys',
      { name: 'strong', scopes: ['send', 'settings'] },
      { key: owner, headers },
    );
    assert.equal(made.status, 201);
    const key = await makeKey({ scopes: ['key'] });
    for (const body of [
      { name: 'strong', scopes: ['send', 'settings'] },
      { name: 'weak', scopes: ['key'] },
    ]) {
      const { status, text } = await app.request('POST', '/v1/keys', body, { key, headers });
      assert.equal(status, 403, text);
      assert.ok(!text.includes(made.body.key));
    }
    const rotated = await makeKey({});
    const again = await app.request<{ key: string }>(
      'POST',
      '/v1/keys',
      { name: 'strong', scopes: ['send', 'settings'] },
      { key: rotated, headers },
    );
    assert.equal(again.body.key, made.body.key, 'a key that may do as much gets the first answer');
  });

  it('a replay shows no mail of other domains to a key that is restricted to some', async () => {
    const headers = { 'idempotency-key': 'mail-of-acme' };
    const first = await app.send({}, { headers });
    const body = { from: 'Acme <hi@acme.test>', to: 'ana@dest.test', subject: 'Welcome', text: 'Good day.' };
    const elsewhere = await makeKey({ domains: ['acme.example'] });
    const refused = await app.request<Refusal>('POST', '/v1/messages', body, { key: elsewhere, headers });
    assert.deepEqual([refused.status, refused.body.error.code], [403, 'domain_not_allowed']);
    const again = await app.request<{ id: string }>('POST', '/v1/messages', body, { key: owner, headers });
    assert.equal(again.body.id, first.id);
  });

  it('a refusal that is given again says so, and when it was first given', async () => {
    const headers = { 'idempotency-key': 'order-17' };
    const body = { from: 'hi@late.test', to: 'ana@dest.test', subject: 'Order 17', text: 'Thank you.' };
    const first = await app.request('POST', '/v1/messages', body, { headers });
    assert.equal(first.status, 403);
    const at = new Date(app.clock.now()).toISOString();
    await app.operator.ask('createDomain', { body: { name: 'late.test', trusted: true } });
    app.clock.advance(60_000);
    const again = await app.request('POST', '/v1/messages', body, { headers });
    assert.deepEqual([again.status, again.text], [403, first.text], 'the first response, as the law says');
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.equal(again.headers.get('idempotency-first-answer'), at);
    assert.match(
      again.headers.get('idempotency-warning') ?? '',
      new RegExp(`^This is the answer of ${at}.*new Idempotency-Key`),
    );
    assert.equal(first.headers.get('idempotency-warning'), null);
    const other = { 'idempotency-key': 'order-17-again' };
    assert.equal((await app.request('POST', '/v1/messages', body, { headers: other })).status, 202);
  });
});
