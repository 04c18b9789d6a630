/** MTA-STS (RFC 8461) over the whole program, with a web server that serves policies and a mail host with real TLS. */
import assert from 'node:assert/strict';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { server as otherCertificate, stsServer } from '../support/harness/certificate.ts';
import { startMailServer, type FakeMailServer, type MailServerOptions } from '../support/fakes/fake-mail-server.ts';
import {
  copyData,
  newFolder,
  startTestApp,
  zonesFor,
  type TestApp,
  type TestAppOptions,
} from '../support/harness/app.ts';

const DAY = 86_400_000;
const RECORD = { '_mta-sts.dest.test TXT': ['v=STSv1; id=1'], 'mta-sts.dest.test A': ['127.0.0.1'] };
const policyOf = (mode: string, mx = 'mx.dest.test', maxAge = 7 * 86_400): string =>
  `version: STSv1\r\nmode: ${mode}\r\nmx: ${mx}\r\nmax_age: ${String(maxAge)}\r\n`;

describe('journey: MTA-STS', () => {
  let web: https.Server;
  let mail: FakeMailServer;
  let app: TestApp;
  let asked: string[];
  let isHanging: boolean;
  let reply: { status: number; type: string; body: string; headers?: Record<string, string> };

  beforeEach(async () => {
    asked = [];
    isHanging = false;
    reply = { status: 200, type: 'text/plain; charset=utf-8', body: policyOf('enforce') };
    web = https.createServer(stsServer, (request, response) => {
      asked.push(`${request.headers.host ?? ''}${request.url ?? ''}`);
      if (isHanging) return;
      response.writeHead(reply.status, { 'content-type': reply.type, ...reply.headers });
      response.end(reply.body);
    });
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  });
  afterEach(async () => {
    await app.stop();
    await mail.close();
    web.closeAllConnections();
    await new Promise((resolve) => web.close(resolve));
  });

  async function start(options: MailServerOptions = {}, more: TestAppOptions = {}): Promise<void> {
    mail = await startMailServer({ tls: 'starttls', certificate: stsServer, ...options });
    app = await startTestApp({
      mailPort: mail.port,
      zones: { ...zonesFor('dest.test'), ...RECORD },
      ca: stsServer.cert,
      stsPort: (web.address() as AddressInfo).port,
      ...more,
    });
  }
  /** Until real sockets have brought it about. */
  async function until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise((resolve) => setImmediate(resolve));
  }
  const attemptOf = async (id: string) => {
    const [attempt] = await app.app.db.prepared.all<{
      tls_json: string | null;
      reason: string | null;
      smtp_reply: string;
    }>('SELECT tls_json, reason, smtp_reply FROM attempts WHERE message_id = ? ORDER BY id DESC', [id]);
    assert.ok(attempt);
    return {
      ...attempt,
      tls: attempt.tls_json === null ? null : (JSON.parse(attempt.tls_json) as Record<string, unknown>),
    };
  };
  async function sent(end: string): Promise<Awaited<ReturnType<typeof attemptOf>>> {
    const { id } = await app.send();
    await app.follow().of(id, end);
    return attemptOf(id);
  }

  it('enforces: verified TLS to a host the policy names, fetched once', async () => {
    await start();
    const { tls } = await sent('delivered');
    assert.deepEqual([tls?.['verified'], tls?.['policy']], [true, 'mta-sts']);
    await sent('delivered');
    assert.deepEqual(asked, ['mta-sts.dest.test/.well-known/mta-sts.txt']);
    const resolved = await app.operator.call('resolve', { domain: 'dest.test' });
    assert.deepEqual(resolved.sts, { mode: 'enforce', mx: ['mx.dest.test'], max_age: 604_800 });
    assert.deepEqual(
      resolved.hosts.map(({ name, tls: need, policy }) => [name, need, policy]),
      [['mx.dest.test', 'required, verified', 'mta-sts']],
    );
  });

  for (const [reason, options, body] of [
    ['no TLS at all', { tls: 'none' }, policyOf('enforce')],
    ['a certificate of another name', { certificate: otherCertificate }, policyOf('enforce')],
    ['a broken handshake', { script: { starttls: { raw: '220 go\r\n', then: 'garbage' } } }, policyOf('enforce')],
    ['a host that the policy does not name', {}, policyOf('enforce', '*.other.test')],
  ] as const) {
    it(`enforces: sends nothing over ${reason}, and says so`, async () => {
      reply.body = body;
      await start(options);
      const attempt = await sent('deferred');
      assert.deepEqual(
        mail.sessions.flatMap(({ mails }) => mails),
        [],
      );
      assert.equal(attempt.reason, 'tls_required');
    });

    it(`tests: sends over ${reason} all the same`, async () => {
      reply.body = body.replace('enforce', 'testing');
      await start(options);
      await sent('delivered');
    });
  }

  for (const [reason, change] of [
    ['a redirect', { status: 301, headers: { location: 'https://mta-sts.dest.test/elsewhere' } }],
    ['another type', { type: 'text/html' }],
    ['an error', { status: 500 }],
    ['too much', { body: policyOf('enforce') + 'x: y\r\n'.repeat(20_000) }],
    ['no policy', { body: 'hello' }],
  ] as const) {
    it(`goes without a policy where the web server gives ${reason}, and does not ask again at once`, async () => {
      Object.assign(reply, change);
      await start({ tls: 'none' });
      await sent('delivered');
      app.clock.advance(60_000);
      await sent('delivered');
      assert.equal(asked.length, 1);
      assert.ok(app.logged.some(({ event }) => event === 'sts_policy_failed'));
    });
  }

  it('is not talked out of a policy it knows: not by a missing record, a dead web server or a restart', async () => {
    await start();
    await sent('delivered');
    const folder = newFolder();
    await copyData(app.folder, folder);
    const { clock } = app;
    await app.stop();
    await mail.close();
    reply.status = 500;
    clock.advance(2 * DAY);
    await start({ tls: 'none' }, { folder, clock, zones: zonesFor('dest.test') });
    assert.match((await sent('deferred')).reason ?? '', /tls_required/);
    clock.advance(6 * DAY);
    await sent('delivered');
    assert.equal(asked.length, 1, 'the policy ended by itself');
  });

  it('takes a new policy when the record changes, and obeys `none`', async () => {
    await start();
    await sent('delivered');
    app.resolver.zones = { ...app.resolver.zones, '_mta-sts.dest.test TXT': ['v=STSv1; id=2'] };
    reply.body = policyOf('none');
    app.clock.advance(3_600_000);
    await sent('delivered');
    await until(() => app.logged.filter(({ event }) => event === 'sts_policy').length === 2);
    const { tls } = await sent('delivered');
    assert.equal(tls?.['policy'], 'opportunistic');
    assert.equal(asked.length, 2);
  });

  it('uses a policy that it knows at once, also while its refresh hangs', async () => {
    await start();
    await sent('delivered');
    app.resolver.zones = { ...app.resolver.zones, '_mta-sts.dest.test TXT': ['v=STSv1; id=2'] };
    isHanging = true;
    // The clock stands still, so nothing here is owed to a time limit.
    app.clock.advance(2 * DAY);
    const { tls } = await sent('delivered');
    assert.deepEqual([tls?.['verified'], tls?.['policy']], [true, 'mta-sts']);
    await until(() => asked.length === 2);
    app.clock.advance(20_000);
    await until(() => app.logged.some(({ event }) => event === 'sts_policy_failed'));
  });

  for (const [reason, addresses] of [
    ['the first address is dead', { 'mta-sts.dest.test A': ['127.0.0.9', '127.0.0.1'] }],
    ['only IPv6 leads to it', { 'mta-sts.dest.test A': [], 'mta-sts.dest.test AAAA': ['::1'] }],
  ] as const)
    it(`has the policy where ${reason}`, async function () {
      web.close();
      await new Promise<void>((resolve) =>
        web.listen(0, '::', resolve).once('error', () => {
          this.skip('this machine has no IPv6');
        }),
      );
      await start({ certificate: otherCertificate }, { zones: { ...zonesFor('dest.test'), ...RECORD, ...addresses } });
      assert.equal((await sent('deferred')).reason, 'tls_required', 'and obeys it');
      assert.equal(asked.length, 1);
    });

  it('does not look where it is switched off, and asks no private address', async () => {
    await start({}, { settings: { delivery: { mtaSts: false } } });
    assert.equal((await sent('delivered')).tls?.['policy'], 'opportunistic');
    assert.deepEqual(asked, []);
  });

  it("obeys the operator's word before any policy", async () => {
    await start({ certificate: otherCertificate }, { settings: { delivery: { tls: { 'dest.test': 'required' } } } });
    const { tls } = await sent('delivered');
    assert.deepEqual([tls?.['verified'], tls?.['policy']], [false, 'operator']);
  });

  it('warns when a host that offered TLS does so no more, over a restart', async () => {
    await start({}, { settings: { delivery: { mtaSts: false } } });
    await sent('delivered');
    // The policy of the host is saved apart from the delivery, which does not wait for it.
    for (;;) {
      const hosts = await app.app.db.prepared.all('SELECT host FROM host_tls WHERE offered_at IS NOT NULL');
      if (hosts.length > 0) break;
    }
    const folder = newFolder();
    await copyData(app.folder, folder);
    const { clock } = app;
    const { port } = mail;
    await app.stop();
    await mail.close();
    await start({ tls: 'none', listen: { port } }, { folder, clock, settings: { delivery: { mtaSts: false } } });
    await sent('delivered');
    await sent('delivered');
    const warnings = app.logged.filter(({ event }) => event === 'tls_downgrade');
    assert.deepEqual(
      warnings.map(({ host, level }) => [host, level]),
      [[`mx.dest.test:${String(port)}`, 'warn']],
    );
  });
});
