/** Acts on mail after it was accepted, and questions about it. */
import assert from 'node:assert/strict';
import { simpleParser } from 'mailparser';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

interface Record_ {
  id: string;
  object: string;
  status: string;
  send_at: string | null;
  error: { code: string; message: string; field: string | null };
}
interface Why {
  recipients: { email: string; status: string; reason: string; message: string; until: string | null }[];
}
interface Batch {
  id: string;
  accepted: number;
  counts: Record<string, number> | null;
  error: { code: string };
}

describe('journey: message actions', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let answer = '250 2.1.5 ok';

  beforeEach(async () => {
    answer = '250 2.1.5 ok';
    server = await startMailServer({ script: { rcpt: () => answer } });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const later = (ms: number): string => new Date(app.clock.now() + ms).toISOString();
  const HOUR = 3_600_000;
  const cancel = (id: string) => app.request<Record_>('POST', `/v1/messages/${id}/cancel`);
  const move = (id: string, send_at: unknown) => app.request<Record_>('PATCH', `/v1/messages/${id}`, { send_at });
  const why = async (id: string) => (await app.get<Why>(`/v1/messages/${id}/why`)).body.recipients;

  it('tells a client that cancels twice at once that the mail is finished, not that it is being sent', async () => {
    const waiting = await app.send({ send_at: later(HOUR) });
    const answers = await Promise.all([cancel(waiting.id), cancel(waiting.id)]);
    const refused = answers.filter(({ status }) => status !== 200);
    assert.deepEqual(
      refused.map(({ body }) => body.error.message),
      ['The message is finished: it cannot be canceled any more.'],
    );
  });

  it('cancels what waits, once, and nothing that is finished', async () => {
    const waiting = await app.send({ send_at: later(HOUR), cc: ['bo@dest.test'] });
    const first = await cancel(waiting.id);
    assert.deepEqual([first.status, first.body.status, first.body.object], [200, 'canceled', 'message'], first.text);
    assert.ok((await app.message(waiting.id)).recipients.every(({ status }) => status === 'canceled'));
    const again = await cancel(waiting.id);
    assert.deepEqual([again.status, again.body.error.code], [409, 'invalid_state']);
    app.clock.advance(2 * HOUR);
    await app.settled();
    assert.deepEqual(server.sessions, []);
    const sent = await app.send();
    await app.follow().of(sent.id, 'delivered');
    assert.equal((await cancel(sent.id)).body.error.code, 'invalid_state');
    await app.balanced();
  });

  it('moves the time of sending, forwards, backwards and to now', async () => {
    const message = await app.send({ send_at: later(HOUR) });
    const moved = await move(message.id, later(5 * HOUR));
    assert.deepEqual(
      [moved.status, moved.body.status, moved.body.send_at],
      [200, 'scheduled', later(5 * HOUR)],
      moved.text,
    );
    app.clock.advance(2 * HOUR);
    await app.settled();
    assert.deepEqual(server.sessions, [], 'the old time means nothing any more');
    assert.equal((await move(message.id, later(HOUR))).body.status, 'scheduled');
    app.clock.advance(HOUR + 1);
    await app.follow().of(message.id, 'delivered');
    assert.equal((await move(message.id, later(HOUR))).body.error.code, 'invalid_state');

    const second = await app.send({ send_at: later(HOUR) });
    assert.equal((await move(second.id, later(-1000))).body.status, 'queued');
    await app.follow().of(second.id, 'delivered');
    await app.balanced();
  });

  it('refuses times that cannot be', async () => {
    const message = await app.send({ send_at: later(HOUR), expires_at: later(2 * HOUR) });
    for (const [time, code, field] of [
      ['soon', 'invalid_send_at', 'send_at'],
      [later(31 * 24 * HOUR), 'invalid_send_at', 'send_at'],
      [later(-HOUR), 'invalid_send_at', 'send_at'],
      [later(3 * HOUR), 'invalid_field', 'send_at'],
      [7, 'invalid_type', 'send_at'],
      [null, 'missing_field', 'send_at'],
    ] as const) {
      const { status, body, text } = await move(message.id, time);
      assert.deepEqual([status, body.error.code, body.error.field], [400, code, field], text);
    }
  });

  it('explains what a message waits for', async () => {
    const scheduled = await app.send({ send_at: later(HOUR) });
    assert.deepEqual(
      (await why(scheduled.id)).map(({ reason, until }) => [reason, until]),
      [['scheduled', later(HOUR)]],
    );
    answer = '451 4.3.0 come back later';
    const deferred = await app.send();
    await app.follow().of(deferred.id, 'deferred');
    const [retry] = await why(deferred.id);
    assert.deepEqual([retry?.reason, retry?.status], ['waiting_for_retry', 'deferred']);
    assert.match(retry?.message ?? '', /attempt 2.*come back later/);
    answer = '250 2.1.5 ok';
    const done = await app.nextAttempt(deferred.id);
    assert.equal(done.status, 'delivered');
    assert.equal((await why(deferred.id))[0]?.reason, 'finished');
    const { body } = await app.get<{ data: { outcome: string }[] }>(`/v1/messages/${deferred.id}/attempts`);
    assert.deepEqual(
      body.data.map(({ outcome }) => outcome),
      ['deferred', 'accepted'],
    );
    await app.operator.call('accounts.pause', { account: 'default', paused: true });
    app.clock.advance(10_000);
    const [held] = await why(scheduled.id);
    assert.equal(held?.reason, 'scheduled');
  });

  it('shows the stored body and sends it again', async () => {
    const attachments = [{ filename: 'a.bin', content: 'aGVsbG8=' }];
    const first = await app.send({
      html: '<p>One</p>',
      text: 'One',
      attachments,
      headers: { 'X-Own': 'yes' },
      tags: ['t'],
      metadata: { order: '1' },
    });
    const { body } = await app.get<{ html: string; text: string; attachments: object[] }>(
      `/v1/messages/${first.id}/content`,
    );
    assert.deepEqual([body.html, body.text], ['<p>One</p>', 'One']);
    assert.deepEqual(body.attachments, [
      {
        filename: 'a.bin',
        content_type: 'application/octet-stream',
        content_id: null,
        disposition: 'attachment',
        size: 5,
      },
    ]);
    const headers = { 'idempotency-key': 'again' };
    const again = await app.request<Record_>('POST', `/v1/messages/${first.id}/resend`, undefined, { headers });
    assert.equal(again.status, 202, again.text);
    assert.notEqual(again.body.id, first.id);
    assert.equal(again.headers.get('location'), `/v1/messages/${again.body.id}`);
    const replayed = await app.request<Record_>('POST', `/v1/messages/${first.id}/resend`, undefined, { headers });
    assert.equal(replayed.body.id, again.body.id);
    await app.follow().of(again.body.id, 'delivered');
    await app.settled();
    const mails = server.sessions.flatMap((session) => session.mails);
    assert.equal(mails.length, 2);
    const parsed = await Promise.all(mails.map(({ data }) => simpleParser(data)));
    assert.deepEqual(
      parsed.map((mail) => [
        mail.subject,
        mail.text?.trim(),
        mail.headers.get('x-own'),
        mail.attachments[0]?.content.toString(),
      ]),
      Array(2).fill(['Welcome', 'One', 'yes', 'hello']),
    );
  });

  it('sends again, for a key that may only send, what that key has sent', async () => {
    const theirs = await app.send({ metadata: { secret: 'of another program' } });
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'send only', scopes: ['send'] },
    });
    const refused = await app.request('POST', `/v1/messages/${theirs.id}/resend`, undefined, { key });
    assert.equal(refused.status, 404, refused.text);
    const own = await app.send({}, { key });
    assert.equal((await app.request('POST', `/v1/messages/${own.id}/resend`, undefined, { key })).status, 202);
    await app.settled();
  });

  it('counts and cancels a bulk send', async () => {
    const recipients = ['a', 'b', 'c'].map((name) => ({
      to: `${name}@dest.test`,
      ...(name === 'c' ? {} : { send_at: later(HOUR) }),
    }));
    const body = { from: 'hi@acme.test', subject: 's', text: 't', recipients };
    const { body: batch } = await app.request<Batch>('POST', '/v1/messages', body);
    await app.settled();
    const read = async () => (await app.get<Batch>(`/v1/batches/${batch.id}`)).body;
    const before = await read();
    assert.deepEqual([before.accepted, before.counts?.['scheduled'], before.counts?.['delivered']], [3, 2, 1]);
    const canceled = await app.request<Batch>('POST', `/v1/batches/${batch.id}/cancel`);
    assert.deepEqual(
      [canceled.status, canceled.body.counts?.['canceled'], canceled.body.counts?.['delivered']],
      [200, 2, 1],
    );
    assert.equal((await app.request<Batch>('POST', `/v1/batches/${batch.id}/cancel`)).body.error.code, 'invalid_state');
    const { body: page } = await app.get<{ data: Batch[] }>('/v1/batches');
    assert.deepEqual(
      page.data.map(({ id, counts }) => [id, counts]),
      [[batch.id, null]],
    );
    await app.balanced();
  });

  it('shows and changes nothing of another account', async () => {
    const message = await app.send({ send_at: later(HOUR) });
    await app.operator.call('accounts.add', { name: 'other' });
    const scopes = ['send', 'message:read', 'message:content', 'message:cancel'];
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account: 'other',
      body: { name: 'k', scopes },
    });
    for (const [method, path] of [
      ['GET', 'attempts'],
      ['GET', 'why'],
      ['GET', 'content'],
      ['POST', 'cancel'],
      ['POST', 'resend'],
    ] as const) {
      const { status } = await app.request(method, `/v1/messages/${message.id}/${path}`, undefined, { key });
      assert.equal(status, 404, path);
    }
    assert.equal(
      (await app.request('PATCH', `/v1/messages/${message.id}`, { send_at: later(HOUR) }, { key })).status,
      404,
    );
    assert.equal((await app.message(message.id)).status, 'scheduled');
  });
});
