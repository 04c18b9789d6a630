/** Operating several nodes on one PostgreSQL: what only the leader knows is asked for at any node, and nodes are taken out of service. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import type { CreatedKey } from '../../src/client/types.ts';
import { Problem } from '../../src/base/problem.ts';
import { openDatabase, type Database } from '../../src/storage/database.ts';
import { newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';
import { signedIn } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';
import { smtpClient } from '../support/harness/smtp-client.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';

describe('journey: operating several nodes', function () {
  this.timeout(60_000);
  let server: FakeMailServer;
  let one: TestApp;
  let two: TestApp;
  let key: string;
  /** A node that does nothing. */
  let three: Database;
  let takenOver = (): void => undefined;
  const folders: string[] = [];

  async function start(name: string, url: string): Promise<TestApp> {
    const folder = newFolder();
    folders.push(folder);
    return await startTestApp({
      folder,
      mailPort: server.port,
      zones: zonesFor('dest.test', 'held.test'),
      settings: { storage: { url }, node: { name }, metrics: { token: 'secret-of-the-figures' } },
    });
  }

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    const url = urlOf(folder, await makeDatabase());
    server = await startMailServer();
    one = await start('one', url);
    two = await start('two', url);
    three = await openDatabase({
      url,
      node: { name: 'three', version: 'none', facts: '{}' },
      takenOver: () => {
        takenOver();
      },
    });
    const body = { name: 'k', scopes: ['send', 'message:read'] };
    ({ key } = await one.operator.ask<CreatedKey>('createKey', { body }));
    await one.operator.ask('createDomain', { body: { name: 'acme.test', trusted: true } });
  });
  after(async () => {
    if (postgresPrograms() === null) return;
    await three.close();
    await two.stop();
    await one.stop();
    await server.close();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });

  const refused = (work: Promise<unknown>, code: string, says: RegExp): Promise<void> =>
    assert.rejects(work, (error) => error instanceof Problem && error.code === code && says.test(error.message));
  const audited = (operation: string): Promise<{ result: string; summary: string; actor: string }[]> =>
    two.app.db.prepared.all('SELECT result, summary, actor FROM audit WHERE operation = ? ORDER BY id', [operation]);

  it('lists them at each node: one leads, the other stands by', async () => {
    for (const [asked, name] of [
      [one, 'one'],
      [two, 'two'],
    ] as const) {
      const { data } = await asked.operator.call('nodes.list', {});
      assert.deepEqual(
        data.map((node) => [node.name, node.state, node.leads, node.this]),
        [
          ['one', 'leading', true, name === 'one'],
          ['two', 'standing_by', false, name === 'two'],
          ['three', 'standing_by', false, false],
        ],
      );
    }
  });

  it('a hold that is set at the other node is the leader’s, once in the audit, and each node says why the mail waits', async () => {
    const hold = await two.operator.call('queue.hold', { domain: 'held.test', new: true, note: 'ticket 7' });
    assert.equal(hold.target, 'held.test');
    assert.deepEqual(
      (await one.operator.call('queue.holds', {})).data.map(({ id }) => id),
      [hold.id],
    );
    assert.deepEqual(await audited('queue.hold'), [
      { result: 'ok', summary: 'held the domain held.test', actor: 'operator' },
    ]);
    const { id } = await two.send({ to: 'ana@held.test' }, { key });
    await one.held(id);
    for (const node of [one, two]) {
      const { recipients } = await node.operator.call('messages.why', { id });
      assert.deepEqual(
        recipients.map(({ reason }) => reason),
        ['held'],
      );
      const answer = await node.get<{ recipients: { reason: string }[] }>(`/v1/messages/${id}/why`, { key });
      assert.equal(answer.body.recipients[0]?.reason, 'held', answer.text);
    }
  });

  it('shows the lanes and lines of the leader, has it try mail now, and passes on what it refuses', async () => {
    server.options.script = { rcpt: '451 4.3.0 come back later' };
    const { id } = await two.send({}, { key });
    await one.settled();
    server.options.script = {};
    const [atOne, atTwo] = await Promise.all([one, two].map((node) => node.operator.call('queue.lanes', {})));
    assert.ok(atTwo?.domains.some(({ domain, lane }) => domain === 'dest.test' && lane === 'mx.dest.test'));
    assert.deepEqual(atTwo, atOne);
    assert.equal((await two.operator.call('resolve', { domain: 'dest.test' })).lane, 'mx.dest.test');
    const { watch } = await two.operator.call('queue.watch', { lane: 'mx.dest.test' });
    assert.equal((await two.operator.call('queue.flush', { domain: 'dest.test' })).flushed, 1);
    await one.settled();
    assert.equal((await two.get<{ status: string }>(`/v1/messages/${id}`, { key })).body.status, 'delivered');
    const { data } = await two.operator.call('queue.watch', { watch });
    assert.ok(data.some(({ text }) => text.startsWith('RCPT TO:<ana@dest.test>')));
    await refused(two.operator.call('queue.unblock', { source: 'none' }), 'not_found', /there is no source "none"/);
    await refused(two.operator.call('queue.release', {}), 'invalid_field', /./);
    await refused(two.operator.call('queue.hold', { domain: '' }), 'invalid_field', /./);
    assert.deepEqual(
      [...(await audited('queue.unblock')), ...(await audited('queue.release'))].map(({ result }) => result),
      ['refused', 'refused'],
    );
    assert.deepEqual(await two.app.db.prepared.all('SELECT id FROM node_requests'), []);
  });

  it('drains a node: 503 for balancers, 421 for new sessions, and requests are still answered', async () => {
    const drained = await two.operator.call('nodes.drain', { node: 'two' });
    assert.equal(drained.state, 'draining');
    const ready = await two.get<{ status: string }>('/readyz');
    assert.deepEqual([ready.status, ready.body.status], [503, 'draining']);
    assert.equal((await one.get('/readyz')).status, 200);
    const { mx } = two.app.ports;
    assert.ok(mx !== null);
    const client = smtpClient(mx);
    assert.match(await client.reply(), /^421 4\.3\.2 /);
    client.end();
    await two.send({}, { key });
    await one.settled();
    const { data } = await one.operator.call('doctor', { checks: ['nodes'] });
    assert.ok(data.some(({ status, why }) => status === 'warning' && why.startsWith('the node two is drained')));
    // The time of the test is not that of the database.
    assert.ok(data.some(({ why }) => /the clock of this machine is \d+ ms behind/.test(why)));
    assert.equal((await one.operator.call('nodes.resume', { node: 'two' })).state, 'standing_by');
    while ((await two.get('/readyz')).status !== 200) await new Promise((resolve) => setImmediate(resolve));
  });

  it('has a page that drains and resumes nodes, and pages of lanes that name the leader', async () => {
    const browser = await signedIn(two.url, two.operator);
    const { html } = await browser.open('/settings/nodes');
    assert.deepEqual(htmlFaults(html), []);
    assert.match(html, /<strong>one<\/strong>.*b-leading/);
    assert.match(html, /<strong>two<\/strong> <span class="dim">this one<\/span>.*b-standing_by/);
    assert.match((await browser.open('/queue')).html, /those of the node <a href="\/settings\/nodes">one<\/a>/);
    assert.match((await browser.open('/settings/sources')).html, /those of the node/);
    await browser.open('/settings/nodes');
    const drained = await browser.submit('/settings/nodes/drain', { node: 'one' });
    assert.match(drained.html, /one is drained: .* It goes on delivering until it is stopped\./);
    assert.match(drained.html, /b-draining/);
    assert.match((await browser.submit('/settings/nodes/resume', { node: 'one' })).html, /one is in service again/);
    const lives = await browser.submit('/settings/nodes/remove', { node: 'one' });
    assert.equal(lives.status, 409);
    assert.match(lives.html, /the node one lives/);
    assert.equal((await browser.submit('/settings/nodes/drain', { node: '<b>' })).status, 404);
  });

  it('has the figures of the books at the leader only', async () => {
    const read = async (node: TestApp): Promise<string> => {
      const headers = { authorization: 'Bearer secret-of-the-figures' };
      return await (await fetch(new URL('/metrics', node.url), { headers })).text();
    };
    const [atOne, atTwo] = await Promise.all([read(one), read(two)]);
    for (const [text, leads] of [
      [atOne, 1],
      [atTwo, 0],
    ] as const) {
      assert.match(text, /^posthorn_nodes 3$/m);
      assert.match(text, new RegExp(`^posthorn_node_leads ${String(leads)}$`, 'm'));
      assert.match(text, /^posthorn_node_sign_of_life_age_seconds\{node="two"\} \d/m);
      assert.equal(/^posthorn_accepted_total \d/m.test(text), leads === 1);
      assert.equal(/^posthorn_queue_total_depth /m.test(text), leads === 1);
    }
  });

  it('removes no node that lives without force, and not the one that is asked', async () => {
    await refused(two.operator.call('nodes.remove', { node: 'one' }), 'invalid_state', /the node one lives/);
    await refused(one.operator.call('nodes.remove', { node: 'one', force: true }), 'invalid_state', /stop it instead/);
    await refused(one.operator.call('nodes.drain', { node: 'four' }), 'not_found', /there is no node "four"/);
  });

  it('removes one by force, whose writes fail from then on', async () => {
    const ended = new Promise<void>((resolve) => {
      takenOver = resolve;
    });
    const { name } = await two.operator.call('nodes.remove', { node: 'three', force: true });
    assert.equal(name, 'three');
    await assert.rejects(three.commit.transact((tx) => tx.run("DELETE FROM settings WHERE name = 'none'")));
    await ended;
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
});
