/**
 * A remote that says 250 and bounces later: Debian's Postfix takes our mail, cannot hand it on, and sends its own delivery report
 * to our return path. And reports that come at awkward moments: before our own note of the delivery, or after a connection that
 * died unnoticed.
 */
import assert from 'node:assert/strict';
import { createTransport } from 'nodemailer';
import type { DomainRow, EventRow, ReportRow } from '../../src/storage/tables.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { startMailServer, type FakeMailServer, type ServerSession } from '../support/fakes/fake-mail-server.ts';
import { freePort, missing } from '../support/harness/peer.ts';
import { startPostfix, type Postfix } from '../support/harness/postfix.ts';

const dsn = (recipient: string): string =>
  [
    'From: mailer-daemon@mx.dest.test',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
    '',
    '--b',
    'Content-Type: message/delivery-status',
    '',
    'Reporting-MTA: dns; mx.dest.test',
    '',
    `Final-Recipient: rfc822; ${recipient}`,
    'Action: failed',
    'Status: 5.1.1',
    'Diagnostic-Code: smtp; 550 5.1.1 gone',
    '',
    '--b--',
    '',
  ].join('\r\n');

async function handIn(app: TestApp, from: string, to: string, raw: string): Promise<void> {
  // Nodemailer's own limit of the greeting, 30 s, is too short for a busy machine.
  const remote = { host: '127.0.0.1', port: app.app.ports.mx ?? 0, ignoreTLS: true, greetingTimeout: 300_000 };
  const transport = createTransport(remote);
  await transport.sendMail({ envelope: { from, to: [to] }, raw });
}

const eventsOf = async (app: TestApp, id: string): Promise<string[]> => {
  const rows = await app.app.db.reader<EventRow>('events').where({ message_id: id }).orderBy('sequence');
  return rows.map(({ type }) => type);
};

