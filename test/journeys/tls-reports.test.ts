/** TLS reports (RFC 8460) over the whole program: sessions are counted, and the day after their domains hear of them. */
import assert from 'node:assert/strict';
import { X509Certificate, createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import {
  copyData,
  newFolder,
  startTestApp,
  zonesFor,
  type TestApp,
  type TestAppOptions,
} from '../support/harness/app.ts';
import { server as certificate, stsServer, testCa } from '../support/harness/certificate.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const settings = { smtp: { operatorAddress: 'ops@acme.test' } };

interface Report {
  'organization-name': string;
  'contact-info': string;
  'date-range': Record<string, string>;
  policies: {
    policy: Record<string, unknown>;
    summary: Record<string, number>;
    'failure-details'?: Record<string, unknown>[];
  }[];
}

describe('journey: TLS reports', () => {
  let mail: FakeMailServer;
  let app: TestApp;
  const zones = {
    ...zonesFor('dest.test', 'rpt.test'),
    '_smtp._tls.dest.test TXT': ['v=TLSRPTv1; rua=mailto:tls@rpt.test'],
  };

  async function start(more: TestAppOptions = {}): Promise<void> {
    mail = await startMailServer({ tls: 'none' });
    app = await startTestApp({ mailPort: mail.port, zones, settings, ...more });
  }
  afterEach(async () => {
    await app.stop();
    await mail.close();
  });

  const rows = <Row>(sql: string): Promise<Row[]> => app.app.db.prepared.all<Row & object>(sql);
  /** Lets time pass, a minute at a time, until `holds` returns true. Days without a report to send pass by the hour. */
  async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
    const latest = app.clock.now() + 40 * HOUR_MS;
    while (!(await holds())) {
      assert.ok(app.clock.now() < latest, 'it did not happen in 40 hours');
      await sentReports();
      // Reports are sent from midnight on.
      const untilMidnight = DAY_MS - (app.clock.now() % DAY_MS);
      app.clock.advance(untilMidnight > HOUR_MS && (await states()).length === 0 ? HOUR_MS : 60_000);
    }
  }
  /**
   * Waits until the step of housekeeping that the clock has started has ended, and with it the report that it sends: the clock must not
   * run on, since it also ends connections that take too long.
   */
  async function sentReports(): Promise<void> {
    // A step reads and writes at most six times before the report is marked `sending`.
    do {
      for (let time = 0; time < 6; time++) await app.app.db.commit.transact((tx) => tx.all('SELECT 1'));
      await app.settled();
    } while (await isSending());
  }
  const isSending = async (): Promise<boolean> => (await states()).some(({ state }) => state === 'sending');
  const mailsTo = (address: string): string[] =>
    mail.sessions.flatMap(({ mails }) =>
      mails.filter(({ to, data }) => to.includes(address) && data !== '').map(({ data }) => data),
    );
  async function sent(to = 'ana@dest.test'): Promise<void> {
    const { id } = await app.send({ to });
    await app.follow().of(id, 'delivered');
  }
  const states = (): Promise<{ domain: string; state: string }[]> =>
    rows('SELECT domain, state FROM tls_reports ORDER BY domain');

  it('sends a mail about the day before, once, over a restart', async () => {
    await start();
    await sent();
    await sent('ana@rpt.test');
    const isReported = () => mailsTo('tls@rpt.test').length > 0;
    await until(isReported);
    const [data = ''] = mailsTo('tls@rpt.test');
    assert.match(data, /^From: <ops@acme\.test>\r$/m);
    assert.match(
      data.replace(/\r\n\s+/g, ''),
      /^DKIM-Signature: .*h=[^;]*TLS-Report-Domain: ?TLS-Report-Domain: ?TLS-Report-Submitter/m,
    );
    assert.match(data, /filename="acme\.test!dest\.test!\d+!\d+!001\.json\.gz"/);
    const part = /application\/tlsrpt\+gzip[\s\S]*?\r\n\r\n([A-Za-z0-9+/=\r\n]+)\r\n--/.exec(data)?.[1] ?? '';
    const report = JSON.parse(gunzipSync(Buffer.from(part, 'base64')).toString('utf8')) as Report;
    assert.deepEqual([report['organization-name'], report['contact-info']], ['mail.posthorn.test', 'ops@acme.test']);
    const [policy, ...others] = report.policies;
    assert.equal(others.length, 0);
    assert.deepEqual(policy?.policy, { 'policy-type': 'no-policy-found', 'policy-domain': 'dest.test' });
    assert.deepEqual(policy.summary, { 'total-successful-session-count': 0, 'total-failure-session-count': 1 });
    const [detail] = policy['failure-details'] ?? [];
    assert.deepEqual(
      [
        detail?.['result-type'],
        detail?.['receiving-mx-hostname'],
        detail?.['receiving-ip'],
        detail?.['sending-mta-ip'],
      ],
      ['starttls-not-supported', 'mx.dest.test', '127.0.0.1', '127.0.0.1'],
    );
    await until(async () => (await states()).every(({ state }) => state !== 'planned' && state !== 'sending'));
    assert.deepEqual(await states(), [
      { domain: 'dest.test', state: 'sent' },
      { domain: 'rpt.test', state: 'unwanted' },
    ]);
    // A copy taken while its delivery is on the way would rightly send that again, and one taken while housekeeping writes may be torn.
    await sentReports();
    const folder = newFolder();
    await copyData(app.folder, folder);
    const { clock } = app;
    await app.stop();
    app = await startTestApp({ mailPort: mail.port, zones, settings, folder, clock });
    for (let minute = 0; minute < 120; minute++) {
      clock.advance(60_000);
      await sentReports();
    }
    assert.equal(mailsTo('tls@rpt.test').length, 1);
  });

  it('posts it where the domain says https, and tries again when that fails', async () => {
    const posted: { type: string; body: Buffer }[] = [];
    let status = 500;
    const web = https.createServer(stsServer, (request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        posted.push({ type: request.headers['content-type'] ?? '', body: Buffer.concat(parts) });
        response.writeHead(status).end();
      });
    });
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
    const url = `https://mta-sts.dest.test:${String((web.address() as AddressInfo).port)}/reports`;
    await start({
      ca: stsServer.cert,
      zones: {
        ...zonesFor('dest.test'),
        '_smtp._tls.dest.test TXT': [`v=TLSRPTv1; rua=${url}`],
        'mta-sts.dest.test A': ['127.0.0.1'],
      },
      settings: { ...settings, webhooks: { allowCidrs: ['127.0.0.0/8'] } },
    });
    await sent();
    await until(() => posted.length === 1);
    status = 201;
    await until(() => posted.length === 2);
    await until(async () => (await states()).every(({ state }) => state === 'sent'));
    assert.equal(posted[1]?.type, 'application/tlsrpt+gzip');
    const report = JSON.parse(gunzipSync(posted[1].body).toString('utf8')) as Report;
    assert.equal(report.policies[0]?.summary['total-failure-session-count'], 1);
    web.closeAllConnections();
    await new Promise((resolve) => web.close(resolve));
  });

  it('counts no reports: one mail to a domain that reports to itself makes one report, and no more', async () => {
    await start({ zones: { ...zones, '_smtp._tls.dest.test TXT': ['v=TLSRPTv1; rua=mailto:tls@dest.test'] } });
    await sent();
    await until(() => mailsTo('tls@dest.test').length === 1);
    for (let hour = 0; hour < 4 * 24; hour++) {
      app.clock.advance(3_600_000);
      await sentReports();
    }
    assert.equal(mailsTo('tls@dest.test').length, 1);
    assert.deepEqual(await rows('SELECT DISTINCT day FROM tls_reports'), [{ day: '2026-01-31' }]);
  });

  it('sends to two addresses, and again only to the one that failed', async () => {
    await start({
      zones: {
        ...zones,
        '_smtp._tls.dest.test TXT': ['v=TLSRPTv1; rua=mailto:tls@rpt.test,https://127.0.0.1:1/reports'],
      },
      settings: { ...settings, webhooks: { allowCidrs: ['127.0.0.0/8'] } },
    });
    await sent();
    const triesOf = () =>
      rows<{ tries: number; state: string; detail: string }>('SELECT tries, state, detail FROM tls_reports');
    await until(async () => (await triesOf())[0]?.tries === 1);
    await until(() => mailsTo('tls@rpt.test').length === 1);
    assert.match((await triesOf())[0]?.detail ?? '', /^https:\/\/127/);
    await app.app.db.commit.transact((tx) =>
      tx.run('UPDATE tls_reports SET tries = 23, due_at = ?', [app.clock.now()]),
    );
    await until(async () => (await triesOf())[0]?.state === 'sent');
    assert.match((await triesOf())[0]?.detail ?? '', /^not sent to https:/);
    assert.equal(mailsTo('tls@rpt.test').length, 1);
    assert.ok(app.logged.some(({ event }) => event === 'tls_report_failed'));
  });

  it('has an entry for each mail host with TLSA records, under the name where they stand', async () => {
    const resolver = new FakeResolver({
      ...zonesFor('rpt.test'),
      'dest.test MX': ['10 mx1.dest.test', '20 mx2.dest.test'],
      'mx1.dest.test A': ['127.0.0.1'],
      'mx2.dest.test CNAME': ['real.dest.test'],
      'real.dest.test A': ['127.0.0.1'],
      '_25._tcp.mx1.dest.test TLSA': [`3 1 1 ${'ab'.repeat(32)}`],
      '_25._tcp.real.dest.test TLSA': [
        `2 0 1 ${createHash('sha256').update(new X509Certificate(testCa).raw).digest('hex')}`,
      ],
      '_smtp._tls.dest.test TXT': ['v=TLSRPTv1; rua=mailto:tls@rpt.test'],
    });
    for (const name of [
      'dest.test',
      'mx1.dest.test',
      'mx2.dest.test',
      'real.dest.test',
      '_25._tcp.mx1.dest.test',
      '_25._tcp.real.dest.test',
    ])
      resolver.secure.add(name);
    mail = await startMailServer({ tls: 'starttls', certificate: { ...certificate, cert: certificate.cert + testCa } });
    app = await startTestApp({
      mailPort: mail.port,
      resolver,
      settings: { ...settings, delivery: { dnssecResolver: true, mtaSts: false } },
    });
    await sent();
    await until(() => mailsTo('tls@rpt.test').length === 1);
    const part =
      /application\/tlsrpt\+gzip[\s\S]*?\r\n\r\n([A-Za-z0-9+/=\r\n]+)\r\n--/.exec(
        mailsTo('tls@rpt.test')[0] ?? '',
      )?.[1] ?? '';
    const report = JSON.parse(gunzipSync(Buffer.from(part, 'base64')).toString('utf8')) as Report;
    const entries = report.policies.map(({ policy, summary }) => [
      policy['policy-domain'],
      policy['mx-host'],
      summary['total-successful-session-count'],
      summary['total-failure-session-count'],
    ]);
    assert.deepEqual(entries, [
      ['mx1.dest.test', ['mx1.dest.test'], 0, 1],
      ['real.dest.test', ['mx2.dest.test'], 1, 0],
    ]);
  });

  it('does not count without an address to report from, nor where it is switched off', async () => {
    for (const off of [{}, { ...settings, delivery: { tlsReports: false } }]) {
      await start({ settings: off });
      await sent();
      app.clock.advance(61_000);
      assert.deepEqual(await rows('SELECT * FROM tls_sessions'), []);
      await app.stop();
      await mail.close();
    }
    await start();
  });

  it('writes counts at the stop, one row for what came out alike', async () => {
    const folder = newFolder();
    await start({ folder });
    await sent();
    app.clock.advance(30_000);
    await sent();
    const { clock } = app;
    await app.stop();
    app = await startTestApp({ mailPort: mail.port, zones, settings, clock, folder });
    const counted = await rows<{ domain: string; result: string; sessions: number }>(
      'SELECT domain, result, sessions FROM tls_sessions',
    );
    assert.deepEqual(counted, [{ domain: 'dest.test', result: 'starttls-not-supported', sessions: 2 }]);
    rmSync(folder, { recursive: true, force: true });
  });
});
