/** Two nodes on one PostgreSQL send from sources of their own and from one that both use. */
import assert from 'node:assert/strict';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { arf, sendByHand } from '../support/harness/mail-back.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';

const domains = Array.from({ length: 12 }, (_, n) => `d${String(n)}.test`);

describe('journey: sources of two nodes', function () {
  this.timeout(60_000);
  let server: FakeMailServer;
  let one: TestApp;
  let two: TestApp;
  let running: TestApp[];

  before(function () {
    if (!isOnPostgres) this.skip('only PostgreSQL has several nodes');
  });
  beforeEach(async () => {
    server = await startMailServer();
    running = [];
  });
  afterEach(async () => {
    for (const app of running.splice(0).reverse()) await app.stop();
    await server.close();
  });

  async function start(sources: readonly object[]): Promise<void> {
    const common = { mailPort: server.port };
    const settings = (name: string) => ({ node: { name }, delivery: { sources } });
    one = await startTestApp({ ...common, settings: settings('one'), zones: zonesFor(...domains) });
    running.push(one);
    const { clock, resolver } = one;
    two = await startTestApp({ ...common, settings: settings('two'), clock, resolver, beside: one });
    running.push(two);
    await until(() => one.app.db.nodes?.hasOthers === true);
  }

  async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    const end = performance.now() + 30_000;
    while (!(await isSo())) {
      assert.ok(performance.now() < end, 'it did not come true');
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  const mails = () =>
    server.sessions.flatMap(({ from, mails: all }) => all.map((mail) => ({ ...mail, from, envelope: mail.from })));

  async function sendToAll(): Promise<void> {
    const before = mails().length;
    for (const domain of domains) await one.send({ to: `ana@${domain}` });
    await until(() => mails().length === before + domains.length);
  }

  it('each from its own, whichever of them has the domain of the recipient', async () => {
    await start([
      { name: 'out1', ipv4: '127.0.0.2', node: 'one' },
      { name: 'out2', ipv4: '127.0.0.3', node: 'two' },
    ]);
    await sendToAll();
    assert.deepEqual([...new Set(mails().map(({ from }) => from))].sort(), ['127.0.0.2', '127.0.0.3']);
    for (const node of running) {
      const sources = node.app.mta.sources.list().map(({ name }) => name);
      assert.deepEqual(sources, [node === one ? 'out1' : 'out2']);
      const used = node.logged.filter(({ event }) => event === 'attempt').map(({ source }) => source);
      assert.deepEqual([...new Set(used)], sources);
    }
    // When one ends the other one sends the mail of its domains from its own source.
    await one.app.stop();
    const sentFromTwo = (): number => mails().filter(({ from }) => from === '127.0.0.3').length;
    const before = sentFromTwo();
    for (const domain of domains) await two.send({ to: `ana@${domain}` }, { key: one.key });
    await until(() => sentFromTwo() === before + domains.length);
  });

  it('the warm-up of a source of both is counted together, and a complaint once, wherever it arrives', async () => {
    await start([{ name: 'shared', ipv4: '127.0.0.2', warmUp: true }]);
    await sendToAll();
    await sendToAll();
    const counts = async (): Promise<{ sent: number; complained: number }[]> =>
      one.app.db.prepared.all('SELECT SUM(sent) AS sent, SUM(complained) AS complained FROM warm_up');
    await until(async () => (await counts())[0]?.sent === 2 * domains.length);
    for (const node of running) {
      const copy = mails().find(({ to }) => to[0] === `ana@${domains[running.indexOf(node)] ?? ''}`);
      assert.ok(copy);
      const head = copy.data.slice(0, copy.data.indexOf('\r\n\r\n')).split('\r\n');
      const replies = await sendByHand(
        two.app.ports.mx ?? 0,
        'fbl@provider.test',
        'fbl@rp.acme.test',
        arf([`Return-Path: <${copy.envelope}>`, ...head]),
      );
      assert.match(replies.at(-1) ?? '', /^250 /);
    }
    await until(async () => Number((await counts())[0]?.complained) >= 2);
    // Each node looks at what the other one has counted.
    await until(() => {
      one.clock.advance(2000);
      const sums = running.map(({ app }) => app.mta.sources.list()[0]?.warmUp.reduce((sum, { sent }) => sum + sent, 0));
      return sums.every((sum) => sum === 2 * domains.length);
    });
    assert.deepEqual(await counts(), [{ sent: 2 * domains.length, complained: 2 }]);
  });
});
