import assert from 'node:assert/strict';
import { copyFileSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { startApp } from '../src/app.ts';
import { createLog } from '../src/base/log.ts';
import { ConfigError } from '../src/config/load.ts';
import { rmSync } from 'node:fs';
import { configFor, newFolder, startTestApp, zonesFor } from './support/harness/app.ts';
import { testCa } from './support/harness/certificate.ts';
import { FakeClock } from './support/fakes/fake-clock.ts';
import { FakeResolver } from './support/fakes/fake-resolver.ts';
import { startMailServer } from './support/fakes/fake-mail-server.ts';

const fixture = (name: string): string => path.join(import.meta.dirname, 'fixtures/tls', name);

describe('app: the data folder', () => {
  it('says in one line why a path cannot be it', async () => {
    const folder = newFolder();
    const file = path.join(folder, 'file');
    writeFileSync(file, '');
    const paths: [dataDir: string, says: string][] = [
      [file, 'it is not a folder'],
      [path.join(file, 'below'), 'a part of its path is not a folder'],
      [path.join(folder, 'n'.repeat(300)), 'the name is too long'],
      ['/proc/posthorn', 'no folder can be made there'],
    ];
    for (const [dataDir, says] of paths)
      await assert.rejects(startApp({ ...configFor(folder, 25), dataDir }), (error) => {
        assert.ok(error instanceof ConfigError);
        assert.deepEqual(error.mistakes, [`dataDir: ${dataDir} cannot be the data folder: ${says}`]);
        return true;
      });
    rmSync(folder, { recursive: true });
  });
});

describe('app: the rights of the processes that read foreign mail', () => {
  for (const [what, flags, said] of [
    ['without the permission model', [], ['warn', false, false]],
    ['with the older name of its flag', ['--experimental-permission'], ['info', true, false]],
    ['that closes the network, too', ['--permission', '--allow-net'], null],
  ] as const)
    it(`are told by the log of a start under a Node.js ${what}`, async () => {
      const test = await startTestApp({ nodeFlags: new Set<string>(flags) });
      await test.stop();
      const line = test.logged.find(({ event }) => event === 'reader_rights');
      assert.deepEqual(line === undefined ? null : [line.level, line['permissions'], line['network']], said);
    });
});

describe('app: settings read again', () => {
  it('lets mail go that a route held, and tells what needs a restart', async () => {
    const server = await startMailServer();
    const test = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { delivery: { routes: { 'dest.test': 'hold' } } },
    });
    const { id } = await test.send();
    const changes = test.app.reload(
      configFor(test.folder, server.port, { http: { port: 1 }, delivery: { routes: {} } }),
    );
    assert.deepEqual(changes.applied, ['delivery.routes']);
    assert.ok(changes.needRestart.includes('http.port'));
    await server.reached('message');
    await test.settled();
    // The sweeper would have looked after 30 s only: the test's clock stands still.
    assert.equal((await test.message(id)).status, 'delivered');
    await test.stop();
    await server.close();
  });

  it('shows operators the settings in force: routes to the doctor, plans to whoever gives one to an account', async () => {
    const test = await startTestApp({ mailPort: 25, zones: zonesFor('dest.test') });
    const said = async (): Promise<string | undefined> =>
      (await test.operator.call('doctor', { checks: ['outbound'] })).data[0]?.why;
    const reload = (settings: Record<string, unknown>): unknown =>
      test.app.reload(configFor(test.folder, 25, settings));
    const before = await said();
    reload({ delivery: { routes: { '*': 'hold' } }, plans: { gold: { requestsPerMinute: 7 } } });
    assert.match((await said()) ?? '', /delivery\.routes keeps all mail here/);
    assert.equal((await test.operator.call('accounts.plan', { account: 'default', plan: 'gold' })).plan, 'gold');
    reload({});
    assert.equal(await said(), before);
    await test.stop();
  });

  it('takes other rules for reading refusals, and refuses rules that cannot be read', async () => {
    const server = await startMailServer();
    server.options.script = { rcpt: '550 5.1.1 gone fishing' };
    const test = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
    const file = path.join(test.folder, 'rules.yaml');
    const next = configFor(test.folder, server.port, { delivery: { bounceRules: [file] } });
    const classAfter = async (to: string): Promise<unknown> => {
      const { id } = await test.send({ to });
      await test.settled();
      return (await test.message(id)).attempts[0]?.class;
    };
    assert.equal(await classAfter('a@dest.test'), 'hard');
    writeFileSync(file, 'rules: [{ name: fishing, class: soft, reason: other, text: [gone fishing] }]');
    assert.deepEqual(test.app.reload(next).applied, ['delivery.bounceRules']);
    assert.equal(await classAfter('b@dest.test'), 'soft');
    writeFileSync(file, 'rules: 1');
    assert.throws(() => test.app.reload(next), ConfigError);
    assert.equal(await classAfter('c@dest.test'), 'soft');
    await test.stop();
    await server.close();
  });

  it('takes a renewed certificate and another log level, and refuses a certificate that is none', async () => {
    const folder = newFolder();
    const file = (name: string): string => path.join(folder, name);
    copyFileSync(fixture('server.pem'), file('cert.pem'));
    copyFileSync(fixture('server.key'), file('key.pem'));
    const settings = { http: { port: 0, tls: true }, tls: { certFile: file('cert.pem'), keyFile: file('key.pem') } };
    const log = createLog({ level: 'error', format: 'json', stream: { write: () => undefined } });
    const app = await startApp(configFor(folder, 25, settings), {
      clock: new FakeClock(),
      resolver: new FakeResolver(),
      log,
    });
    const shown = (): Promise<string> =>
      new Promise((resolve, reject) => {
        const request = https.get(
          `${app.url}/healthz`,
          {
            agent: false,
            ca: testCa,
            checkServerIdentity: (_, { valid_to }) => {
              resolve(valid_to);
              return undefined;
            },
          },
          (response) => response.resume(),
        );
        request.on('error', (error: NodeJS.ErrnoException) => {
          if (error.code === 'CERT_HAS_EXPIRED') resolve('expired');
          else reject(error);
        });
      });
    assert.match(app.url, /^https:/);
    assert.match(await shown(), / 2126 /);
    const next = configFor(folder, 25, { ...settings, log: { level: 'debug' } });
    copyFileSync(fixture('expired.pem'), file('cert.pem'));
    app.reload(next);
    assert.equal(await shown(), 'expired');
    assert.equal(log.level, 'debug');
    copyFileSync(fixture('ca.pem'), file('cert.pem'));
    assert.throws(() => app.reload(configFor(folder, 25, settings)), ConfigError);
    assert.deepEqual([await shown(), log.level], ['expired', 'debug']);
    await app.stop();
    rmSync(folder, { recursive: true });
  });
});
