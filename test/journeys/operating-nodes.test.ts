/** Operating several nodes on one PostgreSQL: what each has in memory is joined at any of them, and nodes are taken out of service. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { CreatedKey } from '../../src/client/types.ts';
import { Problem } from '../../src/base/problem.ts';
import { openDatabase, type Database } from '../../src/storage/database.ts';
import { hasWorkingOthers, newFolder, startTestApp, type TestApp } from '../support/harness/app.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';
import { signedIn, type Browser } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';
import { smtpClient } from '../support/harness/smtp-client.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';

/** Domains of one site, of which each node has some. */
const domains = Array.from({ length: 8 }, (_, n) => `d${String(n)}.test`);
const zones = Object.fromEntries([
  ...[...domains, 'held.test'].map((domain) => [`${domain} MX`, ['10 mx.shared.test']]),
  ['mx.shared.test A', ['127.0.0.1']],
]) as Record<string, string[]>;
const LANE = 'mx.shared.test';

describe('journey: operating several nodes', () => {
  let server: FakeMailServer;
  let one: TestApp;
  let two: TestApp;
  let key: string;
  let url: string;
  /** An administrator at the node two. */
  let browser: Browser;
  const folders: string[] = [];

  async function start(name: string, first?: TestApp): Promise<TestApp> {
    const folder = newFolder();
    folders.push(folder);
    return await startTestApp({
      folder,
      mailPort: server.port,
      ...(first === undefined ? { zones } : { clock: first.clock, resolver: first.resolver }),
      settings: { storage: { url }, node: { name }, metrics: { token: 'secret-of-the-figures' } },
    });
  }

  /** Joins a node that delivers nothing and answers no question. */
  async function startMute(takenOver: () => void = () => undefined): Promise<Database> {
    const node = { name: 'three', version: 'none', facts: JSON.stringify({ roles: [] }) };
    const database = await openDatabase({ url, node, takenOver });
    await until(() => [one, two].every(({ app }) => app.db.nodes?.list().some(({ name }) => name === 'three')));
    return database;
  }

  async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await isSo())) await new Promise((resolve) => setImmediate(resolve));
  }

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    url = urlOf(folder, await makeDatabase());
    server = await startMailServer();
    one = await start('one');
    two = await start('two', one);
    await until(() => hasWorkingOthers(one));
    const body = { name: 'k', scopes: ['send', 'message:read'] };
    ({ key } = await one.operator.ask<CreatedKey>('createKey', { body }));
    await one.operator.ask('createDomain', { body: { name: 'acme.test', trusted: true } });
    browser = await signedIn(two.url, two.operator);
  });
  after(async () => {
    if (postgresPrograms() === null) return;
    await two.stop();
    await one.stop();
    await server.close();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });

  const refused = (work: Promise<unknown>, code: string, says: RegExp): Promise<void> =>
    assert.rejects(work, (error) => error instanceof Problem && error.code === code && says.test(error.message));
  const audited = (operation: string): Promise<{ result: string; summary: string; actor: string }[]> =>
    two.app.db.prepared.all('SELECT result, summary, actor FROM audit WHERE operation = ? ORDER BY id', [operation]);
  /** Sends one mail to each domain of the site. */
  const sendToAll = (): Promise<{ id: string }[]> =>
    Promise.all(domains.map((domain, n) => (n % 2 === 0 ? one : two).send({ to: `ana@${domain}` }, { key })));

  it('lists them at each node: all deliver, and one leads', async () => {
    for (const [asked, name] of [
      [one, 'one'],
      [two, 'two'],
    ] as const) {
      const { data } = await asked.operator.call('nodes.list', {});
      assert.deepEqual(
        data.map((node) => [node.name, node.state, node.leads, node.delivers, node.this]),
        [
          ['one', 'leading', true, true, name === 'one'],
          ['two', 'running', false, true, name === 'two'],
        ],
      );
    }
  });

  it('a hold that is set at one node is in force at both, once in the audit, and each says why the mail waits', async () => {
    const hold = await two.operator.call('queue.hold', { domain: 'held.test', new: true, note: 'ticket 7' });
    assert.equal(hold.target, 'held.test');
    for (const node of [one, two])
      assert.deepEqual(
        (await node.operator.call('queue.holds', {})).data.map(({ id }) => id),
        [hold.id],
      );
    assert.deepEqual(await audited('queue.hold'), [
      { result: 'ok', summary: 'held the domain held.test', actor: 'operator' },
    ]);
    const { id } = await two.send({ to: 'ana@held.test' }, { key });
    await one.held(id);
    for (const node of [one, two]) {
      // The other node hears of the hold by a message.
      await until(async () => (await node.why(id)).reason === 'held');
      const answer = await node.get<{ recipients: { reason: string }[] }>(`/v1/messages/${id}/why`, { key });
      assert.equal(answer.body.recipients[0]?.reason, 'held', answer.text);
      const { data } = await node.operator.call('needs', { account: 'default' });
      assert.ok(data.some(({ message }) => message.startsWith('The operator holds the domain held.test (ticket 7).')));
    }
  });

  it('a limit at one node replaces that of the other', async () => {
    await one.operator.call('queue.limit', { lane: LANE, connections: 7 });
    await two.operator.call('queue.limit', { lane: LANE, connections: 6 });
    const { data } = await one.operator.call('queue.holds', {});
    assert.deepEqual(
      data.flatMap(({ kind, connections }) => (kind === 'limit' ? [connections] : [])),
      [6],
    );
    await one.operator.call('queue.limit', { lane: LANE });
    assert.deepEqual(
      (await two.operator.call('queue.holds', {})).data.map(({ kind }) => kind),
      ['hold'],
    );
  });

  it('joins lanes and lines of both nodes, has them try mail now, and passes on what is refused', async () => {
    server.options.script = { rcpt: '451 4.3.0 come back later' };
    const { watch } = await two.operator.call('queue.watch', { lane: LANE });
    const sent = await sendToAll();
    await one.settled();
    server.options.script = {};
    const lanes = (node: TestApp) => node.operator.call('queue.lanes', {});
    let [atOne, atTwo] = await Promise.all([lanes(one), lanes(two)]);
    // A worker ends a little after its outcome can be read, and nodes show their figures every two seconds.
    await until(async () => {
      one.clock.advance(2_000);
      [atOne, atTwo] = await Promise.all([lanes(one), lanes(two)]);
      return isDeepStrictEqual(atTwo, atOne) && atOne.data[0]?.nodes.length === 2;
    });
    const lane = atOne.data.find(({ name }) => name === LANE);
    assert.deepEqual(lane?.nodes, ['one', 'two']);
    assert.equal(lane.waiting_in_all, domains.length + 1, 'and the mail that is held');
    assert.ok(domains.every((name) => atOne.domains.some(({ domain, lane: of }) => domain === name && of === LANE)));
    const resolved = await Promise.all(domains.map((domain) => two.operator.call('resolve', { domain })));
    assert.ok(resolved.every((one_) => one_.lane === LANE));
    assert.deepEqual([...new Set(resolved.map(({ node }) => node))].sort(), ['one', 'two'], 'asked of the owner');
    for (const { id } of sent) assert.equal((await one.why(id)).reason, 'waiting_for_retry');

    assert.deepEqual(await two.operator.call('queue.flush', { lane: LANE }), {
      flushed: domains.length,
      domains_unknown: 0,
    });
    await one.settled();
    for (const { id } of sent)
      assert.equal((await two.get<{ status: string }>(`/v1/messages/${id}`, { key })).body.status, 'delivered');
    const said = new Set<string>();
    let page = await one.operator.call('queue.watch', { watch });
    await until(async () => {
      one.clock.advance(2_000);
      page = await one.operator.call('queue.watch', { watch });
      for (const { node, text } of page.data) if (text.startsWith('RCPT TO:<ana@')) said.add(node);
      return said.size === 2;
    });
    assert.deepEqual(page.nodes, ['one', 'two']);
    await until(async () => {
      one.clock.advance(2_000);
      const { position } = page;
      page = await two.operator.call('queue.watch', { watch, after: position });
      return page.data.length === 0;
    });
    await refused(two.operator.call('queue.watch', { watch, after: 'x' }), 'invalid_field', /not the position/);
    await refused(two.operator.call('queue.watch', { watch: 99 }), 'not_found', /the watch has ended/);
  });

  it('has a lane of both nodes as one, and acts that are refused in the audit', async () => {
    await two.operator.call('queue.limit', { lane: LANE, per_minute: 600 });
    const { lane, nodes } = await one.operator.call('queue.lane', { lane: LANE });
    assert.deepEqual(lane.nodes, ['one', 'two']);
    assert.deepEqual(
      nodes.map(({ node }) => node),
      ['one', 'two'],
    );
    await one.operator.call('queue.limit', { lane: LANE });
    const { data } = await two.operator.call('queue.sources', {});
    assert.deepEqual(
      data.map(({ node, name }) => [node, name]),
      [
        ['one', null],
        ['two', null],
      ],
    );
    await refused(one.operator.call('queue.lane', { lane: 'mx.none.test' }), 'not_found', /there is no lane/);
    await refused(two.operator.call('queue.unblock', { source: 'none' }), 'not_found', /there is no source "none"/);
    await refused(two.operator.call('queue.release', {}), 'invalid_field', /./);
    await refused(two.operator.call('queue.hold', { domain: '' }), 'invalid_field', /./);
    assert.deepEqual(
      [...(await audited('queue.unblock')), ...(await audited('queue.release'))].map(({ result }) => result),
      ['refused', 'refused'],
    );
  });

  it('drains a node: 503 for balancers, 421 for new sessions, and requests are still answered', async () => {
    const drained = await two.operator.call('nodes.drain', { node: 'two' });
    assert.deepEqual([drained.state, drained.delivers], ['draining', false]);
    const ready = await two.get<{ status: string }>('/readyz');
    assert.deepEqual([ready.status, ready.body.status], [503, 'draining']);
    assert.equal((await one.get('/readyz')).status, 200);
    const { mx } = two.app.ports;
    assert.ok(mx !== null);
    const client = smtpClient(mx);
    assert.match(await client.reply(), /^421 4\.3\.2 /);
    client.end();
    await two.send({ to: 'ana@d0.test' }, { key });
    await one.settled();
    // The other node hears of it by a message.
    await until(() => one.app.db.nodes?.list().find(({ name }) => name === 'two')?.isDraining === true);
    const { data } = await one.operator.call('doctor', { checks: ['nodes'] });
    assert.ok(data.some(({ status, why }) => status === 'warning' && why.startsWith('the node two is drained')));
    // Bug: where all nodes were drained the list said that none of them delivers.
    const last = await one.operator.call('nodes.drain', { node: 'one' });
    assert.deepEqual([last.state, last.delivers], ['draining', true]);
    const { data: all } = await one.operator.call('nodes.list', {});
    assert.deepEqual(
      all.map(({ delivers }) => delivers),
      [true, true],
    );
    const { id } = await one.send({ to: 'ben@d1.test' }, { key });
    await Promise.all([one.settled(), two.settled()]);
    assert.equal((await one.get<{ status: string }>(`/v1/messages/${id}`, { key })).body.status, 'delivered');
    assert.equal((await one.operator.call('nodes.resume', { node: 'one' })).delivers, true);
    assert.equal((await one.operator.call('nodes.resume', { node: 'two' })).state, 'running');
    while ((await two.get('/readyz')).status !== 200) await new Promise((resolve) => setImmediate(resolve));
  });

  it('has a page that drains and resumes nodes, and pages of lanes that name theirs', async () => {
    const { html } = await browser.open('/settings/nodes');
    assert.deepEqual(htmlFaults(html), []);
    assert.match(html, /<strong>one<\/strong>.*leading</);
    assert.match(html, /<strong>two<\/strong> <span class="dim">this one<\/span>.*running</);
    const queue = (await browser.open('/queue')).html;
    assert.deepEqual(htmlFaults(queue), []);
    assert.match(queue, /<small>one, two</);
    const lane = (await browser.open(`/queue/lane?name=${LANE}`)).html;
    assert.deepEqual(htmlFaults(lane), []);
    assert.match(lane, /At each node.*class="lead">one.*class="lead">two/s);
    assert.match((await browser.open('/settings/sources')).html, /data-l="node">one.*data-l="node">two/s);
    await browser.open('/settings/nodes');
    const drained = await browser.submit('/settings/nodes/drain', { node: 'one' });
    assert.match(
      drained.html,
      /one is drained: the other nodes deliver its mail.* It goes on doing the chores until it is stopped\./,
    );
    assert.match(drained.html, /draining</);
    assert.match((await browser.submit('/settings/nodes/resume', { node: 'one' })).html, /one is in service again/);
    const lives = await browser.submit('/settings/nodes/remove', { node: 'one' });
    assert.equal(lives.status, 409);
    assert.match(lives.html, /The node one lives/);
    assert.equal((await browser.submit('/settings/nodes/drain', { node: '<b>' })).status, 404);
  });

  it('has the figures of the books at the leader only, the bounces of both nodes among them', async () => {
    server.options.script = { rcpt: '550 5.1.1 no such user' };
    await sendToAll();
    await one.settled();
    server.options.script = {};
    one.clock.advance(60_000);
    const read = async (node: TestApp): Promise<string> => {
      const headers = { authorization: 'Bearer secret-of-the-figures' };
      return await (await fetch(new URL('/metrics', node.url), { headers })).text();
    };
    const [atOne, atTwo] = await Promise.all([read(one), read(two)]);
    for (const [text, leads] of [
      [atOne, 1],
      [atTwo, 0],
    ] as const) {
      assert.match(text, /^posthorn_nodes 2$/m);
      assert.match(text, new RegExp(`^posthorn_node_leads ${String(leads)}$`, 'm'));
      assert.match(text, /^posthorn_node_sign_of_life_age_seconds\{node="two"\} \d/m);
      assert.equal(/^posthorn_accepted_total \d/m.test(text), leads === 1);
      assert.equal(/^posthorn_queue_total_depth /m.test(text), leads === 1);
      const hard = /^posthorn_bounced_total\{class="hard"\} (\d+)$/m.exec(text)?.[1];
      assert.equal(hard, leads === 1 ? String(domains.length) : undefined);
      assert.match(text, /^posthorn_attempts_total\{outcome="refused"\} [1-9]/m, 'each has refused some of them');
    }
  });

  it('removes no node that lives without force, and not the one that is asked', async () => {
    await refused(two.operator.call('nodes.remove', { node: 'one' }), 'invalid_state', /the node one lives/);
    await refused(one.operator.call('nodes.remove', { node: 'one', force: true }), 'invalid_state', /stop it instead/);
    await refused(one.operator.call('nodes.drain', { node: 'four' }), 'not_found', /there is no node "four"/);
  });

  it('removes one by force, whose writes fail from then on', async () => {
    let takenOver = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      takenOver = resolve;
    });
    const three = await startMute(takenOver);
    const { name } = await two.operator.call('nodes.remove', { node: 'three', force: true });
    assert.equal(name, 'three');
    await assert.rejects(three.commit.transact((tx) => tx.run("DELETE FROM settings WHERE name = 'none'")));
    await ended;
    await three.close();
    assert.deepEqual(
      (await two.operator.call('nodes.list', {})).data.map((node) => node.name),
      ['one', 'two'],
    );
    assert.deepEqual(
      (await audited('nodes.remove')).map(({ summary }) => summary),
      [
        'removed the node one (refused: invalid_state)',
        'removed the node one (refused: invalid_state)',
        'removed the node one (refused: invalid_state)',
        'removed the node three',
      ],
    );
  });

  it('a removed node says that it was removed, also where lines of its audit log still wait', async () => {
    const four = await start('four', one);
    await until(() => two.app.db.nodes?.list().some(({ name }) => name === 'four') === true);
    // Lines of reads are written 100 ms later by the clock, which stands still.
    assert.equal((await four.get('/v1/messages', { key })).status, 200);
    await two.operator.call('nodes.remove', { node: 'four', force: true });
    const body = { from: 'hi@acme.test', to: 'ana@refused.test', subject: 'Hello', text: 'Hello.' };
    assert.equal((await four.request('POST', '/v1/messages', body, { key })).status, 503);
    assert.match((await four.app.failed).message, /another node has removed this one/);
    await four.stop();
  });
});
