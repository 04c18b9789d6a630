/** From POST to `delivered` over a real socket: what the wire sees, what the API tells, what the books say. */
import assert from 'node:assert/strict';
import { deliveryOf } from '../../src/messages/delivery/return-path.ts';
import { openKeyring } from '../../src/base/keyring.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

describe('journey: delivery', () => {
  let server: FakeMailServer;
  let app: TestApp;

  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test', 'other.test') });
  });

  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const mails = () => server.sessions.flatMap((session) => session.mails);

  it('goes from POST to delivered, and every record tells the same story', async () => {
    const sent = await app.send({ metadata: { order: '17' }, tags: ['welcome'] });
    assert.equal(sent.status, 'queued');
    const events = await app.follow().of(sent.id, 'delivered');
    assert.deepEqual(
      events.map(({ type }) => type),
      ['sent', 'delivered'],
    );
    const [first, last] = events;
    assert.ok(first !== undefined && last !== undefined);
    assert.deepEqual(first.data['sent'], { attempt: 1, mx: null, sending_ip: null });
    assert.equal(first.data.status, 'sent');
    assert.deepEqual(last.data['delivered'], {
      mx: 'mx.dest.test',
      ip: '127.0.0.1',
      smtp_code: 250,
      smtp_reply: '2.0.0 taken',
      tls: null,
      attempt: 1,
      queue_ms: 0,
      via_relay: false,
    });
    assert.deepEqual(last.data.metadata, { order: '17' });
    assert.deepEqual(last.data.tags, ['welcome']);

    const message = await app.message(sent.id);
    assert.equal(message.status, 'delivered');
    assert.equal(message.last_event?.type, 'delivered');
    assert.deepEqual(
      message.recipients.map(({ email, type, status, attempt_count, next_attempt_at }) => ({
        email,
        type,
        status,
        attempt_count,
        next_attempt_at,
      })),
      [{ email: 'ana@dest.test', type: 'to', status: 'delivered', attempt_count: 1, next_attempt_at: null }],
    );
    assert.deepEqual(
      message.attempts.map(({ outcome, number, smtp_code, mx }) => ({ outcome, number, smtp_code, mx })),
      [{ outcome: 'accepted', number: 1, smtp_code: 250, mx: 'mx.dest.test' }],
    );
    assert.deepEqual(
      message.events.map(({ id }) => id),
      events.map(({ id }) => id),
    );
    const books = await app.operator.call('books', {});
    assert.ok(books.balanced, books.faults.join());
  });

  it('signs with both keys of the domain and writes a return path that names the delivery', async () => {
    const sent = await app.send();
    await app.follow().of(sent.id, 'delivered');
    const [mail] = mails();
    assert.ok(mail);
    const head = mail.data.slice(0, mail.data.indexOf('\r\n\r\n')).replaceAll(/\r\n[ \t]+/g, ' ');
    const signatures = head.split('\r\n').filter((line) => line.startsWith('DKIM-Signature:'));
    assert.deepEqual(
      signatures.map((line) => /a=([a-z0-9-]+)/.exec(line)?.[1]),
      ['rsa-sha256', 'ed25519-sha256'],
    );
    for (const line of signatures) assert.match(line, /d=acme\.test;/);
    assert.match(head, new RegExp(`^X-Message-Id: ${sent.id}$`, 'm'));
    assert.match(head, new RegExp(`^Message-ID: ${sent.rfc_message_id}$`, 'm'));
    assert.doesNotMatch(head, /^(Return-Path|Received|Bcc):/im);

    const [local = '', domain] = mail.from.split('@');
    assert.equal(domain, 'rp.acme.test');
    const keyring = openKeyring(app.folder);
    const named = deliveryOf([{ id: keyring.keyIds.length % 32, secret: keyring.derive('return path') }], local);
    const rows = await app.app.db.prepared.all<{ id: string }>('SELECT id FROM deliveries WHERE message_id = ?', [
      sent.id,
    ]);
    assert.equal(named, rows[0]?.id);
  });

  it('sends one copy to each of to, cc and bcc, and tells nobody of bcc', async () => {
    const sent = await app.send({ cc: ['cy@dest.test', 'ANA@dest.test'], bcc: ['bo@dest.test', 'bea@other.test'] });
    await app.follow().until((seen) => seen.filter(({ type }) => type === 'delivered').length === 4);
    assert.deepEqual(
      mails()
        .map(({ to }) => to.join())
        .sort(),
      ['ana@dest.test', 'bea@other.test', 'bo@dest.test', 'cy@dest.test'],
    );
    for (const mail of mails()) {
      assert.doesNotMatch(mail.data, /bo@dest|bea@other|^bcc:/im);
      assert.match(mail.data, /^Cc: cy@dest\.test, ANA@dest\.test\r$/m);
      assert.match(mail.data, new RegExp(`^Message-ID: ${sent.rfc_message_id}\r$`, 'm'));
    }
    // Each copy has its own way back.
    assert.equal(new Set(mails().map(({ from }) => from)).size, 4);
    const { recipients } = await app.message(sent.id);
    assert.deepEqual(recipients.map(({ email, type }) => `${type} ${email}`).sort(), [
      'bcc bea@other.test',
      'bcc bo@dest.test',
      'cc cy@dest.test',
      'to ana@dest.test',
    ]);
  });

  it('shows the status of `to` as that of the message, whatever becomes of cc', async () => {
    server.options.script = { rcpt: (line) => (line.includes('cy@') ? '550 5.1.1 no such user' : '250 ok') };
    const sent = await app.send({ cc: 'cy@dest.test' });
    await app
      .follow()
      .until((seen) => ['delivered', 'bounced'].every((type) => seen.some((event) => event.type === type)));
    const message = await app.message(sent.id);
    assert.equal(message.status, 'delivered');
    assert.deepEqual(message.recipients.map(({ type, status }) => `${type} ${status}`).sort(), [
      'cc bounced',
      'to delivered',
    ]);
  });

  it('makes a message of its own of each entry of a bulk send, and stores the body once', async () => {
    const recipients = Array.from({ length: 300 }, (_, n) => ({
      to: `r${String(n)}@${n % 2 === 0 ? 'dest' : 'other'}.test`,
      metadata: { n: String(n) },
    }));
    recipients.push({ to: 'no address', metadata: { n: 'x' } });
    const answer = await app.request<{
      id: string;
      accepted: number;
      rejected: number;
      data: { id: string | null; error: { code: string; field: string } | null }[];
    }>('POST', '/v1/messages', { from: 'hi@acme.test', subject: 'News', html: '<p>It is here.</p>', recipients });
    assert.equal(answer.status, 202, answer.text);
    assert.deepEqual([answer.body.accepted, answer.body.rejected], [300, 1]);
    assert.deepEqual(
      [answer.body.data[300]?.error?.code, answer.body.data[300]?.error?.field],
      ['invalid_recipient', 'recipients[300].to'],
    );
    const seen = await app.follow().until((all) => all.filter(({ type }) => type === 'delivered').length === 300);
    assert.deepEqual(new Set(seen.map(({ data }) => data.batch_id)), new Set([answer.body.id]));
    assert.equal(new Set(mails().map(({ to }) => to.join())).size, 300);
    assert.equal(mails().length, 300);
    for (const mail of mails()) assert.equal(/^To: (\S+)/m.exec(mail.data)?.[1], mail.to[0]);
    const [contents] = await app.app.db.prepared.all<{ n: number }>('SELECT COUNT(*) AS n FROM contents');
    assert.equal(contents?.n, 1);
  });

  it('keeps what a key with another account asks for to itself', async () => {
    const sent = await app.send();
    await app.operator.call('accounts.add', { name: 'stranger' });
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account: 'stranger',
      body: { name: 'other', scopes: ['message:read', 'event:read'] },
    });
    await app.follow().of(sent.id, 'delivered');
    assert.equal((await app.get(`/v1/messages/${sent.id}`, { key })).status, 404);
    assert.deepEqual((await app.get('/v1/messages', { key })).body['data'], []);
    assert.deepEqual((await app.get('/v1/events', { key })).body['data'], []);
  });
});
