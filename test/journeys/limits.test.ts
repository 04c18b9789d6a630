/** Limits over the whole program: mail goes by the source that is let in, a block costs hardly a mail, and `why` is true. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import {
  startMailServer,
  type FakeMailServer,
  type Script,
  type ServerSession,
} from '../support/fakes/fake-mail-server.ts';
import { copyData, newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

const sources = [
  { name: 'shut', ipv4: '127.0.0.2', ehlo: 'one.posthorn.test' },
  { name: 'open', ipv4: '127.0.0.3', ehlo: 'two.posthorn.test' },
  { name: 'other', ipv4: '127.0.0.4', pool: 'news' },
];
const MAILS = 60;

describe('journey: limits', () => {
  let server: FakeMailServer;
  let app: TestApp;
  const folders: string[] = [];
  afterEach(async () => {
    await app.stop();
    await server.close();
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
  });

  async function start(script: Script, list: readonly object[]): Promise<void> {
    server = await startMailServer({ script });
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { delivery: { sources: list } },
    });
  }
  /** Goes on with a copy of the data as it is now, which is what a power cut leaves. */
  async function restart(): Promise<void> {
    const { config, clock, folder: before } = app;
    const folder = newFolder();
    folders.push(folder);
    await copyData(before, folder);
    await app.stop();
    const settings = { delivery: { sources: config.delivery.sources } };
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test'), settings, folder, clock });
  }
  const count = async (status: string): Promise<number> => {
    const [row] = await app.app.db.prepared.all<{ n: number }>(
      'SELECT COUNT(*) AS n FROM deliveries WHERE status = ?',
      [status],
    );
    return Number(row?.n);
  };
  /** Lets time pass in steps, in which everything that was begun comes to its end, until it is enough. */
  async function pass(
    ms: number,
    stepMs: number,
    isEnough: () => Promise<boolean> = () => Promise.resolve(false),
  ): Promise<void> {
    for (let left = ms; left > 0 && !(await isEnough()); left -= stepMs) {
      for (let turn = 0; turn < 20; turn++) {
        await app.app.db.commit.transact(() => Promise.resolve());
        await new Promise((resolve) => setImmediate(resolve));
      }
      app.clock.advance(stepMs);
    }
  }
  const isShut = ({ from }: { from: string }): boolean => from === '127.0.0.2';
  const from = (session: ServerSession, words: string, well: string): string => (isShut(session) ? words : well);

  const receivers: Readonly<Record<string, Script>> = {
    '554 at the greeting': {
      connect: (_, session) => from(session, '554 IP=127.0.0.2 - A problem occurred. Ask your postmaster.', '220 mx'),
    },
    'a rate that takes nothing': {
      rcpt: (_, session) => from(session, '450 4.7.1 You are sending too many messages per hour', '250 2.1.5 ok'),
    },
    'deferred for complaints': {
      mail: (_, session) => from(session, '421 4.7.0 [TSS04] Messages from 127.0.0.2 temporarily deferred', '250 ok'),
    },
    'a block list': {
      rcpt: (_, session) => from(session, '550 5.7.1 [127.0.0.2] is blocked using a block list', '250 2.1.5 ok'),
    },
  };
  for (const [name, script] of Object.entries(receivers))
    it(`goes by the source that is let in, all of it, where the other one meets: ${name}`, async () => {
      await start(script, sources);
      const recipients = Array.from({ length: MAILS }, (_, at) => ({ to: `u${String(at)}@dest.test` }));
      const body = { from: 'hi@acme.test', subject: 'Hello', text: 'Hello.', recipients };
      assert.equal((await app.request('POST', '/v1/messages', body)).status, 202);
      await pass(150_000, 1_000, async () => (await count('delivered')) === MAILS);
      assert.equal(await count('delivered'), MAILS);
      await app.balanced();
    });

  it('says of a mail whose only source is shut what it waits for, while the mail of another pool goes', async () => {
    const words = '550 5.7.1 [127.0.0.4] is blocked using a block list';
    await start({ rcpt: (_, session) => (session.from === '127.0.0.4' ? words : '250 2.1.5 ok') }, sources);
    const stream = { slug: 'letters', name: 'letters', type: 'broadcast', pool: 'news' };
    assert.equal((await app.request('POST', '/v1/streams', stream)).status, 201);
    const first = await app.send({ stream: 'letters' });
    await app.follow().of(first.id, 'bounced');
    const { id } = await app.send({ stream: 'letters' });
    await app.follow().of((await app.send()).id, 'delivered');
    const { reason, message, until } = await app.why(id);
    assert.equal(reason, 'receiver_refuses_us');
    assert.match(message, /from other refuses mail from this address, which is on a block list: ".*is blocked/);
    assert.notEqual(until, null);
  });

  for (const [name, words, most] of [
    ['a block list', '550 5.7.1 [127.0.0.1] is blocked using a block list', 1],
    ['our authentication', '550 5.7.26 This mail was blocked because the sender is unauthenticated', 5],
  ] as const)
    it(`loses ${String(most)} mails at most in ten hours, with three restarts and more mail after each: ${name}`, async () => {
      await start({ message: () => words }, []);
      for (let part = 0; part < 4; part++) {
        if (part > 0) await restart();
        for (let at = 0; at < 20; at++) await app.send({ to: `u${String(part)}-${String(at)}@dest.test` });
        await pass(2.5 * 3_600_000, 60_000);
      }
      assert.deepEqual([await count('bounced'), await count('delivered')], [most, 0]);
      await app.balanced();
    });
});
