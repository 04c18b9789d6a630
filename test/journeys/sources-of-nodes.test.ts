/** Two nodes on one PostgreSQL send from sources of their own and from one that both use. */
import assert from 'node:assert/strict';
import { ran } from '../cli/ran.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { hasWorkingOthers, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { signedIn } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';
import { arf, sendByHand } from '../support/harness/mail-back.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';

const domains = Array.from({ length: 12 }, (_, n) => `d${String(n)}.test`);

describe('journey: sources of two nodes', () => {
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
    await until(() => hasWorkingOthers(one));
  }

  async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isSo())) await new Promise((resolve) => setImmediate(resolve));
  }

  const mails = () =>
    server.sessions.flatMap(({ from, mails: all }) => all.map((mail) => ({ ...mail, from, envelope: mail.from })));

  async function sendToAll(): Promise<void> {
    const before = mails().length;
    for (const domain of domains) await one.send({ to: `ana@${domain}` });
    await until(() => mails().length === before + domains.length);
    // The receiver has a mail before its sender has noted the attempt.
    await one.settled();
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
    // Until the others know of a node that has just started, it holds such mail.
    await one.send({ to: `ana@${domains[0] ?? ''}` });
    await until(async () => {
      one.clock.advance(500);
      await Promise.all(running.map(({ app }) => app.db.prepared.all('SELECT 1')));
      return mails().length === 1;
    });
    await one.settled();
    await sendToAll();
    await sendToAll();
    const sent = 1 + 2 * domains.length;
    const counts = async (): Promise<{ sent: number; complained: number }[]> =>
      one.app.db.prepared.all('SELECT SUM(sent) AS sent, SUM(complained) AS complained FROM limit_counts');
    await until(async () => (await counts())[0]?.sent === sent);
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
    await until(async () => {
      one.clock.advance(2000);
      // Both read on the connection of this query: without it, midnight, at which the counts begin again, would come before a slow answer.
      await Promise.all(running.map(({ app }) => app.db.prepared.all('SELECT 1')));
      const sums = running.map(({ app }) => app.mta.sources.list()[0]?.warmUp.reduce((sum, { sent }) => sum + sent, 0));
      return sums.every((sum) => sum === sent);
    });
    assert.deepEqual(await counts(), [{ sent, complained: 2 }]);
  });

  it('lists no address as in use at a node that does not deliver', async () => {
    const app = await startTestApp({ settings: { node: { name: 'door', roles: ['chores'] } } });
    running.push(app);
    assert.deepEqual((await app.operator.call('queue.sources', {})).data, []);
    const { code, out } = await ran(['queue', 'sources'], { POSTHORN_DATA_DIR: app.folder });
    assert.equal(code, 0);
    assert.match(
      out,
      /^no node delivers mail now: each that runs lacks the role delivery \(node\.roles\) or is drained$/m,
    );
    const { html } = await (await signedIn(app.url, app.operator)).open('/settings/sources');
    assert.deepEqual(htmlFaults(html), []);
    assert.match(html, /No node delivers mail now: /);
    assert.doesNotMatch(html, /Mail leaves from the address/);
  });

  it('lists the address of a drained node as one that nothing is sent from', async () => {
    await start([]);
    await two.operator.call('nodes.drain', { node: 'two' });
    await until(() => one.app.db.nodes?.list().some(({ isDraining }) => isDraining) === true);
    const listed = async () => (await one.operator.call('queue.sources', {})).data;
    // Nodes show each other their addresses every two seconds.
    await until(async () => {
      for (const { clock } of [one, two]) clock.advance(2000);
      return (await listed()).length === 2;
    });
    assert.deepEqual(
      (await listed()).map(({ node, name, delivers }) => [node, name, delivers]),
      [
        ['one', null, true],
        ['two', null, false],
      ],
    );
    const { out } = await ran(['queue', 'sources'], { POSTHORN_DATA_DIR: one.folder });
    assert.match(out, /one .* in use\n.* two .* its node does not deliver$/);
    const { html } = await (await signedIn(one.url, one.operator)).open('/settings/sources');
    assert.deepEqual(htmlFaults(html), []);
    assert.match(html, /data-l="node">two.*<span class="dim">its node does not deliver<\/span>/s);
    assert.match(html, /Mail leaves from the address/);
    await two.operator.call('nodes.resume', { node: 'two' });
  });
});
