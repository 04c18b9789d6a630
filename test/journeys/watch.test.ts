/** The operator watches what is said on the wire, over the whole program. */
import assert from 'node:assert/strict';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { server as certificate, testCa } from '../support/harness/certificate.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';

describe('journey: watch', () => {
  let server: FakeMailServer;
  let app: TestApp;
  beforeEach(async () => {
    server = await startMailServer({ tls: 'starttls', certificate });
    const smarthost = { host: '127.0.0.1', port: server.port, tls: 'required', user: 'us', password: 'hidden-secret' };
    server.options.extensions = ['PIPELINING', 'AUTH PLAIN'];
    app = await startTestApp({
      mailPort: server.port,
      ca: testCa,
      zones: zonesFor('dest.test'),
      settings: { delivery: { routes: { 'relayed.test': smarthost } } },
    });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });
  const watch = (args: object) => app.operator.call('queue.watch', args);

  it('sees the dialogue of a lane, with the message by its size alone', async () => {
    const begun = await watch({ lane: 'mx.dest.test' });
    assert.deepEqual([begun.data, begun.nodes.length], [[], 1]);
    const { id } = await app.send({ text: 'nobody-reads-this' });
    await app.follow().of(id, 'delivered');
    const page = await watch({ watch: begun.watch });
    const said = page.data.map(({ side, text }) => `${side} ${text}`);
    for (const part of [
      '> (connected to 127.0.0.1:',
      '< 220 mx.dest.test ESMTP',
      '> EHLO mail.posthorn.test',
      '> STARTTLS',
      '> (TLS: TLSv1.3',
      '> MAIL FROM:<',
      '> RCPT TO:<ana@dest.test>',
      '> DATA',
      '< 354 go ahead',
      ' octets of message)',
      '< 250 2.0.0 taken',
    ])
      assert.ok(
        said.some((line) => line.includes(part)),
        `${part} in ${said.join('\n')}`,
      );
    assert.equal(said.join().includes('nobody-reads-this'), false);
    assert.ok(page.data.every((line) => line.message_id === id && line.lane === 'mx.dest.test'));
    // The connection is warm by now: the next mail is seen from MAIL on.
    const next = await app.send();
    await app.follow().of(next.id, 'delivered');
    const later = await watch({ watch: begun.watch, after: page.position });
    assert.match(String(later.data[0]?.text), /^MAIL FROM/);
  });

  it('sees one message, and never a password', async () => {
    const sent = await app.send({ to: 'x@relayed.test', send_at: new Date(app.clock.now() + 30_000).toISOString() });
    const begun = await watch({ message_id: sent.id });
    app.clock.advance(30_000);
    await app.follow().of(sent.id, 'delivered');
    const page = await watch({ watch: begun.watch });
    const said = page.data.map(({ text }) => text).join('\n');
    assert.match(said, /AUTH PLAIN \*\*\*/);
    assert.equal(said.includes(Buffer.from('\0us\0hidden-secret').toString('base64')), false);
    assert.equal(said.includes('hidden-secret'), false);
  });

  it('wants one thing to watch, and a watch that is known', async () => {
    await assert.rejects(watch({}), /name one thing to watch: a lane or a message$/);
    await assert.rejects(watch({ lane: 'x', message_id: 'y' }), /name one thing to watch: a lane or a message$/);
    await assert.rejects(watch({ watch: 99 }), /the watch has ended/);
    await assert.rejects(watch({ watch: 1, wait_ms: 31_000 }), /30000|30,000/);
  });
});
