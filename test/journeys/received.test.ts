/** Mail to a domain that receives: from SMTP to the webhook, octet for octet, once; and what strangers cannot do with it. */
import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { createTransport, type SendMailOptions } from 'nodemailer';
import { budgets } from '../../src/base/budgets.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startReceiver, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';
import { copyData, newFolder, startTestApp, zonesFor, type SeenEvent, type TestApp } from '../support/harness/app.ts';
import { dsn, sendByHand } from '../support/harness/mail-back.ts';
import { smtpClient } from '../support/harness/smtp-client.ts';

interface Received {
  id: string;
  status: string;
  domain: string;
  envelope: { from: string; to: string[] };
  from: { email: string; name: string | null } | null;
  to: { email: string; name: string | null }[];
  subject: string;
  text: string | null;
  html: string | null;
  reply_text: string | null;
  truncated: boolean;
  attachments: { index: number; filename: string; content_type: string; size: number; content_id: string | null }[];
  spf: { result: string; domain: string } | null;
  dkim: { result: string; domain: string }[];
  dmarc: { result: string; policy: string | null } | null;
  spam_headers: Record<string, string>;
  auto_submitted: string | null;
  answers: string | null;
}

const digest = (bytes: Buffer | Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

describe('journey: received mail', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let hook: WebhookReceiver;

  const begin = async (folder?: string): Promise<void> => {
    app = await startTestApp({
      ...(folder === undefined ? {} : { folder }),
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } },
    });
  };
  beforeEach(async () => {
    server = await startMailServer();
    hook = await startReceiver();
    await begin();
    await app.operator.ask('updateDomain', { params: { id: 'acme.test' }, body: { receiving: true } });
  });
  afterEach(async () => {
    await app.stop();
    await hook.close();
    await server.close();
  });

  const port = (): number => app.app.ports.mx ?? 0;
  const subscribe = async (more: Record<string, unknown> = {}): Promise<void> => {
    const answer = await app.request('POST', '/v1/webhooks', { url: hook.url, events: ['received'], ...more });
    assert.equal(answer.status, 201, answer.text);
  };
  const deliver = async (mail: SendMailOptions): Promise<void> => {
    const transport = createTransport({ host: '127.0.0.1', port: port(), ignoreTLS: true, name: 'mx.dest.test' });
    await transport.sendMail({ from: 'Ana <ana@dest.test>', to: 'support@acme.test', ...mail });
  };
  const receivedOf = (event: SeenEvent | undefined): Received => event?.data['received'] as Received;
  const list = async (query = ''): Promise<Received[]> =>
    (await app.get<{ data: Received[] }>(`/v1/received${query}`)).body.data;
  /** Waits until so many mails have been read. */
  const read = async (count: number): Promise<Received[]> => {
    for (;;) {
      const all = await list();
      if (all.length === count && all.every(({ status }) => status !== 'new')) return all;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const bytesOf = async (place: string): Promise<Buffer> => {
    const response = await fetch(`${app.url}${place}`, { headers: { authorization: `Bearer ${app.key}` } });
    assert.equal(response.status, 200);
    return Buffer.from(await response.arrayBuffer());
  };

  it('brings an answer to the webhook, with the order that it is about', async () => {
    await subscribe();
    const sent = await app.send({ metadata: { order: '17' }, tags: ['order'] });
    await app.follow().of(sent.id, 'delivered');
    await deliver({
      subject: 'Re: Welcome',
      inReplyTo: sent.rfc_message_id,
      references: [sent.rfc_message_id],
      text: 'Thank you!\n\nOn 31/01/2026 10:30, Acme wrote:\n> Good day.\n',
      headers: { 'X-Spam-Flag': 'NO' },
    });
    await hook.reached(1);
    const [call] = hook.calls;
    assert.equal(call?.event.type, 'received');
    assert.equal(call.event.data.message_id, sent.id);
    assert.deepEqual(call.event.data.metadata, { order: '17' });
    const received = receivedOf(call.event);
    assert.equal(received.answers, sent.id);
    assert.equal(received.reply_text, 'Thank you!');
    assert.match(received.text ?? '', /> Good day/);
    assert.deepEqual(received.from, { email: 'ana@dest.test', name: 'Ana' });
    assert.deepEqual(received.envelope, { from: 'ana@dest.test', to: ['support@acme.test'] });
    assert.deepEqual(received.spam_headers, { 'x-spam-flag': 'NO' });
    assert.equal(received.spf?.result, 'none');
    const shown = await app.get<Received>(`/v1/received/${received.id}`);
    assert.deepEqual(shown.body, received);
    // The time line of our message has it, and the event log without its text.
    const { events } = await app.message(sent.id);
    assert.equal(events.at(-1)?.type, 'received');
    assert.equal(receivedOf(events.at(-1)).text, null);
    assert.deepEqual(
      (await list(`?answers=${sent.id}`)).map(({ id }) => id),
      [received.id],
    );
    assert.deepEqual((await list('?from=other%40dest.test')).length, 0);
  });

  const answers = path.resolve(import.meta.dirname, '../fixtures/answers');
  for (const file of readdirSync(answers))
    it(`names the message that a mail program answers: ${file}`, async () => {
      const sent = await app.send();
      const mail = readFileSync(path.join(answers, file), 'utf8').replaceAll('MESSAGE_ID', sent.rfc_message_id);
      await sendByHand(port(), 'ana@dest.test', 'support@acme.test', mail.replaceAll('\n', '\r\n'));
      const [{ id, answers: named, subject } = assert.fail()] = await read(1);
      assert.deepEqual([named, subject.slice(3)], [sent.id, ' Your order 17']);
      const { body } = await app.get<Received>(`/v1/received/${id}`);
      assert.equal(body.reply_text, 'Thank you!\n\nWhen does it come?');
    });

  it('checks the sender by SPF, DKIM and DMARC, and refuses nothing for it', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const p = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
    Object.assign(app.resolver.zones, {
      'dest.test TXT': ['v=spf1 ip4:127.0.0.0/8 -all'],
      's1._domainkey.dest.test TXT': [`v=DKIM1; k=rsa; p=${p}`],
      '_dmarc.dest.test TXT': ['v=DMARC1; p=reject'],
      'evil.test TXT': ['v=spf1 -all'],
    });
    const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    const dkim = { domainName: 'dest.test', keySelector: 's1', privateKey: key };
    await deliver({ subject: 'signed', dkim });
    await deliver({ subject: 'forged', envelope: { from: 'eve@evil.test', to: 'support@acme.test' } });
    const [forged, signed] = await read(2);
    assert.deepEqual(
      [signed?.spf, signed?.dkim, signed?.dmarc],
      [
        { result: 'pass', domain: 'dest.test' },
        [{ result: 'pass', domain: 'dest.test', selector: 's1' }],
        { result: 'pass', domain: 'dest.test', policy: 'reject' },
      ],
    );
    assert.deepEqual(
      [forged?.spf?.result, forged?.dkim, forged?.dmarc],
      ['fail', [], { result: 'fail', domain: 'dest.test', policy: 'reject' }],
    );
  });

  it('keeps the source and each file octet for octet', async () => {
    const files = [
      { filename: 'zufällig.bin', content: randomBytes(300_000) },
      {
        filename: 'latin.csv',
        content: Buffer.from('caf\xe9;1\r\nx;2\n', 'latin1'),
        contentType: 'text/csv; charset=iso-8859-1',
      },
      { filename: 'winmail.dat', content: randomBytes(2000), contentType: 'application/ms-tnef' },
      { filename: 'smime.p7s', content: randomBytes(1500), contentType: 'application/pkcs7-signature' },
      {
        filename: 'fwd.eml',
        content: Buffer.from('From: x@y.test\r\nSubject: inner\r\n\r\nbody\r\n'),
        contentType: 'message/rfc822',
      },
    ];
    await deliver({
      text: 'See the files.',
      attachments: files,
      icalEvent: { method: 'REQUEST', content: 'BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n' },
    });
    const [mail] = await read(1);
    assert.ok(mail !== undefined);
    for (const { filename, content } of files) {
      const file: Received['attachments'][number] =
        mail.attachments.find((one) => one.filename === filename) ?? assert.fail(JSON.stringify(mail.attachments));
      const bytes = await bytesOf(`/v1/received/${mail.id}/attachments/${String(file.index)}`);
      assert.equal(digest(bytes), digest(content), filename);
      assert.equal(file.size, content.length);
    }
    assert.ok(mail.attachments.some(({ content_type: type }) => type === 'text/calendar'));
    const missing = await app.get(`/v1/received/${mail.id}/attachments/99`);
    assert.equal(missing.status, 404);
    const raw = await bytesOf(`/v1/received/${mail.id}/raw`);
    assert.match(raw.toString('latin1'), /^From: Ana <ana@dest\.test>\r\n/);
  });

  for (const charset of ['utf-8', 'iso-8859-2', 'windows-1251', 'shift_jis', 'gb18030', 'euc-kr'])
    it(`reads names in ${charset}`, async () => {
      const encoded: Record<string, [string, string]> = {
        'utf-8': ['Zoë 😀', '5a6fc3ab20f09f9880'],
        'iso-8859-2': ['Łukasz', 'a3756b61737a'],
        'windows-1251': ['Анна', 'c0ededе0'.replace('е', 'e')],
        shift_jis: ['山田', '8e52936395'.slice(0, 8)],
        gb18030: ['王伟', 'cdf5ceb0'],
        'euc-kr': ['김민', 'b1e8b9ce'],
      };
      const [name, hex] = encoded[charset] ?? assert.fail();
      const word = `=?${charset}?B?${Buffer.from(hex, 'hex').toString('base64')}?=`;
      const mail = `From: ${word} <ana@dest.test>\r\nTo: support@acme.test\r\nSubject: ${word}\r\n\r\nHello`;
      await sendByHand(port(), 'ana@dest.test', 'support@acme.test', mail);
      const [seen] = await read(1);
      assert.equal(seen?.from?.name, name);
      assert.equal(seen.subject, name);
    });

  it('takes 8-bit bodies and addresses of SMTPUTF8', async () => {
    const client = smtpClient(port());
    await client.reply();
    const mail =
      'From: Zoë <zoë@dest.test>\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße';
    for (const line of [
      'EHLO mx.dest.test',
      'MAIL FROM:<zoë@dest.test> SMTPUTF8 BODY=8BITMIME',
      'RCPT TO:<grüße@acme.test>',
    ])
      assert.match(await client.say(Buffer.from(line).toString('latin1')), /^250/, line);
    assert.match(await client.say('DATA'), /^354/);
    assert.match(await client.say(`${Buffer.from(mail).toString('latin1')}\r\n.`), /^250/);
    client.end();
    const [seen] = await read(1);
    assert.deepEqual(seen?.envelope, { from: 'zoë@dest.test', to: ['grüße@acme.test'] });
    assert.deepEqual(seen.from, { email: 'zoë@dest.test', name: 'Zoë' });
    assert.equal((await app.get<Received>(`/v1/received/${seen.id}`)).body.text?.trim(), 'Grüße');
  });

  it('takes only the addresses of the domain, and none of another account', async () => {
    await app.operator.ask('updateDomain', {
      params: { id: 'acme.test' },
      body: { receiving_addresses: ['support', 'reply+*'] },
    });
    const rcpt = async (address: string): Promise<string> =>
      (await sendByHand(port(), 'ana@dest.test', address, 'Subject: x\r\n\r\nx'))[2] ?? '';
    assert.match(await rcpt('Support@ACME.test'), /^250/);
    assert.match(await rcpt('reply+17@acme.test'), /^250/);
    assert.match(await rcpt('sales@acme.test'), /^550 5\.1\.1/);
    assert.match(await rcpt('Postmaster@acme.test'), /^250/);
    assert.match(await rcpt('abuse@acme.test'), /^250/);
    assert.match(await rcpt('postmaster@other.test'), /^550 5\.7\.1/);
    assert.match(await rcpt('support@other.test'), /^550 5\.7\.1/);
    assert.match(await rcpt('support@sub.acme.test'), /^550 5\.7\.1/);
    // Another account claims the name, and does not get its mail before it has proved it.
    const { id: account } = await app.operator.call('accounts.add', { name: 'Eve' });
    await app.operator.ask('createDomain', { account, body: { name: 'victim.test' } });
    await app.operator.ask('updateDomain', { account, params: { id: 'victim.test' }, body: { receiving: true } });
    assert.match(await rcpt('anyone@victim.test'), /^550 5\.7\.1/);
    await app.operator.ask('updateDomain', { params: { id: 'acme.test' }, body: { receiving: false } });
    assert.match(await rcpt('support@acme.test'), /^550 5\.7\.1/);
  });

  it('sends a mail to one domain, and asks for the rest again', async () => {
    const replies = await sendByHand(
      port(),
      'ana@dest.test',
      ['support@acme.test', 'sales@acme.test', 'postmaster@mail.posthorn.test'],
      'Subject: x\r\n\r\nx',
    );
    assert.deepEqual(
      replies.slice(2, 5).map((reply) => reply.slice(0, 9)),
      ['250 2.1.5', '250 2.1.5', '452 4.5.3'],
    );
    const [mail] = await read(1);
    assert.deepEqual(mail?.envelope.to, ['support@acme.test', 'sales@acme.test']);
  });

  it('lets return paths keep their meaning at a domain that receives', async () => {
    await app.operator.ask('updateDomain', { params: { id: 'acme.test' }, body: { return_path: 'acme.test' } });
    const { id } = await app.send();
    await app.follow().of(id, 'delivered');
    const returnPath = server.sessions.flatMap(({ mails }) => mails).at(-1)?.from ?? '';
    assert.match(returnPath, /^b\+.*@acme\.test$/);
    await sendByHand(port(), '', returnPath, dsn('ana@dest.test'));
    await app.follow().of(id, 'bounced');
    assert.deepEqual(await list(), []);
  });

  it('chooses by the addresses of the endpoint', async () => {
    await subscribe({ addresses: ['reply+*@acme.test'] });
    await deliver({ to: 'support@acme.test', subject: 'not this' });
    await deliver({ to: 'reply+17@acme.test', subject: 'this' });
    await hook.reached(1);
    assert.equal(receivedOf(hook.calls[0]?.event).subject, 'this');
    for (const [address, why] of [
      ['reply', /Not an address/],
      ['support@other.test', /no domain other\.test that receives mail: set its `receiving`/],
    ] as const) {
      const wrong = await app.request('POST', '/v1/webhooks', { url: `${hook.url}/2`, addresses: [address] });
      assert.match(wrong.text, /"invalid_field"/);
      assert.match(wrong.text, why);
    }
  });

  it('cuts long texts at 256 KiB and says so', async () => {
    await subscribe();
    await deliver({ text: `${'ä'.repeat(200_000)}\n` });
    await hook.reached(1);
    const received = receivedOf(hook.calls[0]?.event);
    assert.equal(received.truncated, true);
    assert.equal(Buffer.byteLength(received.text ?? ''), 256 * 1024);
  });

  it('refuses more than 25 MiB, and nothing else for its size', async () => {
    await deliver({ attachments: [{ filename: 'large', content: randomBytes(18 * 1024 * 1024) }] });
    const [mail] = await read(1);
    assert.equal(mail?.attachments[0]?.size, 18 * 1024 * 1024);
    await assert.rejects(
      deliver({ attachments: [{ filename: 'larger', content: randomBytes(20 * 1024 * 1024) }] }),
      /552/,
    );
    // Our own addresses take more, as EHLO says: a bounce may bring our largest mail back.
    const client = smtpClient(port());
    await client.reply();
    await client.say('EHLO mx.dest.test');
    assert.match(await client.say('MAIL FROM:<ana@dest.test> SIZE=30000000'), /^250/);
    assert.match(
      await client.say('RCPT TO:<support@acme.test>'),
      /^552 5\.3\.4 a mail to acme\.test may have 26214400 octets at most/,
    );
    assert.match(await client.say('RCPT TO:<postmaster@mail.posthorn.test>'), /^250/);
    client.end();
  });

  it('leaves a mail that cannot be taken apart readable as its source', async () => {
    const hostile = `From: ana@dest.test\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${'--b\r\n\r\n'.repeat(2000)}`;
    await sendByHand(port(), 'ana@dest.test', 'support@acme.test', hostile);
    const [mail] = await read(1);
    assert.equal(mail?.status, 'unreadable');
    assert.match((await bytesOf(`/v1/received/${mail.id}/raw`)).toString(), /^From: ana/);
  });

  it('is read after a crash, once', async () => {
    await subscribe();
    await deliver({ subject: 'before' });
    await hook.reached(1);
    // As a crash leaves it: the row is there, and was not read.
    await app.app.db.commit.transact(async (tx) => {
      await tx.run("UPDATE received SET status = 'new'");
      await tx.run("DELETE FROM events WHERE type = 'received'");
    });
    const folder = newFolder();
    await copyData(app.folder, folder);
    await app.stop();
    await begin(folder);
    await hook.reached(2);
    assert.equal((await read(1)).length, 1);
    await app.stop();
    rmSync(folder, { recursive: true });
    await begin();
  });

  it('is erased with its source and event, by itself or with its author', async () => {
    await deliver({ subject: 'one' });
    await deliver({ subject: 'two' });
    const [two, one] = await read(2);
    assert.equal((await app.request('DELETE', `/v1/received/${two?.id ?? ''}`)).status, 204);
    assert.equal((await app.get(`/v1/received/${two?.id ?? ''}`)).status, 404);
    assert.equal((await app.request('DELETE', '/v1/recipients/ana%40dest.test')).status, 204);
    assert.equal((await app.get(`/v1/received/${one?.id ?? ''}`)).status, 404);
    const left = await app.app.db.prepared.all<{ n: number }>(
      "SELECT (SELECT COUNT(*) FROM received_sources) + (SELECT COUNT(*) FROM events WHERE type = 'received') AS n",
    );
    assert.equal(left[0]?.n, 0);
  });

  it('counts machine opens of a mail as those of a person who answers', async () => {
    const sent = await app.send({ html: '<p>Hi</p>', track_opens: true });
    await app.follow().of(sent.id, 'delivered');
    await app.app.db.commit.transact((tx) => tx.run('UPDATE messages SET bot_opens = 1'));
    app.clock.advance(10_000);
    await deliver({ inReplyTo: sent.rfc_message_id, text: 'Yes' });
    await app.follow().of(sent.id, 'opened');
    assert.equal((await app.message(sent.id)).engagement['opens'], 1);
  });

  it('takes no more while too much waits for the webhooks of the account; bounces come in', async () => {
    hook.answer = 'drop';
    await subscribe({ concurrency: 1 });
    const { id } = await app.send();
    await app.follow().of(id, 'delivered');
    const returnPath = server.sessions.flatMap(({ mails }) => mails).at(-1)?.from ?? '';
    await deliver({ subject: 'first' });
    await read(1);
    await app.app.db.commit.transact((tx) =>
      tx.run(
        `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${String(budgets.received_waiting.most)})
         INSERT INTO events (id, account_id, type, at, test, message_id, delivery_id, status, machine, detail_json)
         SELECT 'evt_' || i, account_id, type, at, test, message_id, delivery_id, status, machine, detail_json
         FROM events, n WHERE type = 'received'`,
      ),
    );
    app.clock.advance(31_000);
    await assert.rejects(deliver({ subject: 'one more' }), /452 4\.3\.1/);
    await sendByHand(port(), '', returnPath, dsn('ana@dest.test'));
    await app.follow().of(id, 'bounced');
  });

  it('shows nothing to a test key', async () => {
    await deliver({ subject: 'live' });
    const [mail] = await read(1);
    const made = await app.request<{ key: string }>('POST', '/v1/keys', {
      name: 'test',
      mode: 'test',
      scopes: ['message:read', 'message:content'],
    });
    assert.equal(made.status, 201, made.text);
    const { key } = made.body;
    assert.deepEqual((await app.get<{ data: unknown[] }>('/v1/received', { key })).body.data, []);
    assert.equal((await app.get(`/v1/received/${mail?.id ?? ''}`, { key })).status, 404);
  });
});