describe('journey: reports of a real Postfix', () => {
  let postfix: Postfix | null = null;
  let behind: FakeMailServer;
  let app: TestApp;

  before(async function () {
    const absent = missing('postfix');
    if (absent.length > 0) this.skip('Postfix is not installed (apt-get install postfix)');
    if (process.getuid?.() !== 0) this.skip('Postfix runs as root only');
    const refuse = (line: string): string =>
      line.includes('gone@')
        ? '550 5.1.1 no such mailbox'
        : line.includes('full@')
          ? '552 5.2.2 the mailbox is full'
          : '250 ok';
    behind = await startMailServer({ script: { rcpt: refuse }, tls: 'none' });
    const port = await freePort();
    app = await startTestApp({ mailPort: port, zones: zonesFor('dest.test') });
    postfix = await startPostfix({
      hostname: 'mx.dest.test',
      port,
      main: () => `mynetworks = 192.0.2.1
relay_domains = dest.test
smtpd_relay_restrictions = reject_unauth_destination
smtp_tls_security_level = none
smtp_host_lookup = native
transport_maps = inline:{ {dest.test = smtp:[127.0.0.1]:${String(behind.port)}}, {rp.acme.test = smtp:[127.0.0.1]:${String(app.app.ports.mx)}} }
`,
    });
  });
  after(async () => {
    if (postfix === null) return;
    postfix.stop();
    await app.stop();
    await behind.close();
  });

  const isUnsuppressed = async (address: string): Promise<boolean> =>
    (await app.get(`/v1/suppressions/${encodeURIComponent(address)}`)).status === 404;

  /** Waits for so many reports about a message: each row is closed after the event of its bounce. */
  async function reportsOf(id: string, count: number): Promise<ReportRow[]> {
    for (;;) {
      const rows = await app.app.db.reader<ReportRow>('reports').where({ message_id: id });
      if (rows.length >= count) return rows;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  it('turns delivered into bounced by its delivery report, once, and suppresses the address', async () => {
    const { id } = await app.send({ to: 'gone@dest.test' });
    const events = await app.follow().of(id, 'bounced');
    assert.deepEqual(
      events.map(({ type }) => type),
      ['sent', 'delivered', 'bounced'],
    );
    const detail = events.at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual(
      ['class', 'reason', 'async', 'smtp_code', 'enhanced_code', 'suppression_added'].map((name) => detail[name]),
      ['hard', 'mailbox_not_found', true, 550, '5.1.1', true],
      JSON.stringify(detail),
    );
    assert.equal((await app.message(id)).status, 'bounced');
    assert.equal(await isUnsuppressed('gone@dest.test'), false);
    const [report] = await reportsOf(id, 1);
    assert.deepEqual([report?.sender, report?.kind, report?.state], ['', 'bounce', 'done']);
    assert.match(report?.raw.toString('latin1') ?? '', /Postfix/);
    // The same report again.
    const [envelopeTo = ''] = JSON.parse(report?.recipients_json ?? '[]') as string[];
    await handIn(app, '', envelopeTo, report?.raw.toString('latin1') ?? '');
    await reportsOf(id, 2);
    assert.deepEqual(await eventsOf(app, id), ['sent', 'delivered', 'bounced']);
  });

  it('keeps an address whose mailbox is full', async () => {
    const { id } = await app.send({ to: 'full@dest.test' });
    const detail = (await app.follow().of(id, 'bounced')).at(-1)?.data['bounced'] as Record<string, unknown>;
    assert.deepEqual([detail['class'], detail['reason'], detail['suppression_added']], ['soft', 'mailbox_full', false]);
    assert.ok(await isUnsuppressed('full@dest.test'));
  });

  it('lets mail be that Postfix hands on', async () => {
    const { id } = await app.send({ to: 'ana@dest.test' });
    await app.follow().of(id, 'delivered');
    while (!behind.sessions.some(({ mails }) => mails.some(({ to }) => to[0] === 'ana@dest.test')))
      await new Promise((resolve) => setImmediate(resolve));
    assert.equal((await app.message(id)).status, 'delivered');
  });
});

describe('journey: reports at awkward moments', () => {
  let server: FakeMailServer;
  let app: TestApp;

  const begin = async (message: 'hang' | 'drop' | 'usual'): Promise<void> => {
    const script = message === 'usual' ? {} : { message: { raw: '', then: message } as const };
    server = await startMailServer({ script, tls: 'none' });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
  };
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const session = (): ServerSession => server.sessions[0] ?? assert.fail('nobody came');
  /** As the remote knows it: from MAIL FROM. */
  const returnPath = (): string => {
    const [, address] =
      session()
        .lines.map((line) => /^MAIL FROM:<(b\+[^>]+)>/i.exec(line))
        .find((found) => found !== null) ?? [];
    return address ?? assert.fail(session().lines.join());
  };
  const bounces = async (id: string): Promise<void> => {
    const follower = app.follow();
    await handIn(app, '', returnPath(), dsn('ana@dest.test'));
    await follower.of(id, 'bounced');
  };

  it('a report before our own note of the delivery: bounced, and the 250 that follows changes nothing', async () => {
    await begin('hang');
    const { id } = await app.send();
    await server.reached('message');
    await bounces(id);
    session().say('250 2.0.0 taken\r\n');
    for (;;) {
      if ((await app.message(id)).attempts.length > 0) break;
      await new Promise((resolve) => setImmediate(resolve));
    }
    const message = await app.message(id);
    assert.deepEqual([message.status, message.attempts.map(({ outcome }) => outcome)], ['bounced', ['accepted']]);
    assert.deepEqual(await eventsOf(app, id), ['sent', 'bounced']);
    await app.balanced();
  });

  it('a report after a connection that died behind the final dot: bounced, and not tried again', async () => {
    await begin('drop');
    const { id } = await app.send();
    await app.follow().of(id, 'deferred');
    assert.equal((await app.message(id)).attempts[0]?.outcome, 'uncertain');
    await bounces(id);
    app.clock.advance(72 * 3_600_000);
    await app.settled();
    assert.equal((await app.message(id)).attempts.length, 1);
    assert.deepEqual(await eventsOf(app, id), ['sent', 'deferred', 'bounced']);
    await app.balanced();
  });

  it('a report to the return path that the domain had before: bounced; for others the host is not ours', async () => {
    await begin('usual');
    const { id } = await app.send();
    await app.follow().of(id, 'delivered');
    const path = returnPath();
    const [domain] = await app.app.db.reader<DomainRow>('domains').where({ name: 'acme.test' });
    await app.operator.ask('updateDomain', {
      params: { id: domain?.id ?? '' },
      body: { return_path: 'new.acme.test' },
    });
    await assert.rejects(handIn(app, '', 'b+1@rp.acme.test', dsn('ana@dest.test')), /550 5\.7\.1/);
    await assert.rejects(handIn(app, '', 'postmaster@rp.acme.test', dsn('ana@dest.test')), /550 5\.7\.1/);
    const follower = app.follow();
    await handIn(app, '', path, dsn('ana@dest.test'));
    await follower.of(id, 'bounced');
  });

  it('forged ones change nothing: a wrong token from anybody, or no report from a sender', async () => {
    await begin('usual');
    const { id } = await app.send();
    await app.follow().of(id, 'delivered');
    const path = returnPath();
    const wrong = path.replace(/.@/, (end) => (end.startsWith('0') ? '1@' : '0@'));
    for (const from of ['', 'mailer-daemon@mx.dest.test', 'eve@evil.test'])
      await assert.rejects(handIn(app, from, wrong, dsn('ana@dest.test')), /550 5\.1\.1/);
    for (const raw of [
      'From: eve@evil.test\r\nSubject: Undelivered\r\n\r\n<ana@dest.test>: 550 5.1.1 no such user',
      'From: eve@evil.test\r\nSubject: Re: Welcome\r\n\r\nThank you.',
    ])
      await handIn(app, 'eve@evil.test', path, raw);
    for (;;) {
      const rows = await app.app.db.reader<ReportRow>('reports').select('kind');
      if (rows.length === 2 && rows.every(({ kind }) => kind !== null)) break;
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal((await app.message(id)).status, 'delivered');
    assert.equal((await app.get('/v1/suppressions/ana%40dest.test')).status, 404);
    assert.deepEqual(await eventsOf(app, id), ['sent', 'delivered']);
  });
});
