import assert from 'node:assert/strict';
import { connectionKey, createTlsMemory, dial } from '../../../src/mta/connection/dial.ts';
import type { OpenResult } from '../../../src/mta/connection/open-session.ts';
import type { DialTarget } from '../../../src/mta/connection/dial.ts';
import { server as certificate } from '../../support/certificate.ts';
import { startMailServer } from '../../support/fake-mail-server.ts';
import type { FakeMailServer, MailServerOptions } from '../../support/fake-mail-server.ts';
import { openDeps, required, targetOf } from './helpers.ts';

describe('mta/connection/dial', () => {
  let server: FakeMailServer;
  const deps = { ...openDeps(), memory: createTlsMemory() };

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

  it('goes down to plaintext where TLS is broken, and remembers it for three days', async () => {
    await start(broken);
    const first = await dialOnce();
    assert.equal(first.kind === 'open' && first.session.tls, null);
    assert.equal(server.sessions.length, 3, 'full hello, reduced hello, plaintext');
    await dialOnce();
    assert.equal(server.sessions.length, 4);
    deps.clock.advance(3 * 86_400_000);
    await dialOnce();
    assert.equal(server.sessions.length, 7);
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

  it('keeps apart what must not share a connection', async () => {
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
