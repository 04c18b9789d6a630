/** The audit says who did what to which object, and only to those who may see it. */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { ran } from '../cli/ran.ts';
import { newFolder, startTestApp, type TestApp } from '../support/harness/app.ts';
import { signedIn } from '../support/harness/browser.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';

interface Entry {
  id: string;
  actor: string;
  method: string;
  user_agent: string | null;
  operation: string | null;
  object_type: string | null;
  object_id: string | null;
  before: object | null;
  after: object | null;
  summary: string | null;
}

describe('journey: audit', () => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startTestApp({});
  });
  afterEach(() => app.stop());

  const entryOf = async (operation: string): Promise<Entry | undefined> =>
    (await app.get<{ data: Entry[] }>(`/v1/audit?operation=${operation}`)).body.data[0];

  it('tells the object and what changed, whichever the door', async () => {
    const { id } = await app.operator.ask<{ id: string }>('createKey', { body: { name: 'shop', scopes: ['send'] } });
    const made = await entryOf('createKey');
    assert.deepEqual(
      [made?.actor, made?.object_id, made?.before, made?.summary],
      ['operator', id, null, 'created the API key shop'],
    );
    assert.doesNotMatch(JSON.stringify(made), /ak_live_/);
    await app.request('PATCH', `/v1/keys/${id}`, { scopes: ['send', 'event:read'] });
    const changed = await entryOf('updateKey');
    assert.deepEqual([changed?.before, changed?.after], [{ scopes: ['send'] }, { scopes: ['send', 'event:read'] }]);
    const browser = await signedIn(app.url, app.operator);
    await browser.open('/suppressions');
    await browser.submit('/suppressions', { email: 'ana@example.net' });
    const listed = await entryOf('createSuppression');
    assert.deepEqual(
      [listed?.actor, listed?.object_type, listed?.object_id, listed?.summary],
      ['member:ana@example.net', 'suppression', 'ana@example.net', 'put ana@example.net on the suppression list'],
    );
  });

  it('names the addresses of a request for many, and what was not made', async () => {
    await app.request('POST', '/v1/suppressions', { emails: ['a1@dest.test', 'a2@dest.test', 'none'] });
    const entryOf = async (operation: string) => {
      const { data } = (
        await app.get<{ data: { summary: string; object_id: string | null; after: object | null }[] }>(
          `/v1/audit?operation=${operation}&limit=1`,
        )
      ).body;
      const [entry] = data;
      assert.ok(entry);
      return { summary: entry.summary, object_id: entry.object_id, after: entry.after };
    };
    assert.deepEqual(await entryOf('createSuppression'), {
      summary: 'put 3 addresses on the suppression list',
      object_id: '3 addresses',
      after: { emails: ['a1@dest.test', 'a2@dest.test', 'none'], created: 2, existing: 0, rejected: 1 },
    });
    await assert.rejects(app.operator.ask('createDomain', { body: { name: 'no domain' } }));
    assert.match((await entryOf('createDomain')).summary, /^added the domain no domain \(refused: /);
    await app.request('POST', '/v1/keys', { name: 'shop two', scopes: ['nothing'] });
    assert.match((await entryOf('createKey')).summary, /^created the API key shop two \(refused: /);
    await app.request('POST', '/v1/webhooks', { url: 'https://ana:secret@hooks.test/x', events: ['nothing'] });
    assert.match(
      (await entryOf('createWebhook')).summary,
      /^added the webhook endpoint https:\/\/hooks\.test\/x \(refused: /,
    );
  });

  it('shows acts that concern no account on the command line and to administrators, and to no key', async () => {
    await app.operator.call('queue.hold', { domain: 'dest.test' });
    const { out } = await ran(['audit', '--server', '--json'], { POSTHORN_DATA_DIR: app.config.dataDir });
    const { data } = JSON.parse(out) as { data: Entry[] };
    assert.deepEqual(
      data.slice(0, 2).map(({ actor, summary }) => `${actor} ${(summary ?? '').replace(/\d+\.\d+\.\d+/, 'x')}`),
      ['operator held the domain dest.test', 'server started the server, version x'],
    );
    const seen = await app.get<{ data: Entry[] }>('/v1/audit?by=person&limit=100');
    assert.ok(seen.body.data.every(({ operation }) => operation !== 'queue.hold' && operation !== 'server.start'));
    const browser = await signedIn(app.url, app.operator);
    assert.match((await browser.open('/developer/actions?of=server')).html, /held the domain dest\.test/);
  });

  it('has the backups, restores and migrations of the command line, with and without a server', async function () {
    if (isOnPostgres) this.skip('the commands are tried with files; test/backup/postgres.test.ts has the rest');
    const folder = newFolder();
    const own = await startTestApp({ folder });
    const env = { POSTHORN_DATA_DIR: own.config.dataDir, POSTHORN_BACKUP__DIR: path.join(folder, 'backups') };
    const serverActs = async (dataDir = own.config.dataDir): Promise<Entry[]> => {
      const { out } = await ran(['audit', '--server', '--json'], { POSTHORN_DATA_DIR: dataDir });
      return (JSON.parse(out) as { data: Entry[] }).data;
    };
    const sentences = (entries: readonly Entry[]): string[] => entries.map(({ summary }) => summary ?? '');
    const create = async (): Promise<string> => {
      const { out, code, notes } = await ran(['backup', 'create', '--json'], env);
      assert.equal(code, 0, notes);
      assert.doesNotMatch(notes, /audit/);
      return (JSON.parse(out) as { backup: string }).backup;
    };
    try {
      const first = await create();
      assert.equal((await ran(['migrate'], env)).code, 73);
      assert.equal((await ran(['backup', 'restore', first], env)).code, 73);
      const [made] = await serverActs();
      assert.equal(made?.summary, `made the backup ${first}`);
      assert.deepEqual([made.actor, made.method, made.object_type], ['operator', 'CLI', 'backup']);
      assert.match(made.user_agent ?? '', /^cli:/);

      await own.stop();
      const second = await create();
      assert.equal(sentences(await serverActs())[0], `made the backup ${second}`);
      const keyFile = path.join(own.config.dataDir, 'secret.key');

      const other = path.join(folder, 'other');
      mkdirSync(other);
      cpSync(keyFile, path.join(other, 'secret.key'));
      assert.equal((await ran(['backup', 'restore', second], { POSTHORN_DATA_DIR: other })).code, 0);
      const [there] = await serverActs(other);
      assert.deepEqual(
        [there?.summary, there?.after],
        [`restored the backup ${second}`, { ...there?.after, data_dir: other, keys: 'found' }],
      );

      const fresh = path.join(folder, 'fresh');
      assert.equal((await ran(['migrate'], { POSTHORN_DATA_DIR: fresh })).code, 0);
      assert.deepEqual(sentences(await serverActs(fresh)), ['brought the database up to date']);
      assert.equal((await ran(['migrate'], { POSTHORN_DATA_DIR: fresh })).code, 0);
      assert.equal((await serverActs(fresh)).length, 1, 'a command that changed nothing has no row');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('refuses a note about an act that no command does, and one that is too long', async () => {
    for (const args of [{ operation: 'createKey' }, { operation: 'backup.create', object: 'x'.repeat(5000) }])
      await assert.rejects(app.operator.call('audit.note', args as never), { name: 'Problem' });
  });

  it('names the part of a refused act on the queue, and the template that was deleted', async () => {
    for (const [operation, args, sentence] of [
      ['queue.hold', { account: 'Nobody' }, 'held the account Nobody'],
      ['queue.hold', { stream: 'news' }, 'held the stream news'],
      ['queue.cancel', { message_id: 'msg_x' }, 'canceled waiting mail of the message msg_x'],
      ['queue.release', { id: 'hld_x' }, 'released the hold hld_x'],
      ['queue.release', { domain: 'dest.test' }, 'released the domain dest.test'],
      ['queue.limit', { lane: 'nowhere' }, 'set the limit of the lane nowhere'],
    ] as const) {
      await assert.rejects(app.operator.call(operation, args), { code: 'not_found' });
      const { data } = await app.operator.call('audit.list', { server: true, limit: 1 });
      assert.equal(data[0]?.summary, `${sentence} (refused: not_found)`);
    }
    const { id } = (await app.request<{ id: string }>('POST', '/v1/templates', { name: 'Receipt', text: 'Hi' })).body;
    await app.request('DELETE', `/v1/templates/${id}`);
    const deleted = await entryOf('deleteTemplate');
    assert.deepEqual(
      [deleted?.object_id, deleted?.before, deleted?.after, deleted?.summary],
      [id, { name: 'Receipt', latest_version: 1, published_version: 1 }, null, 'deleted the template Receipt'],
    );
    await app.request('DELETE', '/v1/templates/none');
    assert.equal((await entryOf('deleteTemplate'))?.summary, 'deleted the template none (refused: not_found)');
  });
});
