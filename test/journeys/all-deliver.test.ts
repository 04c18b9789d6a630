/** Two nodes on one PostgreSQL deliver at the same time: each domain's mail goes through one of them, and through the other when that one ends. */
import assert from 'node:assert/strict';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { hasWorkingOthers, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';

const domains = Array.from({ length: 24 }, (_, n) => `d${String(n)}.test`);

describe('journey: all nodes deliver', () => {
  let server: FakeMailServer;
  let one: TestApp;
  let two: TestApp;
  let running: TestApp[];

  before(function () {
    if (!isOnPostgres) this.skip('only PostgreSQL has several nodes');
  });
  beforeEach(async () => {
    server = await startMailServer();
    const common = { mailPort: server.port };
    one = await startTestApp({ ...common, settings: { node: { name: 'one' } }, zones: zonesFor(...domains) });
    running = [one];
    const { clock, resolver } = one;
    two = await startTestApp({ ...common, settings: { node: { name: 'two' } }, clock, resolver, beside: one });
    running.push(two);
    await until(() => hasWorkingOthers(one));
  });
  afterEach(async () => {
    for (const app of running.splice(0).reverse()) await app.stop();
    await server.close();
  });

  async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    const end = performance.now() + 240_000;
    while (!(await isSo())) {
      assert.ok(performance.now() < end, 'it did not come true');
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  const recipients = (): string[] =>
    server.sessions.flatMap(({ mails }) => mails.flatMap(({ to, data }) => (data === '' ? [] : to)));
  /** Sends one mail to each domain, at both nodes in turn. */
  async function sendToAll(): Promise<void> {
    for (const [n, domain] of domains.entries()) {
      const { status } = await (n % 2 === 0 ? one : two).request('POST', '/v1/messages', {
        from: 'hi@acme.test',
        to: `ana@${domain}`,
        subject: 'Hello',
        text: 'Hello.',
      });
      assert.equal(status, 202);
    }
  }
  const deliveredAt = ({ app }: TestApp): string[] =>
    domains.filter((domain) => app.mta.reports.lane(app.mta.reports.laneOf(domain)) !== null);

  it('each the mail of its own domains, wherever it was accepted', async () => {
    await sendToAll();
    await until(() => recipients().length === domains.length);
    assert.equal(new Set(recipients()).size, domains.length, 'none twice');
    const [first, second] = [deliveredAt(one), deliveredAt(two)];
    assert.ok(first.length >= 4 && second.length >= 4, `${first.join()} and ${second.join()}`);
    assert.deepEqual([...first, ...second].sort(), [...domains].sort(), 'no domain at both');
  });

  it('what one has begun to wait with goes on at the other when it drains, and when it ends', async () => {
    const greylisted = new Set<string>();
    server.options.script = {
      rcpt(line) {
        if (greylisted.has(line)) return '250 2.1.5 Ok';
        greylisted.add(line);
        return '451 4.7.1 Greylisted, come back later';
      },
    };
    await sendToAll();
    await until(() => greylisted.size === domains.length);
    // An attempt that ended after the time has passed below would begin its wait only then.
    await one.settled();
    const { nodes } = one.app.db;
    assert.ok(nodes);
    await nodes.setDraining(nodes.epoch, true);
    await until(() => two.app.db.nodes?.list().some(({ isDraining }) => isDraining) === true);
    one.clock.advance(120_000);
    await until(() => recipients().length === domains.length);
    assert.equal(new Set(recipients()).size, domains.length, 'none twice');
    assert.deepEqual(deliveredAt(two).sort(), [...domains].sort());
    await sendToAll();
    await one.app.stop();
    await until(() => two.app.db.nodes?.isLeader === true);
    await until(() => recipients().length === 2 * domains.length);
  });

  it('but not one without the role: it accepts, and does not lead while another one may', async () => {
    const three = await startTestApp({
      mailPort: server.port,
      settings: { node: { name: 'three', roles: [] } },
      clock: one.clock,
      resolver: one.resolver,
      beside: one,
    });
    running.push(three);
    await one.app.stop();
    await two.app.stop();
    await until(() => three.app.db.nodes?.hasOthers === false);
    const { key } = one;
    const mail = { from: 'hi@acme.test', to: 'ana@d0.test', subject: 'Hello', text: 'Hello.' };
    const { status } = await three.request('POST', '/v1/messages', mail, { key });
    assert.equal(status, 202);
    // No other node is there to do the chores.
    assert.equal(three.app.db.nodes?.isLeader, true);
    const { data } = await three.operator.call('doctor', { checks: ['nodes'] });
    assert.ok(data.some(({ why }) => why.startsWith('no node delivers')));
    assert.deepEqual(recipients(), []);
  });

  it('the leader takes back what a node that ended had begun', async () => {
    await sendToAll();
    await until(() => recipients().length === domains.length);
    const [row] = await one.app.db.prepared.all<{ id: string }>('SELECT id FROM deliveries ORDER BY id LIMIT 1');
    const ended = (one.app.db.nodes?.epoch ?? 0) + 1000;
    const lease = one.clock.now() + 3_600_000;
    await one.app.db.commit.transact((tx) =>
      tx.run("UPDATE deliveries SET status = 'sent', claim_epoch = ?, due_at = ?, attempt_count = 1 WHERE id = ?", [
        ended,
        lease,
        row?.id ?? '',
      ]),
    );
    one.clock.advance(30_000);
    await until(async () => {
      const [now] = await one.app.db.prepared.all<{ claim_epoch: number | null; due_at: number }>(
        'SELECT claim_epoch, due_at FROM deliveries WHERE id = ?',
        [row?.id ?? ''],
      );
      return now?.claim_epoch === null;
    });
    one.clock.advance(120_000);
    await until(() => recipients().length === domains.length + 1);
  });
});
