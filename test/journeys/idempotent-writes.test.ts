/**
 * Every write of the API commits its audit line, and for a POST the record of its answer, together with its work: a crash between
 * the two would do the work a second time for a caller that asks again.
 */
import assert from 'node:assert/strict';
import { createTransport } from 'nodemailer';
import type { Committer } from '../../src/storage/commit.ts';
import { startTestApp, type Answer, type TestApp } from '../support/harness/app.ts';
import { startReceiver, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';

type Body = Record<string, unknown> & { id: string };
type Write = [operation: string, method: string, path: string, body?: object];

/** A list is added in parts, and an address that is there already is left as it is; so the record follows the last part. */
const IN_PARTS: ReadonlySet<string> = new Set(['importSuppressions']);
/** Operations without an effect have nothing to commit. */
const WITHOUT_EFFECT = ['renderTemplate'];

describe('journey: idempotent writes', () => {
  let app: TestApp;
  let receiver: WebhookReceiver;
  /** The rows that were committed for themselves, by table. */
  let alone: string[];

  beforeEach(async () => {
    app = await startTestApp({ settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } } });
    receiver = await startReceiver();
    alone = [];
    const { commit } = app.app.db as { commit: { insert: Committer['insert'] } };
    const insert = commit.insert.bind(commit);
    commit.insert = (rows, bytes) => {
      const tables = Object.keys(rows);
      if (tables.every((table) => table === 'audit' || table === 'idempotency')) alone.push(...tables);
      return insert(rows, bytes);
    };
  });
  afterEach(async () => {
    await receiver.close();
    await app.stop();
  });

  /** The writes, one for each operation, in an order in which each finds what it is about. */
  async function* writes(): AsyncGenerator<Write, void, Body> {
    const later = new Date(app.clock.now() + 3_600_000).toISOString();
    const mail = { from: 'hi@acme.test', subject: 'Hello', text: 'Hello.' };
    const waiting = { ...mail, to: 'ana@dest.test', send_at: later };

    const { id: moved } = yield ['sendMessage', 'POST', '/v1/messages', waiting];
    yield [
      'updateMessage',
      'PATCH',
      `/v1/messages/${moved}`,
      { send_at: new Date(app.clock.now() + 7_200_000).toISOString() },
    ];
    yield ['cancelMessage', 'POST', `/v1/messages/${moved}/cancel`];
    yield ['resendMessage', 'POST', `/v1/messages/${moved}/resend`];
    yield ['deleteMessageContent', 'DELETE', `/v1/messages/${moved}/content`];
    const recipients = Array.from({ length: 250 }, (_, n) => ({ to: `bo${String(n)}@dest.test` }));
    const { id: batch } = yield ['sendMessage', 'POST', '/v1/messages', { ...mail, send_at: later, recipients }];
    yield ['cancelBatch', 'POST', `/v1/batches/${batch}/cancel`];
    yield ['deleteRecipient', 'DELETE', '/v1/recipients/bo1@dest.test'];

    const { id: domain } = yield ['createDomain', 'POST', '/v1/domains', { name: 'shop.test' }];
    yield ['updateDomain', 'PATCH', `/v1/domains/${domain}`, { track_opens: true }];
    yield ['verifyDomain', 'POST', `/v1/domains/${domain}/verify`];
    // The operator's word lets its keys sign, so that others can follow them.
    await app.operator.ask('createDomain', { body: { name: 'trusted.test', trusted: true } });
    yield ['rotateDomainDkim', 'POST', '/v1/domains/trusted.test/dkim/rotate'];
    yield ['deleteDomain', 'DELETE', `/v1/domains/${domain}`];

    yield ['deleteReceived', 'DELETE', `/v1/received/${await received()}`];

    const { id: key } = yield ['createKey', 'POST', '/v1/keys', { name: 'Shop', scopes: ['send'] }];
    yield ['updateKey', 'PATCH', `/v1/keys/${key}`, { name: 'Old shop' }];
    yield ['revokeKey', 'DELETE', `/v1/keys/${key}`];

    yield ['updateSettings', 'PATCH', '/v1/settings', { track_opens: true }];

    const { id: stream } = yield [
      'createStream',
      'POST',
      '/v1/streams',
      { slug: 'news', name: 'News', type: 'broadcast' },
    ];
    yield ['updateStream', 'PATCH', `/v1/streams/${stream}`, { paused: true }];
    yield ['deleteStream', 'DELETE', `/v1/streams/${stream}`];

    yield ['createSuppression', 'POST', '/v1/suppressions', { email: 'cy@dest.test' }];
    yield ['createSuppression', 'POST', '/v1/suppressions', { email: 'cy@dest.test' }];
    yield ['createSuppression', 'POST', '/v1/suppressions', { emails: ['cy@dest.test', 'di@dest.test', 'none'] }];
    yield [
      'importSuppressions',
      'POST',
      '/v1/suppressions/import',
      { content: 'email,reason\nei@dest.test,550 no such user\n' },
    ];
    yield ['deleteSuppression', 'DELETE', '/v1/suppressions/cy@dest.test'];

    const { id: template } = yield [
      'createTemplate',
      'POST',
      '/v1/templates',
      { alias: 'welcome', name: 'Welcome', subject: 'Hi', text: 'Hi' },
    ];
    yield ['updateTemplate', 'PATCH', `/v1/templates/${template}`, { subject: 'Hello' }];
    yield ['publishTemplate', 'POST', `/v1/templates/${template}/publish`, {}];
    yield ['deleteTemplate', 'DELETE', `/v1/templates/${template}`];

    const { id: hook } = yield ['createWebhook', 'POST', '/v1/webhooks', { url: receiver.url }];
    yield ['updateWebhook', 'PATCH', `/v1/webhooks/${hook}`, { description: 'The shop' }];
    yield ['testWebhook', 'POST', `/v1/webhooks/${hook}/test`, {}];
    yield ['replayWebhook', 'POST', `/v1/webhooks/${hook}/replay`, { since: '2026-01-01T00:00:00Z', only: 'all' }];
    yield ['resendWebhookDelivery', 'POST', `/v1/webhooks/${hook}/deliveries/${await called(hook)}/resend`];
    yield ['rotateWebhookSecret', 'POST', `/v1/webhooks/${hook}/secret/rotate`, {}];
    yield ['deleteWebhook', 'DELETE', `/v1/webhooks/${hook}`];
  }

  /** A mail that came in. */
  async function received(): Promise<string> {
    const receiving = { receiving: true, receiving_addresses: ['*'] };
    await app.operator.ask('updateDomain', { params: { id: 'acme.test' }, body: receiving });
    const transport = createTransport({ host: '127.0.0.1', port: app.app.ports.mx ?? 0, ignoreTLS: true });
    await transport.sendMail({ from: 'ana@dest.test', to: 'hi@acme.test', subject: 'Re: order', text: 'Thank you' });
    for (;;) {
      const { body } = await app.get<{ data: { id: string; status: string }[] }>('/v1/received');
      const found = body.data.find(({ status }) => status === 'read');
      if (found !== undefined) return found.id;
    }
  }

  /** A call with a real event. */
  async function called(hook: string): Promise<string> {
    await app.send({ to: 'delivered@simulator.posthorn.test' });
    for (;;) {
      const { body } = await app.get<{ data: { id: string; cause: string }[] }>(`/v1/webhooks/${hook}/deliveries`);
      const found = body.data.find(({ cause }) => cause !== 'test');
      if (found !== undefined) return found.id;
    }
  }

  const ask = ([, method, path, body]: Write, idempotencyKey: string): Promise<Answer<Body>> =>
    app.request<Body>(method, path, body, { headers: { 'Idempotency-Key': idempotencyKey } });

  it('commit the answer, and the line of the audit log, with the work; all of them, and a repeated POST does nothing', async () => {
    const missing = new Set((await operations()).filter((one) => !WITHOUT_EFFECT.includes(one)));
    const all = writes();
    let number = 0;
    for (let next = await all.next(); next.done !== true;) {
      const write = next.value;
      const [operation, method] = write;
      const key = `write-${String(++number)}`;
      alone = [];
      const first = await ask(write, key);
      assert.ok(first.status < 300, `${operation}: ${first.text}`);
      assert.deepEqual(
        alone,
        IN_PARTS.has(operation) ? ['idempotency'] : [],
        `${operation} commits these for themselves`,
      );
      if (method === 'POST') {
        const again = await ask(write, key);
        assert.deepEqual([again.status, again.text], [first.status, first.text], operation);
        assert.equal(again.headers.get('idempotency-replayed'), 'true', operation);
      }
      missing.delete(operation);
      next = await all.next(first.body);
    }
    assert.deepEqual([...missing], [], 'writes that are not tried here');
    const { body } = await app.get<{ data: { method: string; endpoint: string }[] }>('/v1/audit?limit=100');
    const lines = body.data.filter((line) => line.method === 'POST' && line.endpoint === '/v1/batches/{id}/cancel');
    assert.equal(lines.length, 2, 'the work, and its repetition');
  });

  it('leave no record behind where nothing was done', async () => {
    const { id } = await app.send({ send_at: new Date(app.clock.now() + 3_600_000).toISOString() });
    const cancel: Write = ['cancelMessage', 'POST', `/v1/messages/${id}/cancel`];
    assert.equal((await ask(cancel, 'first')).status, 200);
    const refused = await ask(cancel, 'second');
    assert.equal(refused.status, 409);
    assert.deepEqual(
      alone.filter((table) => table === 'idempotency'),
      ['idempotency'],
      'the refusal alone',
    );
    const again = await ask(cancel, 'second');
    assert.deepEqual([again.status, again.text], [409, refused.text]);
  });

  async function operations(): Promise<string[]> {
    const { body } = await app.get<{ paths: Record<string, Record<string, { operationId?: string }>> }>(
      '/v1/openapi.json',
    );
    return Object.values(body.paths).flatMap((path) =>
      Object.entries(path).flatMap(([method, { operationId }]) =>
        method === 'get' || method === 'parameters' || operationId === undefined ? [] : [operationId],
      ),
    );
  }
});
