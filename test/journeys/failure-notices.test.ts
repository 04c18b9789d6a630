/** Programs that only speak SMTP are told of failures by mail: once each, to an address of their own, and never about a notice. */
import assert from 'node:assert/strict';
import { createTransport } from 'nodemailer';
import { readReport } from '../../src/inbound/classify.ts';
import { judge } from '../../src/messages/delivery/classify.ts';
import type { Finding } from '../../src/inbound/finding.ts';
import { readBounceWords } from '../../src/inbound/words-file.ts';
import type { MessageRow } from '../../src/storage/tables.ts';
import { startTestApp, zonesFor, type TestApp, type TestAppOptions } from '../support/harness/app.ts';
import { startMailServer, type FakeMailServer, type ReceivedMail } from '../support/fakes/fake-mail-server.ts';

const OWN_ACCOUNT = 'acc_7zzzzzzzzzzzzzzzzzzzzzzzzz';
const words = readBounceWords();
/** Nodemailer's own limit of 30 s is too short for a busy machine. */
const PATIENCE_MS = 300_000;

describe('journey: failure notices', () => {
  let server: FakeMailServer;
  let app: TestApp;

  /** `nobody@` is refused, `later@` and all mail to late.test deferred, all other mail taken. */
  const begin = async (options: TestAppOptions = {}): Promise<void> => {
    server = await startMailServer({
      script: {
        rcpt: (line) =>
          line.includes('nobody')
            ? '550 5.1.1 nobody of that name'
            : line.includes('later')
              ? '451 4.3.2 come later'
              : '250 ok',
      },
      extensions: ['PIPELINING', '8BITMIME', 'SIZE 50000000'],
    });
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test', 'acme.test', 'op.test'),
      ...options,
    });
  };
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const submit = async (
    from: string,
    to: string | string[],
    over: { key?: string; fields?: object } = {},
  ): Promise<string> => {
    const transport = createTransport({
      host: '127.0.0.1',
      port: app.app.ports.submissions ?? 0,
      secure: true,
      tls: { rejectUnauthorized: false },
      greetingTimeout: PATIENCE_MS,
      auth: { user: 'apikey', pass: over.key ?? app.key },
    });
    const mail = { from: 'Acme <hi@acme.test>', subject: 'Ihre Rechnung für März', text: 'Good day.', ...over.fields };
    const { response } = await transport.sendMail({ ...mail, to, envelope: { from, to } });
    return /msg_[0-9a-z]{26}/.exec(response)?.[0] ?? assert.fail(response);
  };
  const notices = (): ReceivedMail[] => server.sessions.flatMap(({ mails }) => mails).filter(({ from }) => from === '');
  const arrived = async (count: number): Promise<ReceivedMail[]> => {
    while (notices().length < count) await new Promise((resolve) => setImmediate(resolve));
    await app.settled();
    return notices();
  };
  const read = ({ data }: ReceivedMail): Finding => readReport({ words, judge }, Buffer.from(data, 'latin1'));

  it('tells the envelope’s sender, with the null sender, signed, in a report that programs read', async () => {
    await begin();
    const id = await submit('robot@acme.test', ['nobody@dest.test', 'ana@dest.test']);
    const [notice, ...others] = await arrived(1);
    assert.deepEqual([notice?.to, others], [['robot@acme.test'], []]);
    const data = notice?.data ?? '';
    assert.match(data, /^DKIM-Signature: v=1;[\s\S]*?d=acme\.test/);
    assert.match(data, /^From: Mail Delivery System <mailer-daemon@acme\.test>\r$/m);
    assert.match(data, /^Auto-Submitted: auto-replied\r$/m);
    assert.match(data, /^Reporting-MTA: dns; mail\.posthorn\.test\r$/m);
    assert.match(data, new RegExp(`^X-Posthorn-Message-Id: ${id}\r$`, 'm'));
    const finding = read(notice ?? assert.fail());
    assert.deepEqual([finding.kind, finding.isWellFormed], ['bounce', true]);
    assert.deepEqual(
      finding.recipients.map(({ address, action, status, diagnostic, verdict }) => [
        address,
        action,
        status,
        diagnostic,
        verdict,
      ]),
      [
        [
          'nobody@dest.test',
          'failed',
          '5.1.1',
          '550 5.1.1 nobody of that name',
          { class: 'hard', reason: 'mailbox_not_found' },
        ],
      ],
    );
    await app.balanced();
  });

  it('keeps notices out of the account’s messages, events and numbers', async () => {
    await begin();
    const id = await submit('robot@acme.test', 'nobody@dest.test');
    await arrived(1);
    const list = await app.get<{ data: { id: string }[] }>('/v1/messages');
    assert.deepEqual(
      list.body.data.map((one) => one.id),
      [id],
    );
    const events = await app.get<{ data: { type: string; data: { message_id: string } }[] }>(
      '/v1/events?type=sent,delivered,bounced',
    );
    assert.deepEqual(
      events.body.data.map(({ type, data }) => [type, data.message_id === id]),
      [
        ['sent', true],
        ['bounced', true],
      ],
    );
    const own = await app.app.db
      .reader('messages')
      .where({ account_id: OWN_ACCOUNT })
      .select('null_sender', 'notice_to', 'status');
    assert.deepEqual(own, [{ null_sender: 1, notice_to: null, status: 'delivered' }]);
  });

  it('tells of an address on the suppression list, on acceptance and when it came on it later', async () => {
    await begin();
    await app.request('POST', '/v1/suppressions', { email: 'no@dest.test' });
    await submit('robot@acme.test', ['no@dest.test', 'ana@dest.test']);
    const [first] = await arrived(1);
    assert.deepEqual(
      read(first ?? assert.fail()).recipients.map(({ address, status }) => [address, status]),
      [['no@dest.test', '5.7.1']],
    );
    assert.match(first?.data ?? '', /Diagnostic-Code: x-posthorn; the address is on the suppression list/);
    const later = await submit('robot@acme.test', 'later@dest.test');
    await app.follow().of(later, 'deferred');
    await app.request('POST', '/v1/suppressions', { email: 'later@dest.test' });
    await app.nextAttempt(later);
    const all = await arrived(2);
    assert.deepEqual(
      all.map((one) => read(one).recipients[0]?.address),
      ['no@dest.test', 'later@dest.test'],
    );
    await app.balanced();
  });

  it('tells of a mail whose time ran out, with what was said last', async () => {
    await begin();
    const id = await submit('robot@acme.test', 'later@dest.test');
    await app.follow().of(id, 'deferred');
    app.clock.advance(73 * 3_600_000);
    const [notice] = await arrived(1);
    const [recipient] = read(notice ?? assert.fail()).recipients;
    assert.deepEqual([recipient?.address, recipient?.diagnostic], ['later@dest.test', '451 4.3.2 come later']);
    assert.match(notice?.data ?? '', /^Status: 5\.4\.7\r$/m);
  });

  it('tells of a mail that came back after it was delivered', async () => {
    await begin();
    const id = await submit('robot@acme.test', 'ana@dest.test');
    await app.follow().of(id, 'delivered');
    const sent = server.sessions.flatMap(({ mails }) => mails)[0]?.from ?? '';
    const report = [
      'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
      '',
      '--b',
      'Content-Type: message/delivery-status',
      '',
      'Reporting-MTA: dns; mx.dest.test',
      '',
      'Final-Recipient: rfc822; ana@dest.test',
      'Action: failed',
      'Status: 5.2.1',
      'Diagnostic-Code: smtp; 550 5.2.1 closed',
      '',
      '--b--',
      '',
    ].join('\r\n');
    const remote = { host: '127.0.0.1', port: app.app.ports.mx ?? 0, ignoreTLS: true, greetingTimeout: PATIENCE_MS };
    await createTransport(remote).sendMail({
      envelope: { from: '', to: [sent] },
      raw: `From: mailer-daemon@mx.dest.test\r\nMIME-Version: 1.0\r\n${report}`,
    });
    await app.follow().of(id, 'bounced');
    const [notice] = await arrived(1);
    assert.deepEqual(
      read(notice ?? assert.fail()).recipients.map(({ address, status }) => [address, status]),
      [['ana@dest.test', '5.2.1']],
    );
  });

  it('lets a notice of mail that must have TLS have it too (RFC 8689 section 5)', async () => {
    await begin();
    const id = await submit('robot@acme.test', 'later@dest.test');
    await app.follow().of(id, 'deferred');
    await app.app.db.commit.transact((tx) => tx.run('UPDATE messages SET require_tls = 1 WHERE id = ?', [id]));
    app.clock.advance(73 * 3_600_000);
    await app.follow().of(id, 'bounced');
    const own = await app.app.db.reader<MessageRow>('messages').where({ account_id: OWN_ACCOUNT });
    assert.deepEqual(
      own.map(({ require_tls: wish }) => wish),
      [1],
    );
  });

  for (const [what, from] of [
    ['’s domain is none of the account’s', 'somebody@stranger.test'],
    [' is one of this host alone, as cron and PHP write it', 'root@web1'],
    [' has an address instead of a domain', 'printer@[192.0.2.1]'],
    [' is longer than mailboxes are, as lists write it', `list-bounces+${'a'.repeat(64)}=dest.test@acme.test`],
  ] as const)
    it(`tells the operator where the sender${what}`, async () => {
      await begin({ settings: { smtp: { operatorAddress: 'root@op.test' } } });
      await submit(from, 'nobody@dest.test');
      assert.deepEqual(
        (await arrived(1)).map(({ to }) => to),
        [['root@op.test']],
      );
    });

  for (const [what, settings, from, expected] of [
    [
      'the operator alone, where `notify` says so',
      { operatorAddress: 'root@op.test', submission: { notify: 'operator' } },
      'robot@acme.test',
      ['root@op.test'],
    ],
    [
      'nobody, where `notify` says so',
      { operatorAddress: 'root@op.test', submission: { notify: 'none' } },
      'robot@acme.test',
      [],
    ],
    ['nobody of a notice', { operatorAddress: 'root@op.test' }, '', []],
    ['nobody, where there is nobody to tell', {}, 'somebody@stranger.test', []],
  ] as const)
    it(`tells ${what}`, async () => {
      await begin({ settings: { smtp: settings } });
      const id = await submit(from, 'nobody@dest.test');
      await app.follow().of(id, 'bounced');
      assert.deepEqual(
        (await arrived(expected.length)).flatMap(({ to }) => to),
        expected,
      );
      assert.equal((await app.app.db.reader('messages').select('id')).length, 1 + expected.length);
    });

  it('tells nobody of simulated mail, nor of mail sent over HTTP', async () => {
    await begin({ settings: { smtp: { operatorAddress: 'root@op.test' } } });
    const simulated = await submit('robot@acme.test', 'bounced@simulator.posthorn.test');
    const { id } = await app.send({ to: 'nobody@dest.test' });
    const follower = app.follow();
    await follower.of(simulated, 'bounced');
    await follower.of(id, 'bounced');
    await app.settled();
    assert.deepEqual(notices(), []);
  });

  it('makes no second notice where the first one fails', async () => {
    await begin();
    await submit('nobody@acme.test', 'nobody@dest.test');
    for (;;) {
      const own = await app.app.db.reader<MessageRow>('messages').where({ account_id: OWN_ACCOUNT, status: 'bounced' });
      if (own.length > 0) break;
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal((await app.app.db.reader('messages').select('id')).length, 2);
    await app.balanced();
  });
});
