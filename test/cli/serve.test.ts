import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, fstatSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { KeyFileError, openKeyring } from '../../src/base/keyring.ts';
import { exitCodes } from '../../src/cli/exit-codes.ts';
import type { StartApp } from '../../src/cli/serve.ts';
import { Unavailable } from '../../src/base/unavailable.ts';
import { DatabaseRefusal } from '../../src/storage/mark.ts';
import { openDatabase } from '../../src/storage/database.ts';
import { Office } from '../operator/office.ts';
import { ran } from './ran.ts';

const URL = 'http://127.0.0.1:8025';

describe('posthorn serve', () => {
  let folder: string;
  let env: Record<string, string>;
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-serve-'));
    const publicUrl = { POSTHORN_HTTP__PUBLIC_URL: 'https://mail.example.com' };
    env = { ...publicUrl, POSTHORN_DATA_DIR: folder, POSTHORN_LOG__LEVEL: 'error', POSTHORN_LOG__FORMAT: 'json' };
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  const makeDatabase = async (): Promise<void> => {
    openKeyring(folder);
    await (await openDatabase({ url: `sqlite:${path.join(folder, 'posthorn.db')}` })).close();
  };

  /** A server that has a database, and is asked to end as soon as it has greeted: the signal waits until it has a listener. */
  const brief =
    (stopped: () => void = () => undefined): StartApp =>
    async () => {
      await makeDatabase();
      setImmediate(() => process.emit('SIGTERM'));
      return { url: URL, reload: () => undefined, stop: async () => stopped() };
    };
  const listeners = (): number[] =>
    ['SIGTERM', 'SIGINT', 'SIGHUP', 'uncaughtException', 'unhandledRejection'].map((name) =>
      process.listenerCount(name),
    );

  it('stops at a signal, with 0, and leaves nothing behind in the process', async () => {
    const before = listeners();
    let stops = 0;
    const { code, out } = await ran(['serve'], env, { startApp: brief(() => stops++) });
    assert.deepEqual([code, stops, out], [0, 1, '']);
    assert.deepEqual(listeners(), before);
  });

  for (const [why, text] of [
    ['taken_over', 'another node has removed this one'],
    ['wrong_clock', 'the clock of this machine is wrong'],
  ] as const)
    it(`stops where the server cannot go on (${why}), and ends with its error and a code that is tried again`, async () => {
      const before = listeners();
      let stops = 0;
      const failed = Promise.resolve(new Unavailable(why, text));
      const failing: StartApp = async () => ({
        url: URL,
        reload: () => undefined,
        failed,
        stop: async () => {
          stops++;
        },
      });
      const { code, notes } = await ran(['serve'], env, { startApp: failing });
      assert.deepEqual([code, stops], [exitCodes.unavailable, 1]);
      assert.match(notes, new RegExp(`^posthorn: ${text}`, 'm'));
      assert.deepEqual(listeners(), before);
    });

  it('ends with the error also where it comes while the server stops at a signal', async () => {
    let fail: (error: Error) => void = () => undefined;
    const failed = new Promise<Error>((resolve) => (fail = resolve));
    const stop = async (): Promise<void> => fail(new Error('the disk is gone'));
    const failing: StartApp = async () => {
      setImmediate(() => process.emit('SIGTERM'));
      return { url: URL, reload: () => undefined, failed, stop };
    };
    assert.equal((await ran(['serve'], env, { startApp: failing })).code, exitCodes.software);
  });

  it('shows a test key at the first start only, ready to paste', async () => {
    const first = await ran(['serve', '--greeting'], env, { startApp: brief() });
    const keys = [...first.notes.matchAll(/Bearer (ak_\w+)/g)].map(([, key]) => key);
    assert.equal(new Set(keys).size, 1);
    assert.match(keys[0] ?? '', /^ak_test_/);
    assert.match(first.notes, /^curl -sS http:\/\/127\.0\.0\.1:8025\/v1\/messages .*$/m);
    const { out } = await ran(['keys', 'list', '--json'], env);
    const { data } = JSON.parse(out) as { data: { name: string; mode: string; scopes: string[] }[] };
    assert.deepEqual(
      data.map(({ name, mode, scopes }) => [name, mode, scopes]),
      [['first', 'test', ['send', 'message:read', 'event:read']]],
    );
    const second = await ran(['serve', '--greeting'], env, { startApp: brief() });
    assert.equal(second.notes, '');
  });

  describe('the set-up link, while there is no administrator', () => {
    const link = { url: `${URL}/setup/abc`, expires_at: '2126-01-31T10:00:00.000Z' };
    const startApp =
      (given: typeof link | null): StartApp =>
      async (...args) => ({ ...(await brief()(...args)), setUpLink: async () => given });
    const file = (): string => path.join(folder, 'set-up-link');
    const start = (given: typeof link | null, more = {}) =>
      ran(['serve', '--greeting'], env, { startApp: startApp(given) }, more);

    it('is printed to a terminal, and stands in no file', async () => {
      assert.match((await start(link, { isTerminal: true })).notes, /^http:\/\/127\.0\.0\.1:8025\/setup\/abc$/m);
      assert.ok(!existsSync(file()));
    });

    it('is written to a file for its owner alone elsewhere, which goes with its time or at a start that needs none', async () => {
      assert.doesNotMatch((await start(link)).notes, /setup/);
      assert.deepEqual([readFileSync(file(), 'utf8'), statSync(file()).mode & 0o777], [`${link.url}\n`, 0o600]);
      await start(null);
      assert.ok(!existsSync(file()));
      await start({ ...link, expires_at: '2001-01-01T00:00:00.000Z' });
      // Its timer has run out, which the loop sees after a turn.
      while (existsSync(file())) await new Promise((resolve) => setTimeout(resolve, 0));
    });
  });

  it('puts no key into the log of a service, nor into the journal of systemd', async () => {
    const { dev, ino } = fstatSync(2, { bigint: true });
    for (const [args, more] of [
      [['serve'], {}],
      [['serve', '--greeting'], { JOURNAL_STREAM: `${String(dev)}:${String(ino)}` }],
    ] as const) {
      const { code, notes } = await ran(args, { ...env, ...more }, { startApp: brief() });
      assert.deepEqual([code, notes], [0, '']);
    }
    assert.deepEqual(JSON.parse((await ran(['keys', 'list', '--json'], env)).out), { data: [] });
  });

  for (const [error, code, says] of [
    [Object.assign(new Error('listen'), { code: 'EADDRINUSE' }), 69, /something listens on 127\.0\.0\.1:8025 already/],
    [Object.assign(new Error('listen'), { code: 'EADDRINUSE', port: 8025 }), 69, /8025 already: change http\.port/],
    [
      Object.assign(new Error('listen'), { code: 'EADDRINUSE', port: 9125 }),
      69,
      /127\.0\.0\.1:9125 already: change metrics\.port/,
    ],
    [Object.assign(new Error('listen EACCES'), { code: 'EACCES' }), 77, /may not listen on port 8025/],
    [new Error('the disk is gone'), 70, /the disk is gone/],
    [
      Object.assign(new Error('SQLITE_CANTOPEN: unable to open database file'), { code: 'SQLITE_CANTOPEN' }),
      77,
      /^posthorn: this user \(\d+\) may not open or write /m,
    ],
    [
      Object.assign(new Error("EMFILE: too many open files, open 'dist/x.js'"), { code: 'EMFILE' }),
      70,
      /^posthorn: .*ulimit -n 1024/m,
    ],
    [new KeyFileError('/x/secret.key is missing'), 78, /^posthorn: \/x\/secret\.key is missing$/m],
  ] as const) {
    it(`ends with ${String(code)} where the start fails with ${error.message}`, async () => {
      const before = listeners();
      const failing: StartApp = () => Promise.reject(error);
      const ended = await ran(['serve'], { ...env, POSTHORN_METRICS__PORT: '9125' }, { startApp: failing });
      assert.equal(ended.code, code);
      assert.match(ended.notes, says);
      assert.deepEqual(listeners(), before);
    });
  }

  describe('under systemd, at a start that fails', () => {
    /** Fails the start. Resolves with the exit code and whether it waited, until a signal, before it ended. */
    async function failedStart(error: Error): Promise<{ code: number; waited: boolean }> {
      let tell: () => void = () => undefined;
      const failed = new Promise<void>((resolve) => {
        tell = resolve;
      });
      const startApp: StartApp = () => {
        tell();
        return Promise.reject(error);
      };
      const ended = ran(['serve'], { ...env, NOTIFY_SOCKET: '/nowhere/notify' }, { startApp });
      await failed;
      const waited = await Promise.race([
        ended.then(() => false),
        new Promise<boolean>((resolve) => setTimeout(resolve, 500, true)),
      ]);
      if (waited) process.emit('SIGTERM');
      return { code: (await ended).code, waited };
    }

    for (const [what, error, code] of [
      ['a port is taken', Object.assign(new Error('listen'), { code: 'EADDRINUSE' }), 69],
      ['an address is not up yet', Object.assign(new Error('listen'), { code: 'EADDRNOTAVAIL' }), 69],
      ['PostgreSQL does not answer', new DatabaseRefusal('unreachable', 'the database cannot be reached'), 69],
      ['a backup is being made', new Unavailable('no_backup', 'another backup is being made'), 73],
      ['the disk is full', Object.assign(new Error('full'), { code: 'ENOSPC' }), 74],
    ] as const) {
      it(`waits before it ends where ${what}, so that systemd does not give up`, async () => {
        assert.deepEqual(await failedStart(error), { code, waited: true });
      });
    }
    for (const [what, error, code] of [
      ['the program is at fault', new Error('a fault'), 70],
      ['a file is forbidden', Object.assign(new Error('no'), { code: 'EACCES', syscall: 'open' }), 77],
      ['the key is missing', new KeyFileError('/x/secret.key is missing'), 78],
    ] as const) {
      it(`ends at once where ${what}`, async () => {
        assert.deepEqual(await failedStart(error), { code, waited: false });
      });
    }
  });

  it('ends with 78 where a setting is wrong, before anything is opened', async () => {
    const { code, notes } = await ran(['serve'], { ...env, POSTHORN_HTTP__PORT: 'eighty' }, { startApp: brief() });
    assert.equal(code, 78);
    assert.match(notes, /^http\.port .*expected a port number/);
  });

  it('ends with 73 where a server runs on the same folder', async () => {
    const office = await Office.open();
    const control = await office.serve(folder);
    const { code, notes } = await ran(['serve'], env, { startApp: brief() });
    await control.close();
    await office.close();
    assert.equal(code, 73);
    assert.match(notes, /running on .* already/);
  });

  describe('as a process', () => {
    const READY = /"event":"ready"/;
    /** A child that runs longer is killed, so that the test fails and leaves nothing behind. */
    const MOST_CHILD_MS = 60_000;

    /** `start`, `stop` and `failed`: what the served program does, as source text. */
    function child({
      start = '',
      stop = '',
      failed = 'undefined',
      more = {},
    }: {
      start?: string;
      stop?: string;
      failed?: string;
      more?: Record<string, string>;
    }) {
      const program = `
        import { run } from ${JSON.stringify(pathToFileURL(path.resolve(import.meta.dirname, '../../src/cli/cli.ts')).href)};
        const startApp = async () => { ${start}; return { url: ${JSON.stringify(URL)}, reload: (config) => console.log('routes', Object.keys(config.delivery.routes).join()), failed: ${failed}, stop: async () => { ${stop} } }; };
        const open = setInterval(() => {}, 1000);
        process.exitCode = await run(['serve', '--greeting'], undefined, undefined, { startApp });
        clearInterval(open);`;
      const running = spawn(process.execPath, ['--import=tsx', '--input-type=module', '-e', program], {
        env: {
          PATH: process.env['PATH'],
          ...env,
          POSTHORN_LOG__LEVEL: 'info',
          POSTHORN_SMTP__HOSTNAME: 'mail.example.com',
          ...more,
        },
      });
      const said = { out: '', err: '' };
      const exit = new Promise<number | null>((resolve) => running.once('close', resolve));
      const tooLong = setTimeout(() => running.kill('SIGKILL'), MOST_CHILD_MS);
      running.once('close', () => clearTimeout(tooLong));
      for (const [stream, name] of [
        [running.stdout, 'out'],
        [running.stderr, 'err'],
      ] as const)
        stream.setEncoding('utf8').on('data', (text: string) => (said[name] += text));
      /** Waits until the child has said this. Fails where it ends without. */
      const says = async (name: keyof typeof said, pattern: RegExp): Promise<void> => {
        const stream = name === 'out' ? running.stdout : running.stderr;
        const life = { hasEnded: false };
        const end = exit.then(() => (life.hasEnded = true));
        while (!pattern.test(said[name])) {
          if (life.hasEnded) assert.fail(`the child has ended without ${String(pattern)}: ${said.out}${said.err}`);
          await Promise.race([new Promise((resolve) => stream.once('data', resolve)), end]);
        }
      };
      return { running, said, says, exit };
    }

    it('logs the commands to paste, but never the key', async () => {
      await makeDatabase();
      const { running, said, says, exit } = child({});
      await says('out', READY);
      // The key is shown after the line.
      await says('err', /\/v1\/events/);
      running.kill('SIGTERM');
      assert.equal(await exit, 0, said.err);
      const line = JSON.parse(said.out.split('\n').find((text) => text.includes('"ready"')) ?? '') as Record<
        string,
        string
      >;
      assert.deepEqual([line['url'], line['send']?.startsWith(`curl -sS ${URL}/v1/messages`)], [URL, true]);
      assert.match(said.err, /ak_test_/);
      assert.doesNotMatch(said.out, /ak_test_/);
    });

    it('ends at once with 1 at a second signal', async () => {
      const { running, says, exit } = child({ stop: 'await new Promise(() => {})' });
      await says('out', READY);
      const impatient = setInterval(() => running.kill('SIGTERM'), 100);
      assert.equal(await exit, 1);
      clearInterval(impatient);
    });

    it('ends at once with 1 at a signal while a server that cannot go on is stopping', async () => {
      const failed = "new Promise((resolve) => setTimeout(resolve, 10, new Error('the disk is gone')))";
      const { running, says, exit } = child({ failed, stop: "console.log('stopping'); await new Promise(() => {})" });
      await says('out', READY);
      const impatient = setInterval(() => running.kill('SIGTERM'), 600);
      assert.equal(await exit, 1);
      clearInterval(impatient);
    });

    it('reads the settings again at SIGHUP, and stays as it is where they have mistakes', async () => {
      await makeDatabase();
      const file = path.join(folder, 'posthorn.yaml');
      writeFileSync(file, 'delivery: { routes: { "a.test": hold } }');
      const stopping = {
        POSTHORN_HTTP__PUBLIC_URL: 'http://10.0.0.1',
        POSTHORN_DELIVERY__SOURCES: '[{"name":"out1","ipv4":"192.0.2.77"}]',
      };
      const { running, said, says, exit } = child({ more: { POSTHORN_CONFIG: file, ...stopping } });
      await says('out', READY);
      await says('err', /\/v1\/events/);
      const warned = (text: string): RegExp => new RegExp(`"event":"settings_warning","text":"${text}`);
      assert.match(said.out, warned('http\\.publicUrl \\(http://10\\.0\\.0\\.1\\) opens in a private network only'));
      assert.match(said.out, warned('delivery\\.sources: the address 192\\.0\\.2\\.77 of out1 is not on this machine'));
      writeFileSync(file, 'delivery: { routes: { "b.test": nonsense:: } }');
      running.kill('SIGHUP');
      await says('out', /"event":"reload_failed"/);
      writeFileSync(file, 'delivery: { routes: { "b.test": discard } }');
      running.kill('SIGHUP');
      await says('out', /^routes b\.test$/m);
      assert.doesNotMatch(said.out, /^routes a/m);
      const route = '{ host: relay.example, port: 587, tls: none, user: me, password: hunter2 }';
      writeFileSync(file, `delivery: { routes: { "c.test": ${route} } }`);
      running.kill('SIGHUP');
      await says('out', /"event":"settings_warning","text":"[^\n]*password goes to relay\.example in clear/);
      running.kill('SIGTERM');
      assert.equal(await exit, 0, said.err);
    });

    it('logs an error that nobody caught, and ends with 70', async () => {
      const { said, exit } = child({ start: "setTimeout(() => { throw new Error('a fault'); }, 1)" });
      assert.equal(await exit, 70);
      assert.match(said.out, /"event":"crashed".*a fault/);
    });
  });

  it('shows a test key also where a start that failed has made the database already', async () => {
    await makeDatabase();
    const busy: StartApp = () => Promise.reject(Object.assign(new Error('listen'), { code: 'EADDRINUSE' }));
    assert.doesNotMatch((await ran(['serve', '--greeting'], env, { startApp: busy })).notes, /ak_test_/);
    assert.match((await ran(['serve', '--greeting'], env, { startApp: brief() })).notes, /Bearer ak_test_/);
  });

  it('does not migrate a database for a command that only looks', async () => {
    const db = await openDatabase({ url: `sqlite:${path.join(folder, 'posthorn.db')}` });
    openKeyring(folder);
    await db.commit.transact((tx) => tx.run('DELETE FROM migrations WHERE id = (SELECT MAX(id) FROM migrations)'));
    await db.close();
    const { code, notes } = await ran(['books'], env);
    assert.equal(code, exitCodes.noInput, notes);
    assert.match(notes, /the database is of an earlier version: run `posthorn migrate`, or start the server/);
  });

  it('makes no key where there is one', async () => {
    await makeDatabase();
    await ran(['keys', 'create', '--name', 'shop', '--scopes', 'send'], env);
    assert.equal((await ran(['serve', '--greeting'], env, { startApp: brief() })).notes, '');
  });
});
