/** The client against the whole program. */
import assert from 'node:assert/strict';
import {
  ApiError,
  AuthError,
  ConflictError,
  MailClient,
  NetworkError,
  ValidationError,
  type MailEvent,
} from '../../src/client/index.ts';
import { ALL_SCOPES, startTestApp, type TestApp } from '../support/harness/app.ts';

/** One try may take as long as a busy machine needs; the usual limit is half a minute of real time. */
const timeoutMs = 280_000;
const MAIL = { from: 'Acme <hi@acme.test>', subject: 'Welcome', html: '<p>Good day.</p>' };

describe('client: journey', () => {
  let app: TestApp;
  let mail: MailClient;
  before(async () => {
    app = await startTestApp();
    mail = new MailClient({ apiKey: app.key, baseUrl: app.url, timeoutMs });
  });
  after(() => app.stop());

  const refused =
    (type: new (...given: never[]) => ApiError, code: string, field: string | null) => (error: unknown) => {
      assert.ok(error instanceof type, String(error));
      assert.deepEqual([error.code, error.field], [code, field]);
      assert.match(error.requestId ?? '', /^req_/);
      return true;
    };

  it('takes bytes as files, and an address with the version', async () => {
    const own = new MailClient({ apiKey: app.key, baseUrl: `${app.url}/v1/`, timeoutMs });
    const to = 'delivered@simulator.posthorn.test';
    const attachments = [{ filename: 'a.txt', content: Buffer.from('Thank you.') }];
    const { id } = await own.messages.send({ ...MAIL, to, attachments });
    const stored = await own.messages.content(id);
    assert.deepEqual(
      stored.attachments.map(({ filename, size }) => [filename, size]),
      [['a.txt', 10]],
    );
    const bulk = await own.messages.sendBulk({
      ...MAIL,
      attachments,
      recipients: [{ to, attachments }, { to: 'bo@dest.test' }],
    });
    assert.equal(bulk.accepted, 2);
  });

  it('sends, follows and reads a mail', async () => {
    const sent = await mail.messages.send({ ...MAIL, to: 'delivered@simulator.posthorn.test', tags: ['a', 'b'] });
    assert.equal(sent.status, 'queued');
    const kinds: string[] = [];
    for await (const event of mail.events.stream({ message_id: sent.id })) {
      kinds.push(event.type);
      if (event.type === 'delivered') {
        // Known by the type alone: `delivered` is the member of this kind.
        assert.equal(event.data.delivered.attempt, 1);
        break;
      }
    }
    assert.deepEqual(kinds, ['sent', 'delivered']);
    const read = await mail.messages.get(sent.id, { expand: 'content' });
    assert.deepEqual([read.status, read.content?.html], ['delivered', MAIL.html]);
    assert.deepEqual(
      (await mail.messages.attempts(sent.id)).data.map(({ outcome }) => outcome),
      ['accepted'],
    );
    const { data } = await mail.messages.list({ tag: ['a', 'b'], status: ['delivered', 'sent'] });
    assert.deepEqual(
      data.map(({ id }) => id),
      [sent.id],
    );
    assert.match((await mail.messages.why(sent.id)).recipients[0]?.message ?? '', /finished/);
  });

  it('does a thing once, however often it is asked', async () => {
    const body = { ...MAIL, to: 'ana@dest.test' };
    const first = await mail.messages.send(body, { idempotencyKey: 'order-17' });
    const { data, response } = await mail.messages.send(body, { idempotencyKey: 'order-17' }).withResponse();
    assert.deepEqual([data.id, response.headers.get('idempotency-replayed'), response.status], [first.id, 'true', 202]);
    assert.match(response.requestId ?? '', /^req_/);
  });

  it('a refusal does not stay with its key when its cause is gone, and nothing is sent twice', async () => {
    const body = { ...MAIL, from: 'hi@late.test', to: 'ana@dest.test' };
    const options = { idempotencyKey: 'order-18-confirmation' };
    const ids: string[] = [];
    for (let n = 0; n < 2; n++) {
      await assert.rejects(mail.messages.send(body, options), refused(AuthError, 'domain_not_verified', 'from'));
      app.clock.advance(1_000);
    }
    await app.operator.ask('createDomain', { body: { name: 'late.test', trusted: true } });
    app.clock.advance(2_000);
    for (let n = 0; n < 3; n++) ids.push((await mail.messages.send({ ...body, to: 'bo@dest.test' }, options)).id);
    assert.equal(new Set(ids).size, 1);
  });

  it('asks twice at most for a request that is refused again and again', async () => {
    let asks = 0;
    const counted: typeof fetch = (...asked) => {
      asks++;
      return fetch(...asked);
    };
    const own = new MailClient({ apiKey: app.key, baseUrl: app.url, fetch: counted, timeoutMs });
    const body = { ...MAIL, from: 'hi@later.test', to: 'ana@dest.test' };
    const options = { idempotencyKey: 'order-19-confirmation' };
    const costs: number[] = [];
    for (let n = 0; n < 6; n++) {
      asks = 0;
      await assert.rejects(own.messages.send(body, options), refused(AuthError, 'domain_not_verified', 'from'));
      costs.push(asks);
      app.clock.advance(1_000);
    }
    assert.deepEqual(costs, [1, 2, 2, 2, 2, 2]);
    await app.operator.ask('createDomain', { body: { name: 'later.test', trusted: true } });
    app.clock.advance(2_000);
    const { id } = await own.messages.send(body, options);
    // Another process knows nothing of the keys between, and comes to the same mail.
    for (const client of [own, mail]) assert.equal((await client.messages.send(body, options)).id, id);
  });

  it('repeats a request whose answer was lost, and the mail goes out once', async () => {
    let asks = 0;
    const lossy: typeof fetch = async (...asked) => {
      const response = await fetch(...asked);
      if (asks++ > 0) return response;
      await response.text();
      throw new TypeError('fetch failed');
    };
    const own = new MailClient({ apiKey: app.key, baseUrl: app.url, fetch: lossy, timeoutMs });
    const { id } = await own.messages.send({ ...MAIL, to: 'once@dest.test' });
    assert.equal(asks, 2);
    const { data } = await mail.messages.list({ to: 'once@dest.test' });
    assert.deepEqual(
      data.map((message) => message.id),
      [id],
    );
  });

  it('tells entry by entry what became of a bulk send', async () => {
    const batch = await mail.messages.sendBulk({
      ...MAIL,
      send_at: '2026-02-01T00:00:00Z',
      recipients: [{ to: 'bo@dest.test' }, { to: 'bo@' }],
    });
    assert.deepEqual(
      batch.data.map(({ error }) => error?.code),
      [undefined, 'invalid_recipient'],
    );
    assert.equal((await mail.batches.get(batch.id)).counts?.['queued'] !== undefined, true);
    assert.equal((await mail.batches.cancel(batch.id)).id, batch.id);
  });

  it('walks lists page by page, and takes up events where it left them', async () => {
    for (let n = 0; n < 5; n++) await mail.suppressions.create({ email: `gone${n}@dest.test`, note: 'walk' });
    const walked: string[] = [];
    for await (const { email } of mail.suppressions.each({ limit: 2 })) walked.push(email);
    assert.deepEqual(
      walked,
      [4, 3, 2, 1, 0].map((n) => `gone${n}@dest.test`),
    );

    const all = await mail.events.list({ limit: 1000 });
    const seen: MailEvent[] = [];
    for await (const event of mail.events.stream({ limit: 2, after: all.data[0]?.id }))
      if (seen.push(event) === all.data.length - 1) break;
    assert.deepEqual(
      seen.map(({ id }) => id),
      all.data.slice(1).map(({ id }) => id),
    );
  });

  it('ends a long poll when the caller has had enough', async () => {
    // An event of a mail that was sent before, and is still under way, would end the poll.
    await app.settled();
    const stop = new AbortController();
    const { next_cursor: after } = await mail.events.list({ limit: 1000 });
    const arrives = app.clock.armed(30_000);
    const waiting = mail.events.stream({ after: after ?? undefined }, { signal: stop.signal }).next();
    await arrives;
    stop.abort(new Error('enough'));
    await assert.rejects(waiting, /enough/);
  });

  it('has a class for each kind of refusal', async () => {
    await assert.rejects(
      mail.messages.send({ ...MAIL, to: 'nobody' }),
      refused(ValidationError, 'invalid_recipient', 'to'),
    );
    await assert.rejects(mail.messages.get('msg_01jz5w8q3hf2m9d4x6k7c1b0na'), refused(ApiError, 'not_found', 'id'));
    await assert.rejects(mail.templates.delete('nowhere'), ApiError);
    const stranger = new MailClient({ apiKey: 'ak_live_nobody', baseUrl: app.url, timeoutMs });
    await assert.rejects(stranger.settings.get(), refused(AuthError, 'invalid_api_key', null));
    await mail.templates.create({ alias: 'twice', text: 'x' });
    await assert.rejects(
      mail.templates.create({ alias: 'twice', text: 'x' }),
      refused(ConflictError, 'already_exists', 'alias'),
    );
    const lost = new MailClient({ apiKey: 'k', baseUrl: 'http://127.0.0.1:9', maxRetries: 0 });
    await assert.rejects(lost.settings.get(), NetworkError);
  });

  it('keeps templates, streams, domains, keys and settings', async () => {
    const template = await mail.templates.create({ alias: 'hello', subject: 'Hello {{name}}', text: 'Dear {{name}}' });
    await mail.templates.publish(template.id);
    await mail.templates.update('hello', { subject: 'Hi {{name}}' });
    assert.equal((await mail.templates.versions('hello')).data.length, 2);
    const { subject } = await mail.templates.render({ template_id: 'hello', variables: { name: 'Ana' } });
    assert.equal(subject?.rendered, 'Hi Ana');
    await mail.templates.delete('hello');
    await assert.rejects(mail.templates.get('hello'), refused(ApiError, 'not_found', 'id'));

    const stream = await mail.streams.create({ slug: 'news', name: 'News', type: 'broadcast' });
    assert.equal((await mail.streams.update(stream.id, { paused: true })).paused, true);
    await mail.streams.delete(stream.id);

    const domain = await mail.domains.create({ name: 'shop.test' });
    assert.ok(domain.records.length > 2);
    assert.equal((await mail.domains.verify(domain.id)).status !== 'verified', true);
    assert.equal((await mail.domains.update(domain.id, { track_opens: true })).track_opens, true);
    await mail.domains.delete(domain.id);

    const key = await mail.keys.create({ name: 'child', scopes: ['send'] });
    assert.match(key.key, /^ak_live_/);
    assert.ok(ALL_SCOPES.includes('key'));
    assert.equal((await mail.keys.update(key.id, { name: 'renamed' })).name, 'renamed');
    await mail.keys.revoke(key.id);
    assert.ok((await mail.keys.get(key.id)).revoked_at);

    assert.equal((await mail.settings.update({ track_opens: true })).track_opens, true);
    for await (const { result } of mail.audit.each({ limit: 100 })) assert.ok(result);
    assert.equal((await mail.openapi())['openapi'], '3.1.0');
  });
});
