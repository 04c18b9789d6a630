import assert from 'node:assert/strict';
import { createTlsMemory } from '../../src/mta/connection/dial.ts';
import { Pool } from '../../src/mta/connection/pool.ts';
import { createTlsClient } from '../../src/mta/connection/tls.ts';
import { connectToSite, deliver, type SourceContext } from '../../src/mta/attempt/deliver.ts';
import type { AttemptFrame } from '../../src/mta/attempt/outcome.ts';
import type { Ready } from '../../src/mta/prepare/prepare.ts';
import type { Site } from '../../src/mta/sites/sites.ts';
import type { Outcome } from '../../src/messages/delivery/delivery.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { startMailServer, type FakeMailServer, type Script } from '../support/fakes/fake-mail-server.ts';
import { timeouts } from './connection/helpers.ts';

describe('mta/attempt/deliver: the other address family', () => {
  const clock = new FakeClock();
  let pool: Pool;
  let six: FakeMailServer;
  let four: FakeMailServer;
  beforeEach(async () => {
    pool = new Pool({ clock });
    [six, four] = await startBoth();
  });
  afterEach(async () => {
    await Promise.all([pool.drain(), six.close(), four.close()]);
  });

  /** Starts a server at each address, both on one port. Another program may use the port of the first at the second address. */
  async function startBoth(): Promise<[FakeMailServer, FakeMailServer]> {
    for (;;) {
      const first = await startMailServer({ listen: { host: '::1' } });
      try {
        return [first, await startMailServer({ listen: { port: first.port } })];
      } catch (error) {
        await first.close();
        if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
      }
    }
  }

  async function send(families: readonly (4 | 6)[] = [6, 4]): Promise<Outcome> {
    const data = Buffer.from('Subject: hi\r\n\r\nhello\r\n');
    const deps: SourceContext = {
      clock,
      pool,
      timeouts,
      deadline: Infinity,
      tls: createTlsClient(),
      memory: createTlsMemory(),
      hostname: 'mail.posthorn.test',
    };
    const addresses = families.map((family) => ({ ip: family === 6 ? '::1' : '127.0.0.1', family }));
    const site: Site = {
      kind: 'site',
      name: 'dest',
      relay: null,
      hosts: [{ name: 'mx.dest.test', port: six.port, addresses }],
    };
    const mail: Ready = {
      kind: 'ready',
      messageId: 'msg_1',
      requestId: null,
      stream: 'default',
      envelopeFrom: 'b+x@rp.acme.test',
      recipient: 'ana@dest.test',
      data: [data],
      size: data.length,
      smtpUtf8: false,
      eightBit: false,
      test: false,
      testOutcome: null,
    };
    const frameAt = (endedAt: number): AttemptFrame => ({ startedAt: 0, endedAt, retryAt: 1, viaRelay: false });
    const reached = await connectToSite(deps, site, mail);
    assert.ok(reached.kind === 'reached');
    const tried = await deliver(deps, { site, mail, frameAt }, reached.connection);
    assert.ok(tried.kind === 'tried');
    return tried.outcome;
  }

  const no: Script = { rcpt: '550 5.7.1 no PTR for your IPv6 address' };
  const rows: [script: Script, families: readonly (4 | 6)[], outcome: string, ip: string, why: string][] = [
    [no, [6, 4], 'accepted', '127.0.0.1', 'a refusal for policy goes once to IPv4'],
    [{ connect: '554 5.7.1 not from there' }, [6, 4], 'accepted', '127.0.0.1', 'a refusal in the banner too'],
    [no, [6], 'refused', '::1', 'only where there is another family'],
    [{ rcpt: '550 5.1.1 no such user' }, [6, 4], 'refused', '::1', 'not for other refusals'],
    [{ rcpt: '550 no' }, [6, 4], 'refused', '::1', 'not without an enhanced code'],
  ];
  for (const [script, families, kind, ip, why] of rows) {
    it(`${kind}: ${why}`, async () => {
      six.options.script = script;
      const outcome = await send(families);
      assert.deepEqual([outcome.kind, outcome.facts.ip], [kind, ip]);
      assert.equal(four.sessions.length, kind === 'accepted' ? 1 : 0);
    });
  }

  it('keeps the first answer where the other family cannot be reached', async () => {
    six.options.script = no;
    await four.close();
    const outcome = await send();
    assert.deepEqual([outcome.kind, outcome.facts.ip], ['refused', '::1']);
    four = await startMailServer();
  });

  it('bug: greylisting over IPv4 behind a host that refuses IPv6 bounced at the second attempt', async () => {
    six.options.script = no;
    four.options.script = { rcpt: '451 4.7.1 Greylisted, try again later' };
    const first = await send();
    assert.deepEqual([first.kind, first.facts.ip], ['deferred', '127.0.0.1']);
    clock.advance(60_000);
    four.options.script = {};
    const second = await send();
    assert.deepEqual([second.kind, second.facts.ip], ['accepted', '127.0.0.1']);
  });

  it('bug: a refusal over one family bounced while the other only said "not now"', async () => {
    six.options.script = no;
    four.options.script = { connect: '421 4.3.2 too busy' };
    const outcome = await send();
    assert.deepEqual([outcome.kind, outcome.facts.ip], ['deferred', '::1']);
  });

  it('does not go back and forth', async () => {
    six.options.script = no;
    four.options.script = no;
    const outcome = await send();
    assert.deepEqual([outcome.kind, outcome.facts.ip], ['refused', '127.0.0.1']);
    assert.deepEqual([six.sessions.length, four.sessions.length], [1, 1]);
  });
});
