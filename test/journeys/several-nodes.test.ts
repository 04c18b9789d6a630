/** docs/nodes.compose.yaml, the example of docs/several-nodes.md: its settings and names, its secrets, and its HAProxy before two nodes, one of which stops. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parse } from 'yaml';
import { keyIdsOf } from '../../src/base/keyring.ts';
import { variableOf } from '../../src/config/load.ts';
import { listSettings } from '../../src/config/schema.ts';
import { newFolder, startTestApp, type TestApp } from '../support/harness/app.ts';
import { missing, until } from '../support/harness/peer.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';
import { smtpClient } from '../support/harness/smtp-client.ts';
import { startHaproxy, type WebProxy } from '../support/harness/web-proxy.ts';
import { docBlocks } from '../support/tools/doc-blocks.ts';

interface Service {
  environment?: Record<string, string>;
  secrets?: (string | { source: string; target: string })[];
  volumes?: string[];
  configs?: { source: string }[];
  stop_grace_period?: string;
}
interface Compose {
  services: Record<string, Service>;
  volumes: Record<string, null>;
  secrets: Record<string, { file: string }>;
  configs: Record<string, { content: string }>;
}

const docs = path.resolve(import.meta.dirname, '../../docs');
const blocks = docBlocks(readFileSync(path.join(docs, 'several-nodes.md'), 'utf8'));
const example = blocks.filter(({ heading }) => heading === 'An example');
const compose = parse(readFileSync(path.join(docs, 'nodes.compose.yaml'), 'utf8'), { merge: true }) as Compose;
const services = Object.values(compose.services);
const nodes = [compose.services['one'], compose.services['two']];

describe('docs/nodes.compose.yaml', () => {
  it('sets only settings that are there, the same at each node but for its name', () => {
    const known = new Set(listSettings().map(({ path: name }) => variableOf(name)));
    const [one = {}, two = {}] = nodes.map((node) => node?.environment);
    for (const name of Object.keys(one)) assert.ok(known.has(name.replace(/(?<=PASSWORD)_FILE$/, '')), name);
    const { POSTHORN_NODE__NAME: first, ...ofOne } = one;
    const { POSTHORN_NODE__NAME: second, ...ofTwo } = two;
    assert.deepEqual([first, second, ofTwo], ['one', 'two', ofOne]);
  });

  it('declares the volumes, secrets and configurations that services name, and no others', () => {
    const named = (all: readonly (string | { source: string })[]): string[] =>
      [...new Set(all.map((one) => (typeof one === 'string' ? one : one.source)))].sort();
    const volumes = services.flatMap((service) => service.volumes ?? []).map((one) => one.split(':')[0] ?? '');
    assert.deepEqual(named(volumes), Object.keys(compose.volumes).sort());
    assert.deepEqual(named(services.flatMap(({ secrets = [] }) => secrets)), Object.keys(compose.secrets).sort());
    assert.deepEqual(named(services.flatMap(({ configs = [] }) => configs)), Object.keys(compose.configs).sort());
  });

  it('gives each node a data folder of its own with the same key, and time to stop', () => {
    assert.equal(new Set(nodes.map((node) => node?.volumes?.[0])).size, 2);
    for (const node of nodes) {
      assert.equal(node?.stop_grace_period, '75s');
      assert.match(node.volumes?.[0] ?? '', /:\/var\/lib\/posthorn$/);
      assert.deepEqual(node.secrets?.[1], { source: 'secret_key', target: '/var/lib/posthorn/secret.key' });
    }
  });

  it('makes its secrets by the commands that it shows', () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-nodes-'));
    try {
      const commands = example.find(({ language, text }) => language === 'sh' && text.includes('openssl'))?.text ?? '';
      mkdirSync(path.join(folder, 'docs'));
      execFileSync('sh', ['-euc', commands], { cwd: folder });
      for (const { file } of Object.values(compose.secrets))
        assert.equal(statSync(path.join(folder, 'docs', file)).mode & 0o077, 0, file);
      const file = path.join(folder, 'docs/secret.key');
      assert.deepEqual(keyIdsOf(readFileSync(file, 'utf8'), file), ['k1']);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('docs/nodes.compose.yaml: two nodes behind its HAProxy', () => {
  const apps: TestApp[] = [];
  let proxy: WebProxy | null = null;
  let second: string | null = null;
  let key = '';

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    if (missing('haproxy').length > 0) return this.skip('HAProxy is not installed (apt-get install haproxy)');
    const { folder } = await startedCluster();
    const storage = { url: urlOf(folder, await makeDatabase()) };
    for (const name of ['one', 'two']) {
      const settings = { storage, node: { name } };
      const [first] = apps;
      if (first === undefined) {
        const app = await startTestApp({ settings });
        apps.push(app);
        ({ key } = await app.operator.ask<{ key: string }>('createKey', { body: { name: 'nodes', scopes: ['send'] } }));
        await app.operator.ask('createDomain', { body: { name: 'acme.test', trusted: true } });
        continue;
      }
      second = newFolder();
      copyFileSync(path.join(first.folder, 'secret.key'), path.join(second, 'secret.key'));
      apps.push(await startTestApp({ folder: second, settings }));
    }
    // Both nodes are in this process: where it stands still for four seconds, HAProxy would take both out of service.
    const patient = compose.configs['haproxy']?.content.replace('timeout connect 5s', '$&\n  timeout check 120s');
    assert.match(patient ?? '', /timeout check/);
    proxy = await startHaproxy(
      patient ?? '',
      apps.map(({ app }, at) => ({
        name: at === 0 ? 'one' : 'two',
        api: Number(new URL(app.url).port),
        submission: app.ports.submission ?? 0,
      })),
    );
  });
  after(async () => {
    proxy?.stop();
    for (const app of apps.reverse()) await app.stop();
    if (second !== null) rmSync(second, { recursive: true });
  });

  const post = (): Promise<Response> =>
    fetch(`http://127.0.0.1:${String(proxy?.port)}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ from: 'a@acme.test', to: 'b@dest.test', subject: 'x', text: 'x' }),
    });
  const send = async (): Promise<number> => {
    const answer = await post();
    await answer.arrayBuffer();
    return answer.status;
  };
  const greeting = async (): Promise<string> => {
    const client = smtpClient(proxy?.plainPort ?? 0);
    try {
      return await client.reply();
    } finally {
      client.end();
    }
  };

  it('takes mail at both, and none is refused while one stops', async () => {
    await until(async () => (await send()) === 202, 'a node behind the balancer');
    assert.match(await greeting(), /^220 /);
    const stop = { isOver: false };
    const stopped = apps[0]?.app.stop().then(() => (stop.isOver = true));
    const seen = new Set<number>();
    while (!stop.isOver) seen.add(await send());
    await stopped;
    for (let at = 0; at < 10; at++) seen.add(await send());
    assert.deepEqual([...seen], [202]);
    assert.match(await greeting(), /^220 /);
  });

  it('asks nodes that are not ready where none is, and says itself, in JSON, that none can be reached', async () => {
    const last = apps[1];
    assert.ok(last !== undefined && proxy !== null);
    await last.operator.call('nodes.drain', { node: 'two' });
    await until(
      () => Promise.resolve((proxy?.log() ?? '').includes("backend 'api' has no server available")),
      'no node is ready',
    );
    assert.equal(await send(), 202);
    await last.app.stop();
    const answer = await post();
    assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '5']);
    const { error } = (await answer.json()) as { error: Record<string, unknown> };
    assert.deepEqual(Object.keys(error), ['code', 'message', 'field', 'request_id']);
    assert.equal(error['code'], 'service_unavailable');
  });
});
