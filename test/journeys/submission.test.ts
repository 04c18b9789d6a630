/** Programs that speak only SMTP: what they send arrives as they sent it, and who may not send is told so. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import tls from 'node:tls';
import { createTransport } from 'nodemailer';
import { simpleParser } from 'mailparser';
import { relaxedBodyHash } from '../../src/mail/dkim/canonicalize.ts';
import type { AuditRow } from '../../src/storage/tables.ts';
import { startMailServer, type FakeMailServer, type ReceivedMail } from '../support/fakes/fake-mail-server.ts';
import { signedIn } from '../support/harness/browser.ts';
import { hrefsOf } from '../support/harness/seen-mail.ts';
import { newFolder, startTestApp, zonesFor, type TestApp, type TestAppOptions } from '../support/harness/app.ts';
import { submissionOptions } from '../support/harness/submission.ts';

/** mailauth brings no types. */
type DkimVerify = (
  mail: Buffer,
  options: { resolver: (name: string) => Promise<string[][]>; curTime: Date },
) => Promise<{ results: { status: { result: string } }[] }>;
const { dkimVerify } = createRequire(import.meta.url)('mailauth/lib/dkim/verify') as { dkimVerify: DkimVerify };

interface Domain {
  records: { host: string; value: string }[];
}

interface SmtpError extends Error {
  responseCode?: number;
  response?: string;
}

