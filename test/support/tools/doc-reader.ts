/**
 * A reader who follows a document from its beginning, with a started server, a shell with the `posthorn` command, a DNS that has the
 * records of the reader's domains once the program has shown them, and a mailbox at example.net to write to.
 */
import type { Domain } from '../../../src/client/types.ts';
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { startApp } from '../../../src/app.ts';
import { reachOperator, type Operator } from '../../../src/operator/door/operator.ts';
import { ALL_SCOPES, configFor, newFolder } from '../harness/app.ts';
import { openCommandDesk } from '../fakes/command-desk.ts';
import { startDnsServer } from '../fakes/fake-dns-server.ts';
import { startMailServer, type FakeMailServer } from '../fakes/fake-mail-server.ts';
import type { Zones } from '../fakes/zones.ts';

export interface DocReader {
  readonly mailHost: FakeMailServer;
  /** Where the API is. */
  readonly url: string;
  /** Runs a block of shell commands; fails where one of them does, or where the API answers with an error. */
  run(block: string): Promise<void>;
  /** The same on a data folder without server. */
  runAlone(block: string): Promise<void>;
  /** For what does not end by itself: stops it as soon as it has said something. */
  runUntilItSpeaks(block: string): Promise<void>;
  close(): Promise<void>;
}

/** Where the documents say that the API is. */
const WRITTEN_ADDRESS = 'http://127.0.0.1:8025';
const SILENT = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const log = { ...SILENT, child: () => log };

export async function startDocReader(): Promise<DocReader> {
  const folder = newFolder();
  const zones: Zones = { 'example.net MX': ['10 mx.example.net'], 'mx.example.net A': ['127.0.0.1'] };
  const dns = await startDnsServer(zones);
  const mailHost = await startMailServer();
  const config = configFor(path.join(folder, 'data'), mailHost.port, { delivery: { dnsServers: [dns.address] } });
  const app = await startApp(config, { log });
  const desk = await openCommandDesk(folder);
  const operator = reachOperator(config);
  const names = await thingsToName(operator, app.url);

  function start(block: string, dataDir: string): { shell: ChildProcess; said: () => string } {
    const env = {
      ...process.env,
      ...names,
      PATH: `${desk.tools}:${process.env['PATH'] ?? ''}`,
      POSTHORN_DATA_DIR: dataDir,
      POSTHORN_SMTP__HOSTNAME: config.smtp.hostname,
    };
    const text = block.replaceAll(WRITTEN_ADDRESS, app.url);
    const shell = spawn('sh', ['-euc', text], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let said = '';
    shell.stdout.setEncoding('utf8').on('data', (part: string) => (said += part));
    shell.stderr.setEncoding('utf8').on('data', (part: string) => (said += part));
    return { shell, said: () => said };
  }

  async function runOn(block: string, dataDir: string): Promise<void> {
    const { shell, said } = start(block, dataDir);
    const [code] = (await once(shell, 'close')) as [number | null];
    assert.equal(code, 0, said());
    assert.doesNotMatch(said(), /^\{"error":\{/m);
    await publish(operator, zones);
  }

  return {
    mailHost,
    url: app.url,
    run: (block) => runOn(block, config.dataDir),
    async runAlone(block) {
      mkdirSync(path.join(folder, 'alone'), { recursive: true });
      await runOn(block, path.join(folder, 'alone'));
    },
    async runUntilItSpeaks(block) {
      const { shell, said } = start(block, config.dataDir);
      const ended = once(shell, 'close');
      // Both pipes are there: stdio says so.
      await Promise.race([once(shell.stdout!, 'data'), ended]);
      assert.equal(shell.exitCode, null, said());
      // The shell leads a group of its own, so this reaches what it has started, too.
      if (shell.pid !== undefined) process.kill(-shell.pid, 'SIGTERM');
      await ended;
    },
    async close() {
      await operator.close();
      await desk.close();
      await app.stop();
      await mailHost.close();
      await dns.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The shell variables of the documents: the key that they call with, a key to revoke, a message, a webhook endpoint. */
async function thingsToName(operator: Operator, url: string): Promise<Record<string, string>> {
  const { key } = await operator.ask<{ id: string; key: string }>('createKey', {
    body: { name: 'reader', scopes: ALL_SCOPES },
  });
  const { id: keyId } = await operator.ask<{ id: string; key: string }>('createKey', {
    body: { name: 'old', scopes: ['send'] },
  });
  const mail = {
    from: 'hello@simulator.posthorn.test',
    to: 'deferred@simulator.posthorn.test',
    subject: 'First',
    text: 'Hello.',
  };
  const { id: messageId } = await operator.ask<{ id: string }>('sendMessage', { body: mail });
  const endpoint = await fetch(`${url}/v1/webhooks`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ url: 'https://hooks.example.net/first' }),
  });
  const { id: webhookId } = (await endpoint.json()) as { id: string };
  return { POSTHORN_API_KEY: key, KEY_ID: keyId, MESSAGE_ID: messageId, WEBHOOK_ID: webhookId };
}

/** Does what a domain's owner does between two commands. */
async function publish(operator: Operator, zones: Zones): Promise<void> {
  const { data } = await operator.ask<{ data: Domain[] }>('listDomains', { query: { status: 'any' } });
  for (const { host, type, value } of data.flatMap(({ records }) => records)) zones[`${host} ${type}`] = [value];
}
