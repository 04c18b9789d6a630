/** Erases contents and persons, and checks that nothing else goes with them. */
import assert from 'node:assert/strict';
import { createTransport } from 'nodemailer';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startReceiver } from '../support/fakes/webhook-receiver.ts';
import { tables } from '../../src/storage/tables.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

const SECRET = 'Quetzalcoatl';

describe('journey: erase', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let toAna: string;

  beforeEach(async () => {
    toAna = '250 ok';
    server = await startMailServer({
      script: { rcpt: (line) => (line.includes('<ana@') ? toAna : '550 5.1.1 <gone@dest.test> no such user') },
    });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const erase = (path: string) => app.request<{ error?: { code: string } }>('DELETE', path);
  const sent = async (fields: Record<string, unknown> = {}): Promise<string> => {
    const events = app.follow();
    const { id } = await app.send({ html: `<p>${SECRET}</p>`, ...fields });
    await events.until((seen) =>
      seen.some(({ type, data }) => data.message_id === id && data.recipient_type === 'to' && type !== 'sent'),
    );
    return id;
  };
  /** Every text of every table, but that of idempotency records, which go by themselves in a day. */
  const everything = async (): Promise<string> => {
    const { reader: read } = app.app.db;
    const kept = Object.keys(tables).filter((name) => name !== 'idempotency' && name !== 'suppressions');
    const rows = await Promise.all(kept.map((name) => read(name)));
    return JSON.stringify(rows);
  };

  it('removes what receivers of webhooks answered about the person', async () => {
    const receiver = await startReceiver();
    try {
      await app.stop();
      const webhooks = { allowHttp: true, allowCidrs: ['127.0.0.0/8'] };
      app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test'), settings: { webhooks } });
      receiver.answer = ({ body }) => ({ status: 200, body });
      await app.request('POST', '/v1/webhooks', { url: receiver.url });
      for (const to of ['ana@dest.test', 'ben@dest.test']) await sent({ to });
      const answers = async (): Promise<string[]> =>
        (await app.app.db.prepared.all<{ answer: string | null }>('SELECT answer FROM webhook_deliveries')).map(
          ({ answer }) => answer ?? '',
        );
      const naming = async (name: string): Promise<number> =>
        (await answers()).filter((answer) => answer.includes(`${name}@dest.test`)).length;
      while ((await naming('ana')) < 2 || (await naming('ben')) < 2)
        await new Promise((resolve) => setImmediate(resolve));
      assert.equal((await erase('/v1/recipients/ana%40dest.test')).status, 204);
      assert.equal(await naming('ana'), 0);
      assert.ok((await naming('ben')) > 0);
    } finally {
      await receiver.close();
    }
  });

  it('shows the bytes that were sent', async () => {
    const id = await sent();
    const mail = server.sessions.flatMap(({ mails }) => mails)[0];
    const response = await fetch(`${app.url}/v1/messages/${id}/raw`, {
      headers: { Authorization: `Bearer ${app.key}` },
    });
    assert.deepEqual([response.status, response.headers.get('content-type')], [200, 'message/rfc822']);
    const raw = Buffer.from(await response.arrayBuffer()).toString('latin1');
    assert.equal(raw, mail?.data);
    assert.match(raw, /^DKIM-Signature: /m);
  });

  it('erases a body when the message is finished, once, and nothing of others', async () => {
    const waiting = await app.send({ send_at: new Date(app.clock.now() + 3_600_000).toISOString() });
    const early = await erase(`/v1/messages/${waiting.id}/content`);
    assert.deepEqual([early.status, early.body.error?.code], [409, 'invalid_state']);
    const id = await sent();
    const other = await sent();
    assert.equal((await erase(`/v1/messages/${id}/content`)).status, 204);
    assert.equal((await app.get<{ html: string | null }>(`/v1/messages/${id}/content`)).body.html, null);
    assert.equal((await app.get(`/v1/messages/${id}/raw`)).status, 409);
    assert.equal((await app.request('POST', `/v1/messages/${id}/resend`, {})).status, 409);
    assert.equal((await app.message(id)).status, 'delivered');
    assert.match(String((await app.get(`/v1/messages/${other}/content`)).body['html']), new RegExp(SECRET));
    assert.equal((await erase(`/v1/messages/${id}/content`)).status, 204);
    await app.balanced();
  });

  it('keeps a shared body for those who still need it', async () => {
    const { body } = await app.request<{ data: { id: string }[] }>('POST', '/v1/messages', {
      from: 'hello@acme.test',
      subject: 'Hello',
      html: `<p>${SECRET}</p>`,
      recipients: [
        { to: 'ana@dest.test' },
        { to: 'ana+2@dest.test', send_at: new Date(app.clock.now() + 3_600_000).toISOString() },
      ],
    });
    const [first, second] = body.data.map(({ id }) => id);
    await app.follow().of(String(first), 'delivered');
    assert.equal((await erase(`/v1/messages/${String(first)}/content`)).status, 204);
    assert.match(String((await app.get(`/v1/messages/${String(second)}/content`)).body['html']), new RegExp(SECRET));
    await app.request('POST', `/v1/messages/${String(second)}/cancel`, {});
    assert.equal((await erase(`/v1/messages/${String(second)}/content`)).status, 204);
    assert.ok(!(await everything()).includes(SECRET));
  });

  it('erases a person from everything but numbers and the suppression list', async () => {
    const gone = await sent({
      to: 'Gone <gone@dest.test>',
      subject: SECRET,
      metadata: { customer: SECRET },
      headers: { 'X-Customer': SECRET },
    });
    await app.follow().of(gone, 'bounced');
    const copied = await sent({ cc: ['Gone@dest.test'], html: '<p>for ana</p>' });
    const waiting = await app.send({
      to: 'gone@dest.test',
      send_at: new Date(app.clock.now() + 3_600_000).toISOString(),
    });
    // Details of requests are written a moment later, also of those that came just before.
    await app.get('/v1/messages?to=Gone%40Dest.test');
    await app.request('POST', '/v1/messages', { to: 'gone@dest.test', from: 5 });
    assert.equal((await erase('/v1/recipients/GONE%40DEST.test')).status, 204);
    app.clock.advance(100);
    // A commit of the writer that the log uses: what it had before is written.
    await app.get('/v1/streams');
    await app.request('POST', '/v1/streams', {});

    const all = await everything();
    assert.ok(
      !/gone(?:@|%40)dest\.test/i.test(all),
      all.slice(Math.max(0, all.search(/gone(?:@|%40)dest\.test/i) - 200)).slice(0, 400),
    );
    assert.ok(!all.includes(SECRET));
    const record = await app.message(gone);
    assert.deepEqual(
      [record.status, record.recipients.map(({ email }) => email)],
      ['bounced', ['erased@erased.invalid']],
    );
    assert.equal((await app.message(copied)).status, 'delivered');
    assert.match(String((await app.get(`/v1/messages/${copied}/content`)).body['html']), /for ana/);
    assert.ok(['canceled', 'suppressed'].includes((await app.message(waiting.id)).status));
    assert.equal((await app.get<{ email: string }>('/v1/suppressions/gone%40dest.test')).body.email, 'gone@dest.test');
    assert.equal((await erase('/v1/recipients/gone%40dest.test')).status, 404);
    await app.balanced();
  });

  it('erases a person to whom a program sent without naming them in the header', async () => {
    const transport = createTransport({
      host: '127.0.0.1',
      port: app.app.ports.submissions ?? 0,
      secure: true,
      tls: { rejectUnauthorized: false },
      greetingTimeout: 300_000,
      auth: { user: 'apikey', pass: app.key },
    });
    const submit = async (header: string, ...to: string[]): Promise<string> => {
      const { response } = await transport.sendMail({
        envelope: { from: 'hi@acme.test', to },
        raw: `From: hi@acme.test\r\nTo: ${header}\r\nSubject: ${SECRET}\r\n\r\n${SECRET}\r\n`,
      });
      const id = /msg_[0-9a-z]{26}/.exec(response)?.[0] ?? assert.fail(response);
      await app.settled();
      return id;
    };
    const hidden = await submit('undisclosed-recipients:;', 'ana@dest.test');
    const raw = { headers: { Authorization: `Bearer ${app.key}` } };
    assert.equal((await fetch(`${app.url}/v1/messages/${hidden}/raw`, raw)).status, 200);
    assert.equal((await erase('/v1/recipients/ana%40dest.test')).status, 204);
    const all = await everything();
    assert.ok(!all.includes('ana@dest.test'), all.slice(all.indexOf('ana@dest.test') - 300).slice(0, 400));
    assert.ok(!all.includes(SECRET), all.slice(all.indexOf(SECRET) - 300).slice(0, 400));
    assert.equal((await app.request('POST', `/v1/messages/${hidden}/resend`, {})).status, 409);

    const both = await submit('ana@dest.test, bo@dest.test', 'ana@dest.test', 'bo@dest.test');
    assert.equal((await erase('/v1/recipients/bo%40dest.test')).status, 204);
    const { body } = await app.get<{ to: string; subject: string }>(`/v1/messages/${both}`);
    assert.deepEqual([body.to, body.subject], ['ana@dest.test', '']);
  });

  it('sends a mail again to those who are not erased', async () => {
    const id = await sent({ cc: ['gone@dest.test', 'ana+1@dest.test'], bcc: 'gone+2@dest.test' });
    await app.settled();
    for (const gone of ['gone', 'gone%2B2'])
      assert.equal((await erase(`/v1/recipients/${gone}%40dest.test`)).status, 204);
    const again = await app.request<{ id: string; cc: string[] }>('POST', `/v1/messages/${id}/resend`, {});
    assert.deepEqual([again.status, again.body.cc], [202, ['ana+1@dest.test']]);
    const { recipients } = await app.message(again.body.id);
    assert.deepEqual(
      recipients.map(({ email }) => email),
      ['ana@dest.test', 'ana+1@dest.test'],
    );
  });

  it('does not send a mail again whose recipient is erased while a copy of it waits', async () => {
    const id = await sent({ to: 'gone@dest.test', cc: ['cy@late.test'] });
    assert.equal((await erase('/v1/recipients/gone%40dest.test')).status, 204);
    assert.equal((await app.request('POST', `/v1/messages/${id}/resend`, {})).status, 409);
  });

  it('ends where the address that stands for erased ones is to be erased', async () => {
    const recipients = Array.from({ length: 30 }, (_, n) => ({ to: `ana+${String(n)}@dest.test`, test: true }));
    await app.request('POST', '/v1/messages', { from: 'hello@acme.test', subject: 'Hello', text: 'Hi', recipients });
    await app.settled();
    for (const { to } of recipients)
      assert.equal((await erase(`/v1/recipients/${encodeURIComponent(to)}`)).status, 204);
    assert.equal((await erase('/v1/recipients/erased%40erased.invalid')).status, 404);
  });

  it('leaves subject and header fields to those who still wait for the mail', async () => {
    toAna = '451 4.3.2 later';
    const subject = 'The minutes of Monday';
    const both = { to: 'gone@dest.test', cc: 'ana@dest.test', subject, headers: { 'X-Meeting': 'monday' } };
    const { id } = await app.send(both);
    await app
      .follow()
      .until((seen) => ['bounced', 'deferred'].every((wanted) => seen.some(({ type }) => type === wanted)));
    assert.equal((await erase('/v1/recipients/gone%40dest.test')).status, 204);
    toAna = '250 ok';
    const waiting = (await app.message(id)).recipients.find(({ type }) => type === 'cc');
    app.clock.advance(Date.parse(waiting?.next_attempt_at ?? '') - app.clock.now());
    await app.settled();
    const taken = server.sessions.flatMap(({ mails }) => mails).find(({ data }) => data !== '');
    const head = taken?.data.split('\r\n\r\n')[0] ?? '';
    assert.match(head, new RegExp(`^Subject: ${subject}\r$`, 'm'));
    assert.match(head, /^X-Meeting: monday\r$/m);
    assert.ok(!head.includes('gone@'));
  });

  it('erases nothing of another account', async () => {
    const id = await sent();
    const { id: account } = await app.operator.call('accounts.add', { name: 'Other' });
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account,
      body: { name: 'other', scopes: ['message:delete', 'message:content'] },
    });
    for (const [method, path] of [
      ['DELETE', '/v1/recipients/ana%40dest.test'],
      ['DELETE', `/v1/messages/${id}/content`],
      ['GET', `/v1/messages/${id}/raw`],
    ] as const)
      assert.equal((await app.request(method, path, undefined, { key })).status, 404);
    assert.match(String((await app.get(`/v1/messages/${id}/content`)).body['html']), new RegExp(SECRET));
  });
});
