/** Mail that comes back: a bounce, a complaint, a wish to be left alone, and what must change nothing. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import net from 'node:net';
import { simpleParser } from 'mailparser';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { copyData, newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { signedIn, type Browser } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';
import { arf, dsn, sendByHand as send } from '../support/harness/mail-back.ts';

interface ReportRow {
  kind: string | null;
  state: string;
  delivery_id: string | null;
  message_id: string | null;
}

describe('journey: reports', () => {
  let server: FakeMailServer;
  let app: TestApp;

  /** True after a test that needs other settings. */
  let isOther = false;
  /** The first administrator, who is made once. */
  let signing: Promise<Browser> | null = null;
  const start = async (settings: Record<string, unknown> = {}): Promise<void> => {
    signing = null;
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test', 'op.test'), settings });
  };

  // One program for all: each would load its own thread that reads reports, which takes a second of CPU.
  before(async () => {
    server = await startMailServer();
    await start();
  });
  afterEach(async () => {
    for (const { mails } of server.sessions) mails.length = 0;
    if (isOther) {
      isOther = false;
      await app.stop();
      await start();
      return;
    }
    for (const table of ['reports', 'suppressions'])
      await app.app.db.commit.transact((tx) => tx.run(`DELETE FROM ${table}`));
  });
  after(async () => {
    await app.stop();
    await server.close();
  });

  const port = (): number => app.app.ports.mx ?? 0;
  const rows = (): Promise<ReportRow[]> =>
    app.app.db.reader('reports').select('kind', 'state', 'delivery_id', 'message_id').orderBy('id');
  /** Until every report was read. Each look waits for a commit: looks without a pause would take the CPU from the thread that reads reports. */
  const read = async (count: number): Promise<ReportRow[]> => {
    for (;;) {
      const all = await rows();
      if (all.length === count && all.every(({ kind }) => kind !== null)) return all;
      await app.app.db.commit.transact((tx) => tx.run('SELECT 1'));
    }
  };
  const delivered = async (
    fields: Record<string, unknown> = {},
  ): Promise<{ id: string; returnPath: string; copy: string }> => {
    const { id } = await app.send(fields);
    await app.follow().of(id, 'delivered');
    const mail = server.sessions.flatMap(({ mails }) => mails).at(-1);
    return {
      id,
      returnPath: mail?.from ?? '',
      copy: /^X-Posthorn-Delivery: (\w{43})\r$/m.exec(mail?.data ?? '')?.[1] ?? '',
    };
  };

  it('turns delivered into bounced by a report, once, and suppresses the address', async () => {
    const { id, returnPath } = await delivered();
    const replies = await send(port(), '', returnPath, dsn('ana@dest.test'));
    assert.match(replies.at(-1) ?? '', /^250 2\.0\.0 taken as rep_/);
    const events = await app.follow().of(id, 'bounced');
    const detail = events.at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual(
      [detail['class'], detail['reason'], detail['async'], detail['smtp_code'], detail['suppression_added']],
      ['hard', 'mailbox_not_found', true, 550, true],
    );
    await send(port(), '', returnPath.toUpperCase(), dsn('ana@dest.test'));
    const all = await read(2);
    assert.deepEqual(
      all.map(({ kind, state, message_id }) => [kind, state, message_id]),
      [
        ['bounce', 'done', id],
        ['bounce', 'done', id],
      ],
    );
    const { body } = await app.get<{ data: unknown[] }>(`/v1/events?message_id=${id}&type=bounced`);
    assert.equal(body.data.length, 1);
    assert.equal((await app.get<{ reason: string }>('/v1/suppressions/ana%40dest.test')).body.reason, 'hard_bounce');
    await app.balanced();
  });

  it('shows what came back with the message, and as it came, to who may read content', async () => {
    const { id, returnPath } = await delivered();
    const { id: other } = await delivered();
    const mail = dsn('ana@dest.test');
    await send(port(), '', returnPath, mail);
    await send(
      port(),
      'ana@dest.test',
      returnPath,
      'From: ana@dest.test\r\nAuto-Submitted: auto-replied\r\nSubject: Out of office\r\n\r\nI am away.',
    );
    await read(2);
    const list = await app.get<{ data: { id: string; kind: string; recipient: string; sender: string }[] }>(
      `/v1/messages/${id}/reports`,
    );
    assert.deepEqual(
      list.body.data.map(({ kind, recipient, sender }) => [kind, recipient, sender]),
      [
        ['bounce', 'ana@dest.test', ''],
        ['auto_reply', 'ana@dest.test', 'ana@dest.test'],
      ],
    );
    const [first] = list.body.data;
    const raw = await app.get(`/v1/messages/${id}/reports/${first?.id ?? ''}`);
    assert.deepEqual([raw.status, raw.headers.get('content-type')], [200, 'message/rfc822']);
    assert.ok(raw.text.includes('Final-Recipient: rfc822; ana@dest.test'), raw.text);
    assert.deepEqual((await app.get<{ data: unknown[] }>(`/v1/messages/${other}/reports`)).body.data, []);
    assert.equal((await app.get(`/v1/messages/${other}/reports/${first?.id ?? ''}`)).status, 404);
    assert.equal((await app.get(`/v1/messages/${id}/reports/rep_${'0'.repeat(26)}`)).status, 404);
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'reader', scopes: ['message:read'] },
    });
    assert.equal((await app.get(`/v1/messages/${id}/reports`, { key })).status, 200);
    assert.equal((await app.get(`/v1/messages/${id}/reports/${first?.id ?? ''}`, { key })).status, 403);
    await app.operator.call('accounts.add', { name: 'other' });
    const stranger = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account: 'other',
      body: { name: 'x', scopes: ['message:read', 'message:content'] },
    });
    for (const path of ['', `/${first?.id ?? ''}`, `/${first?.id ?? ''}/content`])
      assert.equal((await app.get(`/v1/messages/${id}/reports${path}`, { key: stranger.key })).status, 404);
  });

  it('shows people what a report says: in the API, on the page and by the command', async () => {
    const { id, returnPath } = await delivered();
    await send(port(), '', returnPath, dsn('ana@dest.test'));
    const html = '<p onclick="alert(1)">I am away.</p><script>alert(1)</script>';
    await send(
      port(),
      'ana@dest.test',
      returnPath,
      `From: =?utf-8?q?An=C3=A4?= <ana@dest.test>\r\nAuto-Submitted: auto-replied\r\nSubject: Out of office\r\nDate: Sat, 31 Jan 2026 09:30:00 +0000\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/html\r\n\r\n${html}\r\n--x\r\nContent-Type: image/png; name=a.png\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n--x--\r\n`,
    );
    await read(2);
    const { body: list } = await app.get<{ data: { id: string }[] }>(`/v1/messages/${id}/reports`);
    const [bounce, answer] = list.data.map((report) => report.id);
    const browser = await (signing ??= signedIn(app.url, app.operator));
    const here = `/messages/${id}/reports/`;
    const contentOf = async (report = ''): Promise<Record<string, unknown>> =>
      (await app.get(`/v1${here}${report}/content`)).body;
    assert.match(String((await contentOf(bounce))['text']), /Final-Recipient: rfc822; ana@dest\.test/);
    assert.deepEqual(await contentOf(answer), {
      object: 'report_content',
      report_id: answer,
      subject: 'Out of office',
      from: '"Anä" <ana@dest.test>',
      to: '',
      cc: '',
      date: '2026-01-31T09:30:00.000Z',
      text: null,
      html,
      attachments: [
        { filename: 'a.png', content_type: 'image/png', content_id: null, disposition: 'attachment', size: 3 },
      ],
    });
    assert.ok((await browser.open(`/messages/${id}`)).html.includes(`href="${here}${answer ?? ''}/read"`));
    const page = await browser.open(`${here}${answer ?? ''}/read`);
    assert.deepEqual(htmlFaults(page.html), []);
    assert.match(page.html, /<iframe src="[^"]+\/html" sandbox /);
    assert.ok(page.html.includes('a.png') && !page.html.includes('I am away'), page.html);
    const frame = await browser.open(`${here}${answer ?? ''}/html`);
    assert.equal(frame.html, html);
    assert.match(frame.headers.get('content-security-policy') ?? '', /default-src 'none';.*sandbox/);
    const shown = await app.operator.call('inbound.show', { id: answer ?? '' });
    assert.deepEqual([shown.view?.subject, shown.source], ['Out of office', null]);
    await assert.rejects(app.operator.call('inbound.show', { id: 'rep_0' }), /no report/);
  });

  it('shows the source of a report that cannot be parsed', async () => {
    const { id, returnPath } = await delivered();
    const parts = '--x\r\n\r\nhi\r\n'.repeat(1001);
    await send(port(), '', returnPath, `Content-Type: multipart/mixed; boundary=x\r\n\r\n${parts}--x--\r\n`);
    await read(1);
    const { body } = await app.get<{ data: { id: string }[] }>(`/v1/messages/${id}/reports`);
    const report = body.data[0]?.id ?? '';
    assert.equal((await app.get(`/v1/messages/${id}/reports/${report}/content`)).status, 409);
    const browser = await (signing ??= signedIn(app.url, app.operator));
    assert.match(
      (await browser.open(`/messages/${id}/reports/${report}/read`)).html,
      /could not be parsed.*boundary(?:=|&#x3D;)x/s,
    );
    assert.match((await app.operator.call('inbound.show', { id: report })).source ?? '', /boundary=x/);
  });

  it('formats findings 1, 2 and 4: a warning changes nothing, a rejection bounces, and the event has the code of the report', async () => {
    const { id, returnPath } = await delivered();
    const warning =
      'From: Mailer-Daemon@mx.dest.test\r\nSubject: Warning: message delayed 24 hours\r\n\r\nThe message has not yet been delivered to:\r\n\r\n  ana@dest.test\r\n\r\nDelivery attempts will continue. Eventually the mail software will give up, and when that happens, the message will be returned to you.';
    await send(port(), '', returnPath, warning);
    assert.deepEqual(
      (await read(1)).map(({ kind }) => kind),
      ['delay'],
    );
    assert.equal((await app.message(id)).status, 'delivered');
    const rejection =
      'From: Mail Delivery Subsystem <postmaster@dest.test>\r\nSubject: Automatically rejected mail\r\nAuto-Submitted: auto-replied (rejected)\r\nContent-Type: multipart/report; report-type=disposition-notification; boundary=b\r\n\r\n--b\r\n\r\nYour message to <ana@dest.test> was automatically rejected:\r\nQuota exceeded\r\n--b\r\nContent-Type: message/disposition-notification\r\n\r\nFinal-Recipient: rfc822; ana@dest.test\r\nDisposition: automatic-action/MDN-sent-automatically; deleted\r\n\r\n--b--';
    await send(port(), '', returnPath, rejection);
    const full = (await app.follow().of(id, 'bounced')).at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual(
      [full['class'], full['reason'], full['enhanced_code'], full['smtp_reply'], full['suppression_added']],
      ['soft', 'mailbox_full', null, 'Quota exceeded', false],
    );
    const second = await delivered();
    await send(
      port(),
      '',
      second.returnPath,
      dsn('ana@dest.test', { status: '5.0.0', text: 'all hosts have been failing for a long time' }),
    );
    const late = (await app.follow().of(second.id, 'bounced')).at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual([late['class'], late['reason'], late['enhanced_code']], ['soft', 'expired', '5.0.0']);
  });

  it('suppresses nobody by our own cut subject, or by what is said of another address', async () => {
    const subject = 'Your account has been closed: final statement and refund of your balance';
    const first = await delivered({ subject });
    const notice = `From: MAILER-DAEMON@mx.dest.test\r\nSubject: Undeliverable: ${subject.slice(0, 60)}\r\n\r\n`;
    await send(port(), '', first.returnPath, `${notice}It could not be delivered to <ana@dest.test>.`);
    const detail = (await app.follow().of(first.id, 'bounced')).at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual([detail['class'], detail['suppression_added']], ['undetermined', false]);
    const second = await delivered();
    const letter =
      'From: Postmaster <postmaster@dest.test>\r\nSubject: Your mail\r\n\r\nPlease drop addresses such as old@dest.test (550 5.1.1 User unknown).';
    await send(port(), 'postmaster@dest.test', second.returnPath, letter);
    await read(2);
    assert.equal((await app.message(second.id)).status, 'delivered');
    assert.equal((await app.get('/v1/suppressions/ana%40dest.test')).status, 404);
  });

  it('changes nothing for an answer from the null sender that repeats a subject of failure', async () => {
    const subject = 'Your parcel could not be delivered';
    const { id, returnPath } = await delivered({ subject });
    const head = `From: ana@dest.test\r\nSubject: Re: ${subject}\r\n`;
    await send(port(), '', returnPath, `${head}Auto-Submitted: auto-replied\r\n\r\nIch bin bis 5.1.27 nicht im Büro.`);
    await send(port(), '', returnPath, `${head}\r\nI am away.`);
    assert.deepEqual(
      (await read(2)).map(({ kind }) => kind),
      ['auto_reply', 'other'],
    );
    assert.equal((await app.message(id)).status, 'delivered');
  });

  it('changes nothing for a delay, an answering machine, or a stranger who has the address', async () => {
    const { id, returnPath } = await delivered();
    await send(port(), '', returnPath, dsn('ana@dest.test', { action: 'delayed', status: '4.4.1', text: '451 later' }));
    await send(
      port(),
      'ana@dest.test',
      returnPath,
      'From: ana@dest.test\r\nAuto-Submitted: auto-replied\r\nSubject: Out of office\r\n\r\nI am away.',
    );
    await send(
      port(),
      'eve@evil.test',
      returnPath,
      'From: eve@evil.test\r\nSubject: Undelivered Mail\r\n\r\nana@dest.test: 550 5.1.1 no such user, delivery failed permanently',
    );
    await read(3);
    assert.equal((await app.message(id)).status, 'delivered');
    assert.equal((await app.get('/v1/suppressions/ana%40dest.test')).status, 404);
  });

  for (const [what, head] of [
    ['the return path', (path: string) => [`Return-Path: <${path}>`]],
    [
      'the mark of its copy, everything else taken out',
      (_path: string, copy: string) => [`X-Posthorn-Delivery: ${copy}`],
    ],
    ['the mark in capitals', (_path: string, copy: string) => [`x-posthorn-delivery: ${copy.toUpperCase()}`]],
  ] as const)
    it(`suppresses who complains, found by ${what}`, async () => {
      const { id, returnPath, copy } = await delivered();
      await send(port(), 'fbl@provider.test', 'fbl@rp.acme.test', arf(head(returnPath, copy)));
      const events = await app.follow().of(id, 'complained');
      const detail = events.at(-1)?.data['complained'] as Record<string, unknown>;
      assert.deepEqual([detail['feedback_type'], detail['user_agent']], ['abuse', 'SomeGenerator/1.0']);
      assert.equal((await app.get<{ reason: string }>('/v1/suppressions/ana%40dest.test')).body.reason, 'complaint');
      await read(1);
      await app.balanced();
    });

  it('believes the mark of the returned mail before a return path that the text of the complaint quotes', async () => {
    const first = await delivered();
    const second = await delivered();
    const complaint = arf([`X-Posthorn-Delivery: ${second.copy}`]);
    await send(
      port(),
      'fbl@provider.test',
      'fbl@rp.acme.test',
      complaint.replace(/(Content-Type: text\/plain[^]*?\r\n\r\n)/i, `$1Earlier: ${first.returnPath}\r\n`),
    );
    const [report] = await read(1);
    assert.equal(report?.message_id, second.id);
  });

  it('finds the message by its Message-ID where the returned mail has an X-Message-Id of another program', async () => {
    const { id } = await delivered();
    const messageId = /^Message-ID: (<.*>)\r$/im.exec(
      server.sessions.flatMap(({ mails }) => mails)[0]?.data ?? '',
    )?.[1];
    await send(
      port(),
      'fbl@provider.test',
      'fbl@rp.acme.test',
      arf(['X-Message-Id: 4711', `Message-ID: ${messageId ?? assert.fail('no Message-ID')}`, 'To: ana@dest.test']),
    );
    const [report] = await read(1);
    assert.deepEqual([report?.state, report?.message_id], ['unverified', id]);
    assert.equal((await app.message(id)).status, 'delivered', 'nothing proves it, so it changes nothing');
    assert.equal((await app.get('/v1/suppressions/ana%40dest.test')).status, 404);
  });

  it('puts a complaint in the place of an entry with another reason, which goes only with force then', async () => {
    const { id, returnPath } = await delivered();
    await app.request('POST', '/v1/suppressions', { email: 'ana@dest.test' });
    await send(port(), 'fbl@provider.test', 'fbl@rp.acme.test', arf([`Return-Path: <${returnPath}>`]));
    await app.follow().of(id, 'complained');
    const entry = '/v1/suppressions/ana%40dest.test';
    assert.equal((await app.get<{ reason: string }>(entry)).body.reason, 'complaint');
    assert.equal((await app.request('DELETE', entry)).status, 409);
    assert.equal((await app.request('DELETE', `${entry}?force=true`)).status, 204);
  });

  it('does not believe a complaint that only names an address', async () => {
    const { id } = await delivered();
    await send(port(), 'fbl@provider.test', 'abuse@mail.posthorn.test', arf(['To: ana@dest.test']));
    assert.deepEqual(
      (await read(1)).map(({ kind, state }) => [kind, state]),
      [['complaint', 'unmatched']],
    );
    assert.equal((await app.message(id)).status, 'delivered');
  });

  it('tells once who unsubscribes by mail after they were erased, whose address is not known any more', async () => {
    const { id } = await delivered({ stream: 'broadcast' });
    const list =
      /^List-Unsubscribe:[\s\S]*?<mailto:(unsub\+[^>?]+)/im.exec(
        server.sessions.flatMap(({ mails }) => mails)[0]?.data ?? '',
      )?.[1] ?? assert.fail('no address to unsubscribe at');
    assert.equal((await app.request('DELETE', '/v1/recipients/ana%40dest.test')).status, 204);
    for (let n = 0; n < 2; n++)
      await send(port(), 'ana@dest.test', list, 'From: ana@dest.test\r\nSubject: unsubscribe\r\n\r\n');
    const kept = (): Promise<unknown[]> => app.app.db.prepared.all('SELECT id FROM reports');
    while ((await kept()).length > 0);
    const { events } = await app.message(id);
    assert.equal(events.filter(({ type }) => type === 'unsubscribed').length, 1);
    assert.deepEqual((await app.get<{ data: unknown[] }>('/v1/suppressions')).body.data, []);
  });

  for (const [what, remove] of [
    ['was erased', () => app.request('DELETE', '/v1/recipients/ana%40dest.test')],
    [
      'is of a mail that retention has removed',
      async () => {
        for (const table of ['events', 'attempts', 'deliveries', 'messages'])
          await app.app.db.commit.transact((tx) => tx.run(`DELETE FROM ${table}`));
      },
    ],
  ] as const)
    it(`stops the mail to a recipient who ${what}, by the subject of their mail program`, async () => {
      await delivered({ stream: 'broadcast' });
      const data = server.sessions.flatMap(({ mails }) => mails)[0]?.data ?? '';
      const [, address = '', subject = ''] =
        /<mailto:(unsub\+[^>?]+)\?subject=([^>]+)>/.exec(data) ?? assert.fail('no address to unsubscribe at');
      await remove();
      const words = decodeURIComponent(subject);
      const folded = `${words.slice(0, 90)}\r\n ${words.slice(90)}`;
      const replies = await send(port(), 'ana@dest.test', address, `From: a@b.test\r\nSubject: ${folded}\r\n\r\n`);
      assert.match(replies.at(-1) ?? '', /^250 /);
      const entry = () => app.get<{ scope: string; reason: string }>('/v1/suppressions/ana%40dest.test');
      for (let tries = 0; tries < 500 && (await entry()).status !== 200; tries++);
      const { body } = await entry();
      assert.deepEqual([body.scope, body.reason], ['stream:broadcast', 'unsubscribe']);
    });

  it('takes the subject of another delivery for no wish of this one', async () => {
    await delivered({ stream: 'broadcast' });
    await delivered({ stream: 'broadcast', to: 'bo@dest.test' });
    const ways = server.sessions
      .flatMap(({ mails }) => mails)
      .map(({ data }) => /<mailto:(unsub\+[^>?]+)\?subject=([^>]+)>/.exec(data) ?? assert.fail('no way out'));
    const [address = '', subject = ''] = [ways[0]?.[1], ways[1]?.[2]];
    const text = `From: a@b.test\r\nSubject: ${decodeURIComponent(subject)}\r\n\r\n`;
    await send(port(), 'ana@dest.test', address, text);
    await read(1);
    assert.deepEqual(
      (await app.get<{ data: { email: string }[] }>('/v1/suppressions')).body.data.map(({ email }) => email),
      ['ana@dest.test'],
    );
  });

  it('unsubscribes by mail, from that stream, once', async () => {
    const { id } = await delivered({ stream: 'broadcast' });
    const list =
      /^List-Unsubscribe:[\s\S]*?<mailto:(unsub\+[^>?]+)/im.exec(
        server.sessions.flatMap(({ mails }) => mails)[0]?.data ?? '',
      )?.[1] ?? '';
    assert.match(list, /@rp\.acme\.test$/);
    // A pause that the sender has made is not a request of the recipient.
    const pause = { reason: 'unsubscribe', expires_at: new Date(Date.now() + 3_600_000).toISOString() };
    await app.request('POST', '/v1/suppressions', { email: 'ana@dest.test', stream: 'broadcast', ...pause });
    for (let times = 0; times < 2; times++)
      await send(port(), 'ana@dest.test', list, 'From: ana@dest.test\r\nSubject: unsubscribe\r\n\r\n');
    await read(2);
    const { body } = await app.get<{ data: { data: Record<string, unknown> }[] }>(
      `/v1/events?type=unsubscribed&message_id=${id}`,
    );
    assert.deepEqual(
      body.data.map(({ data }) => data['unsubscribed']),
      [{ stream: 'broadcast', method: 'mailto' }],
    );
    const { body: entry } = await app.get<{ scope: string; expires_at: null }>('/v1/suppressions/ana%40dest.test');
    assert.deepEqual([entry.scope, entry.expires_at], ['stream:broadcast', null]);
  });

  it('takes a mail to the addresses of two deliveries in two transactions, so that both count', async () => {
    const [first, second] = [await delivered({ stream: 'broadcast' }), await delivered({ stream: 'broadcast' })];
    const ways = server.sessions
      .flatMap(({ mails }) => mails)
      .map(({ data }) => /<mailto:(unsub\+[^>?]+)/.exec(data)?.[1] ?? assert.fail('no address to unsubscribe at'));
    const [one = '', other = ''] = ways;
    const text = 'From: ana@dest.test\r\nSubject: unsubscribe\r\n\r\n';
    const replies = await send(port(), 'ana@dest.test', [one, one, other], text);
    assert.deepEqual(
      replies.slice(2, 5).map((reply) => reply.slice(0, 9)),
      ['250 2.1.5', '250 2.1.5', '452 4.5.3'],
    );
    await send(port(), 'ana@dest.test', other, text);
    assert.deepEqual(
      (await read(2)).map(({ message_id }) => message_id),
      [first.id, second.id],
    );
  });

  it('refuses everybody else at RCPT, whatever form the address has', async () => {
    const { returnPath } = await delivered();
    const forged = returnPath.replace(/.@/, (end) => (end.startsWith('0') ? '1@' : '0@'));
    for (const [address, code] of [
      ['ana@dest.test', '550 5.7.1'],
      ['hi@acme.test', '550 5.7.1'],
      [forged, '550 5.1.1'],
      ['nobody@rp.acme.test', '550 5.1.1'],
      ['b+@rp.acme.test', '550 5.1.1'],
      ['ana%dest.test@rp.acme.test', '550 5.1.1'],
      ['dest.test!ana@rp.acme.test', '550 5.1.1'],
      ['"ana@dest.test"@rp.acme.test', '501 5.1.3'],
      ['"ana@dest.test"@evil.test', '501 5.1.3'],
      ['postmaster@evil.test', '550 5.7.1'],
    ] as const) {
      const replies = await send(port(), 'eve@evil.test', address, 'x');
      assert.equal(replies.at(-1)?.slice(0, 9), code, `${address}: ${replies.at(-1) ?? ''}`);
    }
    assert.deepEqual(await rows(), []);
  });

  it('never makes two mails of one: line ends other than CRLF end nothing', async () => {
    const { id, returnPath } = await delivered();
    for (const end of ['\n.\n', '\n.\r\n', '\r\n.\n', '\r.\r', '\r\n.\r', '\r.\r\n']) {
      const smuggled = `From: a@dest.test\r\nSubject: x\r\n\r\nfirst${end}MAIL FROM:<>\r\nRCPT TO:<${returnPath}>\r\nDATA\r\n${dsn('ana@dest.test')}`;
      const socket = net.connect(port(), '127.0.0.1');
      let text = '';
      socket.setEncoding('latin1').on('data', (part: string) => (text += part));
      const said = async (pattern: RegExp): Promise<void> => {
        while (!pattern.test(text)) await new Promise((resolve) => setImmediate(resolve));
      };
      await said(/^220 /m);
      socket.write('EHLO a.test\r\n');
      await said(/^250 /m);
      for (const [line, reply] of [
        ['MAIL FROM:<a@dest.test>', /2\.1\.0/],
        ['RCPT TO:<postmaster@rp.acme.test>', /2\.1\.5/],
        ['DATA', /^354/m],
      ] as const) {
        socket.write(`${line}\r\n`);
        await said(reply);
      }
      socket.write(`${smuggled}\r\n.\r\n`);
      await said(/taken as/);
      assert.equal(text.match(/taken as/g)?.length, 1, JSON.stringify(end));
      socket.destroy();
    }
    await read(6);
    assert.equal((await app.message(id)).status, 'delivered');
  });

  describe('to postmaster@ and abuse@', () => {
    const letter = 'From: pat@people.test\r\nSubject: Bitte um R=C3=BCckruf\r\n\r\nYour mail is broken.\r\n.a dot';
    const restart = async (smtp: object): Promise<void> => {
      isOther = true;
      await app.stop();
      await start({ smtp });
    };
    const toOperator = () => server.sessions.flatMap(({ mails }) => mails).filter(({ to }) => to[0] === 'root@op.test');
    const states = async (count: number): Promise<string[]> => (await read(count)).map(({ state }) => state);

    it('formats finding 3: 8-bit mail of people goes on readable, and its own parts alone are encoded', async () => {
      await restart({ operatorAddress: 'root@op.test' });
      const text =
        'From: pat@people.test\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nBitte um Rückruf.';
      await send(port(), 'pat@people.test', 'postmaster@rp.acme.test', text);
      assert.deepEqual(await states(1), ['forwarded']);
      while (toOperator().length < 1) await new Promise((resolve) => setImmediate(resolve));
      const [mail = assert.fail()] = toOperator();
      assert.match(mail.data, /Content-Type: message\/rfc822[^]*?\r\nContent-Transfer-Encoding: 7bit\r\n/);
      const [attached = assert.fail()] = (await simpleParser(mail.data)).attachments;
      assert.equal((await simpleParser(attached.content)).text?.trim(), 'Bitte um Rückruf.');
    });

    it('mail of people goes on to the operator, attached as it came, from nobody', async () => {
      await restart({ operatorAddress: 'root@op.test' });
      for (const to of ['postmaster@rp.acme.test', 'Abuse@mail.posthorn.test'])
        await send(port(), 'pat@people.test', to, letter);
      assert.deepEqual(await states(2), ['forwarded', 'forwarded']);
      while (toOperator().length < 2) await new Promise((resolve) => setImmediate(resolve));
      const [mail = assert.fail()] = toOperator();
      assert.equal(mail.from, '');
      const parsed = await simpleParser(mail.data);
      assert.deepEqual(
        [parsed.from?.value[0]?.address, parsed.subject, parsed.headers.get('auto-submitted')],
        ['postmaster@mail.posthorn.test', 'Mail to postmaster@rp.acme.test', 'auto-generated'],
      );
      assert.match(
        parsed.text ?? '',
        /postmaster@rp\.acme\.test came on .* from 127\.0\.0\.1\.\nIts sender says to be <pat@people\.test>/,
      );
      assert.deepEqual(
        parsed.attachments.map(({ contentType, content }) => [contentType, content.toString('latin1')]),
        [['message/rfc822', `${letter}\r\n`]],
      );
      assert.deepEqual((await app.get<{ data: unknown[] }>('/v1/messages')).body.data, []);
      await app.settled();
      await app.balanced();
    });

    for (const [what, from, to, mail, kind] of [
      ['a notice', '', 'postmaster@rp.acme.test', letter, 'done'],
      [
        'an automatic answer',
        'ana@dest.test',
        'abuse@rp.acme.test',
        `Auto-Submitted: auto-replied\r\n${letter}`,
        'done',
      ],
      ['a complaint', 'fbl@provider.test', 'abuse@rp.acme.test', arf(['To: ana@dest.test']), 'unmatched'],
      ['a bounce', 'mailer-daemon@mx.test', 'postmaster@rp.acme.test', dsn('ana@dest.test'), 'unmatched'],
      [
        'an absence note about a mail',
        'ana@dest.test',
        'postmaster@rp.acme.test',
        'Subject: Out of office\r\n\r\nI am away.\r\n\r\nReceived: by a\r\nMessage-ID: <1@acme.test>\r\nSubject: Hi\r\n',
        'done',
      ],
      ['mail to other addresses of ours', 'pat@people.test', 'fbl@rp.acme.test', letter, 'done'],
    ] as const)
      it(`${what} does not`, async () => {
        await restart({ operatorAddress: 'root@op.test' });
        await send(port(), from, to, mail);
        assert.deepEqual(await states(1), [kind]);
        await app.settled();
        assert.deepEqual(toOperator(), []);
      });

    const aboutMail = [
      ['a spam trap', 'Subject: Your server\r\n\r\nWe have received your unsolicited mail at our spamtrap.'],
      ['a fraud', "Subject: Phishing\r\n\r\nIt says 'Verification required: confirm your bank account'."],
      ['an absent record', 'Subject: Absence of a PTR record\r\n\r\nYour server has none.'],
      ['a bounce that they got', 'Subject: Delivery failure\r\n\r\nYour server said 550 5.7.1 rejected. Why?'],
      [
        'a mail of theirs that failed',
        `Subject: Delivery failure\r\n\r\nYour server said 550 5.7.1 rejected.\r\n\r\nReceived: by a\r\nMessage-ID: <1@people.test>\r\nSubject: Hi\r\n`,
      ],
      ['a domain', 'Subject: Report domain: acme.test\r\n\r\nIt sends spam.'],
      [
        'the spam that they send back',
        'Subject: Spam report\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nStop it.\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nFrom: x@evil.test\r\nMessage-ID: <2@evil.test>\r\n\r\nBuy!\r\n--b--',
      ],
    ] as const;
    it('letters about mail go on, whatever their words', async () => {
      await restart({ operatorAddress: 'root@op.test' });
      for (const [at, [what, mail]] of aboutMail.entries()) {
        const replies = await send(port(), 'pat@people.test', 'abuse@rp.acme.test', `From: pat@people.test\r\n${mail}`);
        assert.match(replies.at(-1) ?? '', /^250 /, what);
        assert.equal((await states(at + 1)).at(-1), 'forwarded', what);
      }
    });

    it('is kept where there is no operator, and from the 21st of an hour on', async () => {
      await send(port(), 'pat@people.test', 'abuse@rp.acme.test', letter);
      assert.deepEqual(await states(1), ['kept']);
      await restart({ operatorAddress: 'root@op.test' });
      for (let count = 0; count < 22; count++) await send(port(), 'pat@people.test', 'abuse@rp.acme.test', letter);
      const all = await states(22);
      assert.deepEqual(
        [all.filter((one) => one === 'forwarded').length, all.filter((one) => one === 'kept').length],
        [20, 2],
      );
      app.clock.advance(3_600_001);
      await send(port(), 'pat@people.test', 'abuse@rp.acme.test', letter);
      assert.equal((await states(23)).filter((one) => one === 'forwarded').length, 21);
      await app.settled();
    });
  });

  it('reads after a restart what came before it', async () => {
    const { id, returnPath } = await delivered();
    await app.app.db.commit.insert({
      reports: [
        {
          id: 'rep_00000000000000000000000001',
          received_at: app.clock.now(),
          client_ip: '192.0.2.1',
          sender: '',
          recipients_json: JSON.stringify([returnPath]),
          size: 1,
          state: 'new',
          kind: null,
          account_id: null,
          message_id: null,
          delivery_id: null,
          detail_json: '{}',
          raw: Buffer.from(dsn('ana@dest.test')),
        },
      ],
    });
    const kept = newFolder();
    await copyData(app.folder, kept);
    await app.stop();
    app = await startTestApp({ folder: kept, mailPort: server.port, zones: zonesFor('dest.test') });
    await app.follow().of(id, 'bounced');
    await read(1);
    await app.stop();
    rmSync(kept, { recursive: true, force: true });
    await start();
  });
});
