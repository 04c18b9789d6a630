import assert from 'node:assert/strict';
import { AddressMemory } from '../../../src/mta/connection/connect.ts';
import { connectionKey, createTlsMemory, dial } from '../../../src/mta/connection/dial.ts';
import { openSession, type OpenResult } from '../../../src/mta/connection/open-session.ts';
import type { DialTarget } from '../../../src/mta/connection/dial.ts';
import { server as certificate, testCa } from '../../support/harness/certificate.ts';
import { startMailServer } from '../../support/fakes/fake-mail-server.ts';
import type { FakeMailServer, MailServerOptions } from '../../support/fakes/fake-mail-server.ts';
import { openDeps, required, targetOf, timeouts } from './helpers.ts';

/** More than the 100 KiB that OpenSSL reads: the same certificate many times over. */
const hugeCertificate = (): { key: string; cert: string } => ({
  key: certificate.key,
  cert: certificate.cert + testCa.repeat(400),
});

describe('mta/connection/dial', () => {
  let server: FakeMailServer;
  let deps = { ...openDeps(), memory: createTlsMemory() };

  beforeEach(() => {
    deps = { ...openDeps(), memory: createTlsMemory() };
  });

  afterEach(async () => {
    await server.close();
  });

  async function start(options: MailServerOptions): Promise<FakeMailServer> {
    server = await startMailServer(options);
    return server;
  }

  async function dialOnce(changes: Partial<DialTarget> = {}): Promise<OpenResult> {
    const { hello: _hello, ...rest } = targetOf(server);
    const result = await dial(deps, { ...rest, ...changes });
    if (result.kind === 'open') await result.session.close();
    return result;
  }

  const broken: MailServerOptions = { tls: 'starttls', script: { starttls: { raw: '220 go\r\n', then: 'garbage' } } };

  it('goes down to plaintext where TLS is broken, and remembers it for 15 minutes only', async () => {
    // An alert: nothing that we offer will do.
    const unknown = { ...certificate, ciphers: 'ECDHE-RSA-AES128-GCM-SHA256', maxVersion: 'TLSv1.2' as const };
    await start({ tls: 'starttls', certificate: unknown });
    const first = await dialOnce();
    assert.equal(first.kind === 'open' && first.session.tls, null);
    assert.equal(server.sessions.length, 4, 'full hello, reduced hello, legacy hello, plaintext');
    await dialOnce();
    assert.equal(server.sessions.length, 5);
    deps.clock.advance(15 * 60_000);
    server.options = { tls: 'starttls', certificate };
    const later = await dialOnce();
    assert.ok(later.kind === 'open' && later.session.tls !== null, 'TLS is tried first again');
    assert.equal(server.sessions.length, 6);
  });

  it('forged resets buy plaintext for one delivery: the next one tries TLS first', async () => {
    const { memory } = deps;
    const warnings: string[] = [];
    memory.downgraded = (host, reason) => warnings.push(`${host} ${reason}`);
    for (const then of ['reset', 'drop'] as const) {
      await start({ tls: 'starttls', script: { starttls: { raw: '220 go\r\n', then } } });
      const first = await dialOnce();
      assert.equal(first.kind === 'open' && first.session.tls, null, 'the mail goes');
      server.options = { tls: 'starttls', certificate };
      const next = await dialOnce();
      assert.ok(next.kind === 'open' && next.session.tls !== null);
      assert.equal(server.sessions.length, 5);
      if (then === 'reset') await server.close();
    }
    assert.equal(warnings.length, 2);
    assert.match(warnings[0] ?? '', /^mx1\.dest\.test:\d+ ./);
  });

  it('speaks TLS 1.0 with who knows no more, where no policy asks for better', async () => {
    const old = {
      ...certificate,
      minVersion: 'TLSv1' as const,
      maxVersion: 'TLSv1' as const,
      ciphers: 'ALL:@SECLEVEL=0',
    };
    await start({ tls: 'starttls', certificate: old });
    const first = await dialOnce();
    assert.equal(first.kind === 'open' && first.session.tls?.protocol, 'TLSv1');
    await dialOnce();
    assert.equal(server.sessions.length, 4, 'the second connection begins with the hello that worked');
    const strict = await dialOnce({ need: required });
    assert.equal(strict.kind === 'failed' && strict.tlsUnsatisfied, true);
    // It has learnt: the ordinary hello is tried before plaintext.
    server.options = { tls: 'starttls', certificate: { ...certificate, minVersion: 'TLSv1.3' } };
    const renewed = await dialOnce();
    assert.equal(renewed.kind === 'open' && renewed.session.tls?.protocol, 'TLSv1.3');
    await dialOnce();
    const count = server.sessions.length;
    await dialOnce();
    assert.equal(server.sessions.length, count + 1, 'and is remembered');
  });

  it('forged resets buy legacy TLS for one connection: the next one begins with the usual hello', async () => {
    let resets = 2;
    await start({
      tls: 'starttls',
      certificate: { ...certificate, ciphers: 'ALL:@SECLEVEL=0' },
      script: { starttls: () => (resets-- > 0 ? { raw: '220 go\r\n', then: 'reset' } : '220 go') },
    });
    const first = await dialOnce();
    assert.ok(first.kind === 'open' && first.session.tls !== null);
    assert.equal(server.sessions.length, 3, 'the legacy hello was the third');
    const next = await dialOnce();
    assert.equal(next.kind === 'open' && next.session.tls?.protocol, 'TLSv1.3');
    assert.equal(server.sessions.length, 4);
  });

  it('does without a certificate that is too large to be read', async () => {
    const all = { ...hugeCertificate(), ciphers: 'ALL:@SECLEVEL=0', maxVersion: 'TLSv1.2' as const };
    await start({ tls: 'starttls', certificate: all });
    const found = await dialOnce();
    assert.ok(found.kind === 'open' && found.session.tls !== null);
    assert.match(found.session.tls.cipher, /anon/);
    assert.equal(found.session.tls.verified, false);
  });

  it('is content with the reduced hello where that works', async () => {
    const old = { ...certificate, maxVersion: 'TLSv1.2' as const };
    let times = 0;
    await start({
      tls: 'starttls',
      certificate: old,
      script: { starttls: () => (times++ === 0 ? { raw: '220 go\r\n', then: 'garbage' } : '220 go') },
    });
    const first = await dialOnce();
    assert.equal(first.kind === 'open' && first.session.tls?.protocol, 'TLSv1.2');
    const second = await dialOnce();
    assert.equal(second.kind, 'open');
    assert.equal(server.sessions.length, 3);
  });

  it('never goes down to plaintext against a policy', async () => {
    await start(broken);
    const failed = await dialOnce({ need: required });
    assert.equal(failed.kind === 'failed' && failed.tlsBroken, true);
    assert.equal(failed.kind === 'failed' && failed.tlsUnsatisfied, true, 'so the reason is `tls_required`');
    assert.equal(server.sessions.length, 2, 'neither a legacy hello nor plaintext');
    assert.equal(
      server.sessions.some((session) => session.lines.some((line) => line.startsWith('MAIL'))),
      false,
    );
    // Even after plaintext was found to work for others.
    await dialOnce();
    const again = await dialOnce({ need: required });
    assert.equal(again.kind, 'failed');
  });

  it('tries the next address when one cannot be connected to, but not after a refusal', async () => {
    await start({});
    const found = await dialOnce({ ips: ['127.0.0.9', '127.0.0.1'] });
    assert.deepEqual([found.kind, found.ip], ['open', '127.0.0.1']);
    server.options.script = { connect: '554 no' };
    const refused = await dialOnce({ ips: ['127.0.0.1', '127.0.0.9'] });
    assert.deepEqual([refused.kind, refused.ip], ['failed', '127.0.0.1']);
  });

  const offersTls = '250-mx.dest.test\r\n250 STARTTLS';
  const faults: [name: string, options: MailServerOptions, isRemembered: boolean][] = [
    ['hangs up at STARTTLS', { script: { starttls: 'drop' } }, false],
    ['resets at STARTTLS', { script: { starttls: 'reset' } }, false],
    ['wants a certificate of ours', { wantsClientCertificate: true }, true],
    [
      'hangs up behind the handshake',
      { script: { ehlo: (_line, session) => (session.tls === null ? offersTls : 'drop') } },
      false,
    ],
  ];
  for (const [name, options, isRemembered] of faults) {
    it(`bug: a host that ${name} was deferred until its mail expired: it gets plaintext`, async () => {
      await start({ tls: 'starttls', certificate, ...options });
      const first = await dialOnce();
      assert.ok(first.kind === 'open');
      assert.equal(first.session.tls, null);
      assert.equal(deps.memory.get(`mx1.dest.test:${String(server.port)}`, deps.clock.now()) === 'none', isRemembered);
    });

    it(`a host that ${name} gets nothing where a policy demands TLS`, async () => {
      await start({ tls: 'starttls', certificate, ...options });
      const failed = await dialOnce({ need: required });
      assert.equal(failed.kind === 'failed' && failed.tlsBroken && failed.tlsUnsatisfied, true);
      assert.equal(server.sessions.length, 2, 'the usual hello and the reduced one');
    });
  }

  it('says that the server sent a TLS alert behind the handshake, for the report', async () => {
    await start({
      tls: 'starttls',
      certificate: { ...certificate, minVersion: 'TLSv1.3' },
      wantsClientCertificate: true,
    });
    const { need: _need, hello: _hello, ...rest } = targetOf(server);
    const failed = await openSession(deps, { ...rest, need: required });
    assert.ok(failed.kind === 'failed');
    assert.deepEqual([failed.phase, failed.tlsBroken, failed.tlsCut], ['ehlo', true, undefined]);
    assert.match(failed.text, /^TLS failed: .*certificate required/);
  });

  it('bug: a host that never answers STARTTLS was deferred until its mail expired: it gets plaintext', async () => {
    await start({ tls: 'starttls', certificate, script: { starttls: 'hang' } });
    const silence = async (): Promise<void> => {
      while (deps.clock.nextAt() !== deps.clock.now() + timeouts.tls)
        await new Promise((resolve) => setImmediate(resolve));
      deps.clock.advance(timeouts.tls);
    };
    const strict = dialOnce({ need: required });
    await silence();
    const failed = await strict;
    assert.equal(failed.kind === 'failed' && failed.tlsBroken && failed.tlsUnsatisfied, true);
    assert.equal(server.sessions.length, 1, 'another hello would not be heard');
    const dialling = dialOnce();
    await silence();
    const first = await dialling;
    assert.equal(first.kind === 'open' && first.session.tls, null);
    assert.equal((await dialOnce()).kind, 'open', 'the next connection does not wait');
  });

  it('does not take silence behind the handshake for broken TLS', async () => {
    await start({
      tls: 'starttls',
      certificate,
      script: { ehlo: (_line, session) => (session.tls === null ? offersTls : 'hang') },
    });
    const dialling = dialOnce();
    await server.reached('ehlo', 2);
    while (deps.clock.nextAt() !== deps.clock.now() + timeouts.ehlo)
      await new Promise((resolve) => setImmediate(resolve));
    deps.clock.advance(timeouts.ehlo);
    const failed = await dialling;
    assert.deepEqual([failed.kind, failed.kind === 'failed' && failed.tlsBroken], ['failed', false]);
    assert.equal(server.sessions.length, 1);
  });

  it('bug: a silent address was the end of the dial', async () => {
    await start({ listen: { host: '127.0.0.2' }, script: { connect: 'hang' } });
    const healthy = await startMailServer({ listen: { port: server.port } });
    const dialling = dialOnce({ ips: ['127.0.0.2', '127.0.0.1'] });
    await server.reached('connect');
    while (deps.clock.nextAt() !== deps.clock.now() + timeouts.bannerWithOthers)
      await new Promise((resolve) => setImmediate(resolve));
    deps.clock.advance(timeouts.bannerWithOthers);
    const found = await dialling;
    assert.deepEqual([found.kind, found.ip], ['open', '127.0.0.1']);
    await healthy.close();
  });

  it('begins with the other addresses after one gave no session', async () => {
    await start({ listen: { host: '127.0.0.2' }, script: { connect: 'drop' } });
    const healthy = await startMailServer({ listen: { port: server.port } });
    const withMemory = { ...deps, addresses: new AddressMemory() };
    const { hello: _hello, ...rest } = targetOf(server);
    for (let time = 0; time < 2; time++) {
      const found = await dial(withMemory, { ...rest, ips: ['127.0.0.2', '127.0.0.1'] });
      assert.ok(found.kind === 'open');
      await found.session.close();
    }
    assert.deepEqual([server.sessions.length, healthy.sessions.length], [1, 2]);
    await healthy.close();
  });

  it('bug: an address whose TLS is broken was the end of the dial where a policy demands it', async () => {
    await start({ ...broken, listen: { host: '127.0.0.2' } });
    const healthy = await startMailServer({ tls: 'starttls', certificate, listen: { port: server.port } });
    const found = await dialOnce({ need: required, ips: ['127.0.0.2', '127.0.0.1'] });
    assert.deepEqual([found.kind, found.ip], ['open', '127.0.0.1']);
    await healthy.close();
  });

  it('tries four addresses at most, and none when the time of the attempt is over', async () => {
    const ips = [2, 3, 4, 5, 6, 7].map((last) => `127.0.0.${String(last)}`);
    await start({ listen: { host: '0.0.0.0' }, script: { connect: 'drop' } });
    const failed = await dialOnce({ ips });
    assert.deepEqual([failed.kind, failed.ip, server.sessions.length], ['failed', '127.0.0.5', 4]);
    await dialOnce({ ips, deadline: deps.clock.monotonic() });
    assert.equal(server.sessions.length, 5);
  });

  it('gives different keys to needs that must not share a connection', async () => {
    await start({});
    const target = targetOf(server);
    const keys = [
      target,
      { ...target, host: 'mx2.dest.test' },
      { ...target, port: 1 },
      { ...target, localAddresses: ['127.0.0.2'] },
      { ...target, need: required },
      { ...target, auth: { user: 'a', password: 'b' } },
    ].map(connectionKey);
    assert.equal(new Set(keys).size, keys.length);
  });
});
