import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { newFolder, startTestApp, zonesFor } from '../support/harness/app.ts';
import type { SeenMessage } from '../support/harness/app.ts';
import { startMailServer } from '../support/fakes/fake-mail-server.ts';

describe('mta/mta: a stop in the middle of deliveries', () => {
  it('ends what has not come to its final dot after 30 s and waits 60 s for the answers to dots', async () => {
    const server = await startMailServer({
      script: {
        mail: (line) => (line.includes('rp.acme.test') ? '250 ok' : '550 who?'),
        rcpt: (line) => (line.includes('@stuck.test') ? 'hang' : '250 ok'),
        message: { raw: '' },
      },
    });
    const folder = newFolder();
    const domains = ['stuck.test', 'slow.test', 'silent.test'];
    const before = await startTestApp({ folder, mailPort: server.port, zones: zonesFor(...domains) });
    const { clock, resolver } = before;
    const ids = new Map<string, string>();
    for (const domain of domains) ids.set(domain, (await before.send({ to: `ana@${domain}` })).id);
    await server.reached('message', 2);
    await server.reached('rcpt', 3);
    const sessionOf = (domain: string) =>
      server.sessions.find(({ lines }) => lines.some((line) => line.includes(`@${domain}`)));

    let hasStopped = false;
    const isPatient = clock.armed(60_000);
    const stopping = before.stop().then(() => (hasStopped = true));
    await isPatient;
    clock.advance(29_999);
    const stuck = sessionOf('stuck.test');
    let isClosed = false;
    void stuck?.closed.then(() => (isClosed = true));
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([isClosed, hasStopped], [false, false]);
    clock.advance(1);
    await stuck?.closed;

    sessionOf('slow.test')?.say('250 2.0.0 taken at last\r\n');
    await sessionOf('slow.test')?.closed.catch(() => undefined);
    clock.advance(29_999);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(hasStopped, false);
    clock.advance(1);
    await stopping;
    await server.close();

    const after = await startTestApp({ folder, clock, resolver, mailPort: 1 });
    const end = async (domain: string): Promise<string[]> => {
      const { status, attempts }: SeenMessage = await after.message(ids.get(domain) ?? '');
      // The result of an attempt of the new start does not matter: with its jitter a retry may be due by now.
      const [first] = attempts;
      return [status, `${first?.outcome ?? 'none'}: ${first?.smtp_reply ?? ''}`];
    };
    assert.deepEqual(await end('stuck.test'), ['deferred', 'deferred: rcpt: given up: the program stops']);
    assert.deepEqual(await end('slow.test'), ['delivered', 'accepted: 2.0.0 taken at last']);
    assert.deepEqual(await end('silent.test'), ['deferred', 'uncertain: dot: given up: the program stops']);
    await after.stop();
    rmSync(folder, { recursive: true });
  });
});