/** A session typed by hand: each command with the reply to it. */
async function dialogue(port: number, lines: readonly string[], isSecure = false): Promise<string[]> {
  const socket = isSecure
    ? tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false })
    : net.connect(port, '127.0.0.1');
  const replies: string[] = [];
  let text = '';
  let wake: () => void = () => undefined;
  socket.setEncoding('utf8');
  socket.on('data', (part: string) => {
    text += part;
    wake();
  });
  socket.on('close', () => {
    wake();
  });
  socket.on('error', () => undefined);
  const reply = async (): Promise<string> => {
    for (;;) {
      const end = /^\d{3}(?: .*)?\r\n/m.exec(text);
      if (end !== null) {
        const whole = text.slice(0, end.index + end[0].length);
        text = text.slice(whole.length);
        return whole.trimEnd();
      }
      if (socket.destroyed) return '(closed)';
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
  replies.push(await reply());
  for (const line of lines) {
    socket.write(`${line}\r\n`, 'latin1');
    replies.push(await reply());
  }
  socket.destroy();
  return replies;
}

const plain = (user: string, password: string): string =>
  `AUTH PLAIN ${Buffer.from(`\0${user}\0${password}`).toString('base64')}`;

describe('journey: submission', () => {
  let server: FakeMailServer;
  let app: TestApp;

  const begin = async (options: TestAppOptions = {}): Promise<void> => {
    server = await startMailServer({ extensions: ['PIPELINING', '8BITMIME', 'SIZE 50000000'] });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test', 'else.test'), ...options });
  };
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const arrived = (): ReceivedMail[] => server.sessions.flatMap(({ mails }) => mails);
  const transport = (over: object = {}) => createTransport({ ...submissionOptions(app), ...over });
  const refusal = (sending: Promise<unknown>): Promise<SmtpError> =>
    sending.then(
      () => assert.fail('it was taken'),
      (error: unknown) => error as SmtpError,
    );
  const mail = { from: 'Acme <hi@acme.test>', to: 'ana@dest.test', subject: 'Héllo', text: 'Good day.\n.\nä' };
  const idOf = (response: string): string => /msg_[0-9a-z]{26}/.exec(response)?.[0] ?? assert.fail(response);

  /** The audit lines of SMTP, once there are so many. */
  const audited = async (count = 1): Promise<string[]> => {
    for (;;) {
      const lines = await app.app.db.reader<AuditRow>('audit').where({ method: 'SMTP' }).orderBy('id');
      if (lines.length >= count) return lines.map(({ endpoint, status }) => `${endpoint} ${String(status)}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };

  it('leaves in the list of messages the key that signed in', async () => {
    await begin();
    const id = idOf((await transport().sendMail(mail)).response);
    const { body } = await app.get<{ data: { id: string }[] }>(`/v1/messages?key_id=${app.keyId}`);
    assert.deepEqual(
      body.data.map((one) => one.id),
      [id],
    );
  });

  it('takes a mail by TLS and by STARTTLS, and hands it on as it came', async () => {
    await begin();
    for (const over of [{}, { port: app.app.ports.submission ?? 0, secure: false, requireTLS: true }]) {
      const sent = await transport(over).sendMail({
        ...mail,
        cc: 'cy@else.test',
        bcc: 'bo@else.test',
        headers: { 'X-Own': 'kept' },
      });
      assert.match(sent.response, /^250 2\.0\.0 queued as msg_/);
      const id = idOf(sent.response);
      const events = await app
        .follow()
        .until((seen) => seen.filter(({ type, data }) => type === 'delivered' && data.message_id === id).length === 3);
      assert.deepEqual(
        events
          .filter(({ type, data }) => type === 'delivered' && data.message_id === id)
          .map(({ data }) => data.recipient_type)
          .sort(),
        ['bcc', 'cc', 'to'],
      );
      const record = await app.message(id);
      assert.deepEqual([record.status, record.rfc_message_id], ['delivered', sent.messageId]);
    }
    const [first] = arrived();
    const data = first?.data ?? '';
    assert.match(data, /^DKIM-Signature: v=1; a=rsa-sha256;/);
    assert.match(
      data,
      /\r\nReceived: from \S+ \(\[127\.0\.0\.1\]\)\r\n by mail\.posthorn\.test with ESMTPSA id msg_[0-9a-z]{26};/,
    );
    assert.doesNotMatch(data, /^Bcc:/im);
    const read = await simpleParser(data);
    assert.deepEqual(
      [read.subject, read.text?.trimEnd(), read.headers.get('x-own')],
      [mail.subject, mail.text, 'kept'],
    );
    const { body } = await app.get<{ data: { method: string; status: number }[] }>('/v1/audit?method=SMTP');
    assert.deepEqual(
      body.data.map(({ status }) => status),
      [250, 250],
    );
  });

  it('shows people what a submitted mail says, with its files', async () => {
    await begin();
    const html = '<p>Good day. <img src="cid:logo"></p>';
    const files = [
      { filename: 'logo.png', content: Buffer.alloc(9), cid: 'logo' },
      { filename: 'a.pdf', content: Buffer.alloc(100_000) },
    ];
    const id = idOf((await transport().sendMail({ ...mail, html, attachments: files })).response);
    const { body } = await app.get(`/v1/messages/${id}/content`);
    assert.deepEqual([body['stored'], body['html'], String(body['text']).trimEnd()], ['mail', html, 'Good day.\n.\nä']);
    assert.deepEqual(
      (body['attachments'] as { filename: string; content_id: string | null; size: number }[]).map((file) => [
        file.filename,
        file.content_id,
        file.size,
      ]),
      [
        ['logo.png', 'logo', 9],
        ['a.pdf', null, 100_000],
      ],
    );
    const browser = await signedIn(app.url, app.operator);
    const page = (await browser.open(`/messages/${id}`)).html;
    assert.ok(page.includes(`<iframe src="/messages/${id}/html" sandbox`) && page.includes('a.pdf'), page);
    assert.equal((await browser.open(`/messages/${id}/html`)).html, html);
  });

  it('sends a submitted mail again as it came, with a name of its own', async () => {
    await begin();
    const { response, messageId } = await transport().sendMail({
      ...mail,
      cc: 'cy@else.test',
      bcc: 'bo@else.test',
      headers: { 'X-Own': 'kept' },
    });
    const first = idOf(response);
    const arrivals = (id: string) =>
      app
        .follow()
        .until((seen) => seen.filter(({ type, data }) => type === 'delivered' && data.message_id === id).length === 3);
    await arrivals(first);
    const headers = { 'idempotency-key': 'again' };
    const [again, same] = await Promise.all(
      [1, 2].map(() =>
        app.request<{ id: string; rfc_message_id: string }>('POST', `/v1/messages/${first}/resend`, undefined, {
          headers,
        }),
      ),
    );
    assert.deepEqual([again?.status, same?.status, same?.body.id], [202, 202, again?.body.id], again?.text);
    const id = again?.body.id ?? '';
    assert.equal(again?.body.rfc_message_id, `<${id}@acme.test>`);
    assert.notEqual(again.body.rfc_message_id, messageId);
    const events = await arrivals(id);
    assert.deepEqual(
      events
        .flatMap(({ type, data }) =>
          type === 'delivered' && data.message_id === id ? [`${data.recipient_type} ${data.recipient}`] : [],
        )
        .sort(),
      ['bcc bo@else.test', 'cc cy@else.test', 'to ana@dest.test'],
    );
    const mails = arrived().map(({ data }) => data.slice(data.indexOf('Received:')));
    assert.equal(mails.length, 6);
    const fresh = /^(?:Message-ID|Date): .*\r\n/gim;
    assert.equal(new Set(mails.map((text) => text.replace(fresh, ''))).size, 1);
    assert.equal(mails.filter((text) => text.includes(`Message-ID: <${id}@acme.test>\r\n`)).length, 3);
    assert.ok(mails.every((text) => text.match(fresh)?.length === 2));
    assert.equal((await app.operator.call('books', {})).balanced, true);
    assert.equal((await app.request('DELETE', `/v1/messages/${first}/content`)).status, 204);
    assert.equal((await app.request('POST', `/v1/messages/${first}/resend`)).status, 409);
  });

  it('takes addresses that mail systems in use have, though RFC 5321 forbids some of them', async () => {
    await begin();
    const lines = [
      'EHLO client.test',
      plain('apikey', app.key),
      'MAIL FROM:<root@web_1.acme.test>',
      'RCPT TO:<"foo..bar"@dest.test>',
      'RCPT TO:<foo..bar@dest.test>',
    ];
    const replies = await dialogue(app.app.ports.submissions ?? 0, lines, true);
    assert.deepEqual(
      replies.slice(3).map((reply) => reply.slice(0, 9)),
      ['250 2.1.0', '250 2.1.5', '553 5.1.3'],
    );
  });

  it('signs a mail with raw names as it is sent, and sends Sender from verified domains only', async () => {
    await begin();
    for (const sender of ['bo@acme.test', 'ceo@evil.test']) {
      const raw = [
        'From: Jàn <hi@acme.test>',
        `Sender: Bò <${sender}>`,
        'To: À la carte <ana@dest.test>',
        'Subject: Voilà à Cannes',
        'Content-Type: multipart/mixed; boundary=b',
        '',
        '--b',
        'Content-Disposition: attachment; filename="menu_à.txt"',
        '',
        'à',
        '--b--',
        '',
      ].join('\r\n');
      const sent = await transport().sendMail({ envelope: { from: 'hi@acme.test', to: ['ana@dest.test'] }, raw });
      await app.follow().of(idOf(sent.response), 'delivered');
    }
    const records = (await app.operator.ask<Domain>('getDomain', { params: { id: 'acme.test' } })).records;
    const resolver = (name: string) =>
      Promise.resolve(records.filter(({ host }) => host === name).map(({ value }) => [value]));
    for (const [at, { data }] of arrived().entries()) {
      const { results } = await dkimVerify(Buffer.from(data, 'latin1'), {
        resolver,
        curTime: new Date(app.clock.now()),
      });
      assert.deepEqual(
        results.map(({ status }) => status.result),
        ['pass', 'pass'],
      );
      assert.match(data.slice(0, data.indexOf('\r\n\r\n')), /^[\x00-\x7f]*$/);
      const read = await simpleParser(Buffer.from(data, 'latin1'));
      assert.deepEqual(
        [read.from?.value[0]?.name, read.subject, read.attachments[0]?.filename],
        ['Jàn', 'Voilà à Cannes', 'menu_à.txt'],
      );
      assert.equal(read.headers.has('sender'), at === 0);
    }
  });

  it('keeps every octet of the body', async () => {
    await begin();
    const octets = Buffer.from(Array.from({ length: 256 }, (_, i) => i).filter((i) => ![0, 10, 13].includes(i)));
    const raw = Buffer.concat([
      Buffer.from(
        'From: hi@acme.test\r\nTo: ana@dest.test\r\nSubject: octets\r\nContent-Type: text/plain; charset=x-none\r\nContent-Transfer-Encoding: 8bit\r\n\r\n',
      ),
      octets,
      Buffer.from('\r\n..two dots\r\n.\t\r\n trailing \r\n\r\n'),
    ]);
    const { response } = await transport().sendMail({ envelope: { from: 'hi@acme.test', to: ['ana@dest.test'] }, raw });
    await app.follow().of(idOf(response), 'delivered');
    const [got] = arrived();
    const body = Buffer.from(got?.data ?? '', 'latin1');
    assert.deepEqual(body.subarray(body.indexOf('\r\n\r\n') + 4), raw.subarray(raw.indexOf('\r\n\r\n') + 4));
    const shown = await fetch(`${app.url}/v1/messages/${idOf(response)}/raw`, {
      headers: { Authorization: `Bearer ${app.key}` },
    });
    assert.deepEqual(Buffer.from(await shown.arrayBuffer()), body);
    assert.match(server.sessions[0]?.lines.join('\n') ?? '', /BODY=8BITMIME/);
  });

  it('mends lines that are too long, and refuses to where that would break a signature', async () => {
    await begin();
    const long = `${'word '.repeat(500)}end`;
    const { response } = await transport().sendMail({
      envelope: { from: 'hi@acme.test', to: ['ana@dest.test'] },
      raw: `From: hi@acme.test\r\nTo: ana@dest.test\r\nSubject: long\r\n\r\n${long}\r\n`,
    });
    await app.follow().of(idOf(response), 'delivered');
    const data = arrived()[0]?.data ?? '';
    assert.ok(data.split('\r\n').every((line) => line.length <= 998));
    assert.equal((await simpleParser(data)).text?.trimEnd(), long);
    const signed = `From: hi@acme.test\r\nContent-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\n${long}\r\n--b--\r\n`;
    const error = await refusal(
      transport().sendMail({ envelope: { from: 'hi@acme.test', to: ['ana@dest.test'] }, raw: signed }),
    );
    assert.deepEqual([error.responseCode, (error.response ?? '').includes('5.6.0')], [554, true]);
  });

  it('obeys its option headers, and removes them', async () => {
    await begin();
    const sendAt = new Date(app.clock.now() + 3_600_000).toISOString();
    const { response } = await transport().sendMail({
      ...mail,
      headers: {
        'X-Posthorn-Stream': 'broadcast',
        'X-Posthorn-Tag': 'a, b',
        'X-Posthorn-Metadata': ['order=17', 'shop=x=y'],
        'X-Posthorn-Send-At': sendAt,
      },
    });
    const { body } = await app.get(`/v1/messages/${idOf(response)}`);
    assert.deepEqual(
      [body['status'], body['stream'], body['tags'], body['metadata'], body['send_at']],
      ['scheduled', 'broadcast', ['a', 'b'], { order: '17', shop: 'x=y' }, sendAt],
    );
    app.clock.advance(3_600_000);
    await app.follow().of(idOf(response), 'delivered');
    assert.doesNotMatch(arrived()[0]?.data ?? '', /X-Posthorn-(?!Delivery)/i);
  });

  for (const [header, value, reason] of [
    ['X-Posthorn-Send-At', 'tomorrow', 'no time'],
    ['X-Posthorn-Tag', 'a,,b', 'an empty tag'],
    ['X-Posthorn-Metadata', 'order', 'metadata without a value'],
    ['X-Posthorn-Colour', 'red', 'an option that does not exist'],
    ['X-Posthorn-Track-Opens', 'maybe', 'neither true nor false'],
    ['X-Posthorn-Stream', 'nowhere', 'a stream that does not exist'],
  ] as const)
    it(`refuses ${header}: ${value} (${reason})`, async () => {
      await begin();
      const { responseCode } = await refusal(transport().sendMail({ ...mail, headers: { [header]: value } }));
      assert.equal(responseCode, 554);
    });

  it('tracks a mail that asks for it, each recipient by an own link, and leaves the rest of it as it came', async () => {
    await begin({ settings: { http: { publicUrl: 'https://mail.posthorn.test' } } });
    const html =
      '<p>ä <a href="https://shop.test/tür?x=1&amp;y=2">one</a> <a href="https://list.test/stop">off</a></p>';
    const { response } = await transport().sendMail({
      ...mail,
      html,
      cc: 'cy@else.test',
      attachments: [{ filename: 'a.html', content: '<a href="https://shop.test/attached">x</a>' }],
      headers: {
        'X-Posthorn-Track-Clicks': 'true',
        'X-Posthorn-Track-Opens': 'yes',
        'List-Unsubscribe': '<https://list.test/stop>',
      },
    });
    await app.follow().until((seen) => seen.filter(({ type }) => type === 'delivered').length === 2);
    const copies = await Promise.all(arrived().map(({ data }) => simpleParser(Buffer.from(data, 'latin1'))));
    const links = copies.map(({ html: copy }) => hrefsOf(copy === false ? '' : copy));
    for (const [at, { text, attachments, html: copy }] of copies.entries()) {
      assert.match(links[at]?.[0] ?? '', /^https:\/\/mail\.posthorn\.test\/t\/c\//);
      assert.equal(links[at]?.[1], 'https://list.test/stop');
      assert.match(copy === false ? '' : copy, /^<p>ä .*\/t\/o\//s);
      assert.equal(text?.trim(), mail.text, 'the text part');
      assert.equal(attachments[0]?.content.toString(), '<a href="https://shop.test/attached">x</a>');
    }
    assert.notEqual(links[0]?.[0], links[1]?.[0]);
    for (const { data } of arrived()) {
      const body = Buffer.from(data.slice(data.indexOf('\r\n\r\n') + 4), 'latin1');
      const signed = [...data.replaceAll(/\r\n\s+/g, '').matchAll(/bh=([^;]+);/g)].map(([, hash]) => hash);
      assert.deepEqual(signed, [relaxedBodyHash(body), relaxedBodyHash(body)], 'what is signed is what is sent');
    }
    const path = new URL(links[0]?.[0] ?? '').pathname;
    const visit = await fetch(`${app.url}${path}`, { redirect: 'manual', headers: { 'user-agent': 'Mozilla/5.0' } });
    assert.equal(visit.headers.get('location'), 'https://shop.test/t%C3%BCr?x=1&y=2');
    const { track_opens: opens, track_clicks: clicks } = (await app.get(`/v1/messages/${idOf(response)}`)).body;
    assert.deepEqual([opens, clicks], [true, true]);
  });

  it('refuses to track what is signed as a whole', async () => {
    await begin();
    const raw = [
      'From: hi@acme.test',
      'X-Posthorn-Track-Clicks: true',
      'Content-Type: multipart/signed; boundary=b; protocol="application/pgp-signature"',
      '',
      '--b',
      'Content-Type: text/html',
      '',
      '<a href="https://shop.test/">x</a>',
      '--b--',
      '',
    ].join('\r\n');
    const sending = transport().sendMail({ envelope: { from: 'hi@acme.test', to: ['ana@dest.test'] }, raw });
    const { responseCode, response } = await refusal(sending);
    assert.equal(responseCode, 554);
    assert.match(response ?? '', /signed or encrypted mail cannot be tracked/);
  });

  it('sends once what comes twice under one idempotency key', async () => {
    await begin();
    const twice = {
      ...mail,
      messageId: '<one@acme.test>',
      date: new Date(0),
      headers: { 'X-Posthorn-Idempotency-Key': 'k1' },
    };
    const sent = await Promise.all([transport().sendMail(twice), transport().sendMail(twice)]);
    const ids = new Set(sent.map(({ response }) => idOf(response)));
    assert.equal(ids.size, 1);
    assert.equal(idOf((await transport().sendMail({ ...twice, subject: 'other' })).response), [...ids][0]);
    await app.settled();
    assert.equal(arrived().length, 1);
  });

  it('sends the rest of a mail under the same idempotency key, as a relay does that splits the recipients', async () => {
    await begin();
    const raw =
      'From: hi@acme.test\r\nMessage-ID: <one@acme.test>\r\nX-Posthorn-Idempotency-Key: k1\r\n\r\nGood day.\r\n';
    const send = async (...to: string[]): Promise<string> => {
      const { response } = await transport().sendMail({ envelope: { from: 'hi@acme.test', to }, raw });
      return idOf(response);
    };
    const first = await send('a@dest.test', 'b@dest.test');
    const second = await send('c@dest.test');
    assert.notEqual(first, second);
    // Each again, as after a reply that was lost.
    assert.deepEqual([await send('B@dest.test', 'a@dest.test'), await send('c@dest.test')], [first, second]);
    await app.settled();
    const reached = arrived().flatMap(({ to }) => to);
    assert.deepEqual(reached.sort(), ['a@dest.test', 'b@dest.test', 'c@dest.test']);
  });

  it('refuses who may not send, with the right code and a line in the audit log each', async () => {
    await begin();
    const make = async (options: object): Promise<string> =>
      (
        await app.operator.ask<{ id: string; key: string }>('createKey', {
          body: { name: 'k', scopes: ['send'], ...options },
        })
      ).key;
    const revoked = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'gone', scopes: ['send'] },
    });
    await app.operator.ask('revokeKey', { params: { id: revoked.id } });
    const at = (ms: number): string => new Date(app.clock.now() + ms).toISOString();
    const rows: [string, string, number, RegExp][] = [
      ['a wrong key', 'ak_live_00000000_nonsense', 535, /no such API key/],
      ['a revoked key', revoked.key, 535, /was revoked/],
      // The pause after each refusal is longer than its life.
      ['a key that has ended', await make({ expires_at: at(1000) }), 535, /has expired/],
      [
        'a key of another address',
        await make({ allowed_ips: ['192.0.2.1'] }),
        535,
        /may not be used from 127\.0\.0\.1/,
      ],
      ['a key without the scope', await make({ scopes: ['stats:read'] }), 535, /has not the scope `send`/],
      ['a key of other domains', await make({ domains: ['other.test'] }), 550, /5\.7\.1 This key may send only from/],
    ];
    for (const [what, pass, code, text] of rows) {
      const sending = refusal(transport({ auth: { user: 'apikey', pass } }).sendMail(mail));
      if (code === 535) {
        await app.clock.armed(1000);
        app.clock.advance(5000);
      }
      const error = await sending;
      assert.deepEqual(
        [error.responseCode, text.test(error.response ?? '')],
        [code, true],
        `${what}: ${error.response ?? error.message}`,
      );
    }
    const { body } = await app.get<{ data: { status: number }[] }>('/v1/audit?method=SMTP&result=refused');
    assert.equal(body.data.filter(({ status }) => status === 535).length, 4, 'of keys of this account');
    assert.deepEqual(await audited(), [
      ...rows.map(([, , code]) => `${code === 535 ? 'AUTH' : 'DATA'} ${String(code)}`),
    ]);
  });

  it('takes any user name, as programs have those of other services', async () => {
    await begin();
    for (const name of ['resend', 'api', app.key]) {
      const replies = await dialogue(app.app.ports.submissions ?? 0, ['EHLO client.test', plain(name, app.key)], true);
      assert.match(replies[2] ?? '', /^235 /);
    }
  });

  it('refuses keys in the clear, mail without sign-in, strangers’ domains, and what breaks a rule', async () => {
    await begin();
    const port = app.app.ports.submission ?? 0;
    const clear = await dialogue(port, ['EHLO client.test', plain('apikey', app.key), 'MAIL FROM:<hi@acme.test>']);
    assert.match(clear[1] ?? '', /ENHANCEDSTATUSCODES[\s\S]*STARTTLS/);
    assert.doesNotMatch(clear[1] ?? '', /AUTH/);
    assert.match(clear[2] ?? '', /^538 5\.7\.11 STARTTLS first/);
    assert.match(clear[3] ?? '', /^530 5\.7\.0 sign in first, after STARTTLS/);
    const secure = app.app.ports.submissions ?? 0;
    const replies = await dialogue(
      secure,
      [
        'EHLO client.test',
        plain('apikey', app.key),
        'MAIL FROM:<a@@b>',
        'MAIL FROM:<hi@acme.test> SIZE=999999999',
        'MAIL FROM:<hi@acme.test>',
        'RCPT TO:<nobody@[192.0.2.1]>',
        'RCPT TO:<ana@dest.test>',
        'DATA',
        'From: hi@stranger.test\r\n\r\nx\r\n.',
      ],
      true,
    );
    assert.deepEqual(
      replies.slice(2).map((reply) => reply.slice(0, 9)),
      ['235 2.7.0', '501 5.1.7', '552 5.3.4', '250 2.1.0', '553 5.1.3', '250 2.1.5', '354 End d', '550 5.7.1'].map(
        (one) => one.slice(0, 9),
      ),
    );
  });

  it('ends a session at once when its key is revoked', async () => {
    await begin();
    const { id, key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'k', scopes: ['send'] },
    });
    const socket = tls.connect({ port: app.app.ports.submissions ?? 0, host: '127.0.0.1', rejectUnauthorized: false });
    let text = '';
    socket.setEncoding('utf8').on('data', (part: string) => (text += part));
    // Nothing may be said before the greeting.
    socket.once('data', () => socket.write(`EHLO a.test\r\n${plain('apikey', key)}\r\n`));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    await new Promise<void>((resolve) =>
      socket.on('data', () => {
        if (text.includes('235 ')) resolve();
      }),
    );
    await app.operator.ask('revokeKey', { params: { id } });
    await closed;
    assert.match(text, /421 4\.7\.0 your key is no longer good/);
  });

  it('counts mails against the account’s rate', async () => {
    await begin({ settings: { plans: { tiny: { requestsPerMinute: 1 } } } });
    await app.operator.call('accounts.plan', { account: 'default', plan: 'tiny' });
    app.clock.advance(2000);
    await transport().sendMail(mail);
    const error = await refusal(transport().sendMail(mail));
    assert.deepEqual(
      [error.responseCode, /4\.7\.1 rate limit: try again in \d+ seconds/.test(error.response ?? '')],
      [450, true],
    );
    assert.deepEqual(await audited(), ['DATA 250', 'MAIL 450']);
  });

  it('lets a trusted network send in the clear and without sign-in, by the key named for it', async () => {
    const folder = newFolder();
    await begin({ folder, settings: { smtp: { submission: { trustedNetworks: ['127.0.0.0/8'] } } } });
    const port = app.app.ports.submission ?? 0;
    const without = await dialogue(port, ['EHLO a.test', 'MAIL FROM:<hi@acme.test>']);
    assert.match(without[2] ?? '', /^530 /);
    const open = { port, secure: false, ignoreTLS: true };
    await transport(open).sendMail(mail);
    await app.stop();
    await server.close();
    await begin({
      folder,
      settings: { smtp: { submission: { trustedNetworks: ['127.0.0.0/8'], trustedKey: app.keyId } } },
    });
    await transport({ ...open, port: app.app.ports.submission ?? 0, auth: undefined }).sendMail(mail);
    await app.settled();
    rmSync(folder, { recursive: true });
  });

  it('takes a large mail, and refuses one that is too large', async () => {
    await begin({ settings: { limits: { messageBytes: '2MiB' } } });
    const file = (bytes: number) => ({
      ...mail,
      attachments: [{ filename: 'a.bin', content: Buffer.alloc(bytes, 7) }],
    });
    const { response } = await transport().sendMail(file(1_000_000));
    await app.follow().of(idOf(response), 'delivered');
    const read = await simpleParser(arrived()[0]?.data ?? '');
    assert.equal(read.attachments[0]?.content.length, 1_000_000);
    assert.equal((await refusal(transport().sendMail(file(3_000_000)))).responseCode, 552);
    const replies = await dialogue(
      app.app.ports.submissions ?? 0,
      [
        'EHLO a.test',
        plain('apikey', app.key),
        'MAIL FROM:<hi@acme.test>',
        'RCPT TO:<ana@dest.test>',
        'DATA',
        `From: hi@acme.test\r\n\r\n${'x'.repeat(900).concat('\r\n').repeat(2500)}.`,
      ],
      true,
    );
    assert.match(replies.at(-1) ?? '', /^552 5\.3\.4 /);
    const mended = await dialogue(
      app.app.ports.submissions ?? 0,
      [
        'EHLO a.test',
        plain('apikey', app.key),
        'MAIL FROM:<hi@acme.test>',
        'RCPT TO:<ana@dest.test>',
        'DATA',
        `From: hi@acme.test\r\n\r\n${'x\n'.repeat(900_000)}\r\n.`,
      ],
      true,
    );
    assert.match(mended.at(-1) ?? '', /^554 5\.3\.4 /, 'bare line ends take an octet more each');
    const announced = await dialogue(
      app.app.ports.submissions ?? 0,
      ['EHLO a.test', plain('apikey', app.key), 'MAIL FROM:<hi@acme.test> SIZE=3000000'],
      true,
    );
    assert.match(announced.at(-1) ?? '', /^552 5\.3\.4 /);
    assert.deepEqual(await audited(5), ['DATA 250', 'DATA 552', 'DATA 552', 'DATA 554', 'MAIL 552']);
  });
});
