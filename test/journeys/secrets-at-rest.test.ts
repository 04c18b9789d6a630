/**
 * Every kind of secret that the system makes or is told is used, and then looked for in all that is left of it: the data folder with the
 * write-ahead log, backups without a passphrase, the log, standard output and standard error. The table of secrets in docs/security.md.
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { createTransport } from 'nodemailer';
import { openKeyring } from '../../src/base/keyring.ts';
import { sealPurpose } from '../../src/domains/dkim-key.ts';
import { base32, codeAt, stepOf } from '../../src/members/totp.ts';
import { reachOperator, type Operator } from '../../src/operator/door/operator.ts';
import { openStill } from '../../src/storage/database.ts';
import { trackingKeys } from '../../src/tracking/token.ts';
import { ran } from '../cli/ran.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startReceiver, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';
import { configFor, newFolder, zonesFor } from '../support/harness/app.ts';
import { Browser, PASSWORD, secretIn } from '../support/harness/browser.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';

const srcUrl = (file: string): string => pathToFileURL(path.resolve(import.meta.dirname, '../..', file)).href;

/** The files that are secrets themselves, for their owner alone. */
const OF_OWNER = new Set(['secret.key', 'self-signed-key.pem']);

describe('journey: secrets at rest', () => {
  let folder: string;
  let backups: string;
  let settings: string;
  let mail: FakeMailServer;
  let hook: WebhookReceiver;
  let child: ChildProcess;
  let operator: Operator;
  let said = '';
  let url = '';
  let isBusy = true;
  /** Each secret by its kind. */
  const secrets: [kind: string, secret: string | Uint8Array][] = [];

  before(async function () {
    if (isOnPostgres) return this.skip('looks into the file of SQLite');
    [folder, backups] = [newFolder(), newFolder()];
    mail = await startMailServer({
      extensions: ['AUTH PLAIN', 'PIPELINING', '8BITMIME'],
      script: { rcpt: (line) => (isBusy && line.includes('people.test') ? '450 4.2.0 busy' : '250 2.1.5 ok') },
    });
    hook = await startReceiver();
    settings = path.join(backups, 'posthorn.yaml');
    const relay = {
      host: 'relay.test',
      port: mail.port,
      tls: 'none',
      user: 'shop',
      password: 'the-smarthost-password',
    };
    const own = {
      dataDir: folder,
      http: { port: 0, publicUrl: 'http://mail.acme.test' },
      smtp: { hostname: 'mail.posthorn.test', mx: { port: 0 }, submission: { port: 0, tlsPort: 0 } },
      delivery: { allowPrivate: true, remotePort: mail.port, routes: { 'shop.test': relay } },
      webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] },
      metrics: { token: 'the-token-of-the-metrics-that-is-long' },
      requestLog: { bodies: 'all' },
      log: { level: 'debug', format: 'json' },
    };
    writeFileSync(settings, JSON.stringify(own), { mode: 0o600 });
    secrets.push(['smarthost password', relay.password], ['metrics token', own.metrics.token]);
    const zones = { ...zonesFor('people.test'), 'relay.test A': ['127.0.0.1'] };
    const program = `
      import { run } from ${JSON.stringify(srcUrl('src/cli/cli.ts'))};
      import { startApp } from ${JSON.stringify(srcUrl('src/app.ts'))};
      import { FakeResolver } from ${JSON.stringify(srcUrl('test/support/fakes/fake-resolver.ts'))};
      const resolver = new FakeResolver(${JSON.stringify(zones)});
      process.exitCode = await run(['serve'], undefined, undefined, {
        startApp: (config, options) => startApp(config, { ...options, resolver }),
      });`;
    child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '-e', program], {
      env: { PATH: process.env['PATH'], POSTHORN_CONFIG: settings },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => (said += text));
    const ended = once(child, 'close').then(() => assert.fail(`the server has ended: ${said}`));
    // A piece of the output may end within a line.
    while (!/"event":"set_up".*\n/.test(said) || !said.includes('"event":"ready"'))
      await Promise.race([once(child.stdout ?? child, 'data'), ended]);
    url = eventOf('ready')['url'] ?? '';
    operator = reachOperator(configFor(folder, mail.port));
  });
  after(async () => {
    if (isOnPostgres) return;
    await operator.close();
    child.kill();
    await once(child, 'exit');
    await Promise.all([mail.close(), hook.close()]);
    for (const one of [folder, backups]) rmSync(one, { recursive: true });
  });

  const eventOf = (event: string): Record<string, string> =>
    said
      .split('\n')
      .filter((line) => line.includes(`"event":"${event}"`))
      .map((line) => JSON.parse(line) as Record<string, string>)[0] ?? assert.fail(`${event}: ${said}`);
  const matched = (pattern: RegExp, text: string): string => pattern.exec(text)?.[1] ?? assert.fail(text);
  const backUp = (): Promise<unknown> => ran(['--config', settings, 'backup', 'create', backups], {});

  /** Signs in through the link of the file, and does all that makes a secret or uses one. */
  async function act(): Promise<void> {
    const browser = new Browser(url);
    const keepCookies = (): void => {
      for (const [name, value] of browser.cookies)
        if (/session|device/.test(name)) secrets.push([`cookie ${name}`, value]);
    };
    const first = new URL(readFileSync(eventOf('set_up')['file'] ?? '', 'utf8').trim()).pathname;
    secrets.push(['set-up link', first], ['password', PASSWORD]);
    await browser.open(first);
    await browser.submit(first, { email: 'ana@example.net', password: PASSWORD, password_again: PASSWORD });
    assert.equal(browser.last.at, '/welcome');
    keepCookies();

    await browser.open('/profile/second-factor');
    const totp = secretIn(browser.last.html);
    secrets.push(['second factor', totp], ['second factor', base32(totp)]);
    const code = codeAt(totp, stepOf(Date.now()));
    const shown = await browser.submit('/profile/second-factor', {
      ...{ offer: browser.field('offer'), code, password_now: PASSWORD },
    });
    const codes = [...shown.html.matchAll(/<li><code>([^<]+)<\/code>/g)].map(([, text = '']) => text);
    assert.equal(codes.length, 10);
    for (const text of codes) secrets.push(['recovery code', text], ['recovery code', text.replaceAll('-', '')]);
    keepCookies();

    await browser.open('/developer/keys/new');
    await browser.submit('/developer/keys/new', { name: 'shop', mode: 'live', preset: 'all', password_now: PASSWORD });
    const key = matched(/<pre id="the-key">([^<]+)<\/pre>/, browser.last.html);
    secrets.push(['API key', key], ['submission password', Buffer.from(`\0apikey\0${key}`).toString('base64')]);
    await browser.open('/webhooks/new');
    const fields = { url: hook.url, events: 'delivered', headers: 'X-Token: the-header-of-a-webhook' };
    await browser.submit('/webhooks/new', { ...fields, password_now: PASSWORD });
    keepWebhookSecret(matched(/(whsec_[\w+/=-]+)/, browser.last.html.replaceAll('&#x3D;', '=')));
    secrets.push(['header of a webhook', 'the-header-of-a-webhook']);
    keepCookies();

    await operator.ask('createDomain', { body: { name: 'acme.test', trusted: true } });
    const call = async (where: string, body: object): Promise<Record<string, string>> => {
      const response = await fetch(`${url}${where}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': where },
        body: JSON.stringify(body),
      });
      assert.ok(response.ok, await response.clone().text());
      return (await response.json()) as Record<string, string>;
    };
    secrets.push(['API key', (await call('/v1/keys', { name: 'second', scopes: ['send'] }))['key'] ?? '']);
    keepWebhookSecret((await call('/v1/webhooks', { url: `${hook.url}/2`, events: ['bounced'] }))['secret'] ?? '');
    const html = '<a href="https://acme.test/">Hello</a>';
    await call('/v1/messages', {
      from: 'hi@acme.test',
      to: 'bo@shop.test',
      subject: 'Hello',
      html,
      track_clicks: true,
    });
    const { submissions } = eventOf('started') as unknown as { submissions: number };
    const transport = createTransport({
      ...{ host: '127.0.0.1', port: submissions, secure: true, tls: { rejectUnauthorized: false } },
      auth: { user: 'apikey', pass: key },
    });
    await transport.sendMail({ from: 'hi@acme.test', to: 'cy@shop.test', subject: 'Hello', text: 'By SMTP' });
    await fetch(`${url}/metrics`, { headers: { authorization: 'Bearer the-token-of-the-metrics-that-is-long' } });
    await hook.reached(2);

    for (const by of ['mail', 'hand']) {
      await browser.open('/team');
      const person = { email: `${by}@people.test`, role: 'administrator', by, password_now: PASSWORD };
      await browser.submit('/team', person);
    }
    secrets.push(['invitation', new URL(matched(/<pre>([^<]+)<\/pre>/, browser.last.html)).pathname]);
    secrets.push([
      'reset link',
      new URL((await operator.call('admin.reset', { email: 'ana@example.net' })).url).pathname,
    ]);
    keepCookies();
    // The mail of the invitation waits, and the backup has it.
    await mail.reached('rcpt', 3);
    await backUp();
    isBusy = false;
    const invited = async () =>
      (await operator.call('team.list', {})).data.find(({ email }) => email === 'mail@people.test')?.invitation?.mail;
    while ((await invited())?.status !== 'delivered') await operator.call('queue.flush', { all: true });
    const text = mail.sessions.flatMap(({ mails }) => mails.map(({ data }) => data.replaceAll('=\r\n', ''))).join();
    secrets.push(['mailed invitation', matched(/(\/setup\/[\w-]{43})/, text)]);
    await backUp();
  }

  function keepWebhookSecret(secret: string): void {
    secrets.push(['webhook secret', secret], ['webhook secret', Buffer.from(secret.slice('whsec_'.length), 'base64')]);
  }

  /** Adds the keys that the program keeps to itself. */
  async function addKeys(): Promise<void> {
    const keyring = openKeyring(folder);
    const [, master = ''] = matched(/^(\w+ [\w-]{43})$/m, readFileSync(path.join(folder, 'secret.key'), 'utf8')).split(
      ' ',
    );
    const derived = ['return path', 'dashboard forms', 'settings digests'].map((purpose) => keyring.derive(purpose));
    for (const secret of [Buffer.from(master, 'base64url'), ...derived])
      secrets.push(['key of the installation', secret], ['key of the installation', secret.toString('base64url')]);
    for (const { sign, seal } of trackingKeys(keyring)) secrets.push(['tracking key', sign], ['unsubscribe key', seal]);
    const [newest = ''] = readdirSync(backups).filter((name) => name.startsWith('posthorn-'));
    const db = openStill(path.join(backups, newest, 'posthorn.db'));
    const rows = await db<{ id: string; private_key_sealed: string }>('dkim_keys');
    await db.destroy();
    assert.equal(rows.length, 2);
    for (const { id, private_key_sealed: sealed } of rows) {
      const pem = keyring.open(sealPurpose(id), sealed).toString();
      secrets.push(
        ['DKIM key', pem.split('\n')[1] ?? assert.fail()],
        ['DKIM key', Buffer.from(pem.split('\n')[1] ?? '', 'base64')],
      );
    }
    secrets.push(['any private key', 'PRIVATE KEY-----']);
  }

  /** Returns all that is left, by name. */
  function places(): Map<string, Buffer> {
    const found = new Map<string, Buffer>([['standard output and error', Buffer.from(said)]]);
    for (const top of [folder, backups])
      for (const entry of readdirSync(top, { recursive: true, withFileTypes: true })) {
        const file = path.join(entry.parentPath, entry.name);
        if (entry.isFile() && !OF_OWNER.has(entry.name) && file !== settings) found.set(file, readFileSync(file));
      }
    return found;
  }

  it('are nowhere in clear, and the log is JSON', async () => {
    await act();
    await addKeys();
    const left = places();
    const holds = (name: RegExp, text: string): boolean =>
      [...left].some(([place, bytes]) => name.test(place) && bytes.includes(text));
    // An ordinary address is found in each place: this test looks where the data is.
    for (const name of [/posthorn\.db(?:-wal)?$/, /posthorn-.*posthorn\.db$/, /standard output/])
      assert.ok(holds(name, 'people.test'), String(name));
    assert.ok(!existsSync(path.join(folder, 'set-up-link')), 'the link was used');
    const found = secrets.flatMap(([kind, secret]) => {
      assert.ok(secret.length >= 8, kind);
      return [...left]
        .filter(([, bytes]) => bytes.includes(Buffer.from(secret)))
        .map(([place]) => `${kind} in ${place}`);
    });
    assert.deepEqual([...new Set(found)], []);
    assert.deepEqual(
      said.split('\n').filter((line) => line !== '' && !line.startsWith('{')),
      [],
    );
  });
});
