import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const real = path.resolve(import.meta.dirname, '../../src/bin/ready.mjs');
const lock = (versions: Record<string, string>): string =>
  JSON.stringify({
    packages: {
      '': { name: 'x' },
      ...Object.fromEntries(Object.entries(versions).map(([name, version]) => [`node_modules/${name}`, { version }])),
    },
  });

/** A checkout with an `npm` that notes how it was called, and does or fails what it is told to. */
describe('bin/ready.mjs', () => {
  let folder: string;
  const at = (name: string): string => path.join(folder, name);
  const put = (name: string, text: string): void => {
    mkdirSync(path.dirname(at(name)), { recursive: true });
    writeFileSync(at(name), text);
  };
  const fakeNpm = (script: string): void => {
    put('tools/npm', `#!/bin/sh\necho "$*" >> ${at('calls')}\n${script}\n`);
    chmodSync(at('tools/npm'), 0o755);
  };
  const ready = (searchPath = `${at('tools')}:${process.env['PATH'] ?? ''}`, tellEvery = '60000') => {
    const told = openSync(at('told'), 'w');
    const { status, stdout } = spawnSync(process.execPath, [at('src/bin/ready.mjs'), tellEvery], {
      encoding: 'utf8',
      env: { ...process.env, PATH: searchPath },
      stdio: ['ignore', 'pipe', told],
    });
    closeSync(told);
    const stderr = readFileSync(at('told'), 'utf8');
    const calls = existsSync(at('calls')) ? readFileSync(at('calls'), 'utf8').trim().split('\n') : [];
    return { status, stdout, stderr, calls };
  };
  const isBuilt = (secondsAgo: number): void => {
    put('dist/.built', '');
    const time = Date.now() / 1000 - secondsAgo;
    utimesSync(at('dist/.built'), time, time);
  };

  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-ready-'));
    mkdirSync(at('src/bin'), { recursive: true });
    copyFileSync(real, at('src/bin/ready.mjs'));
    for (const name of ['package.json', 'tsconfig.json', 'src/main.ts', 'migrations/001.ts']) put(name, '{}');
    put('package-lock.json', lock({ zod: '4.0.0', sqlite3: '6.0.1' }));
    put('node_modules/.package-lock.json', lock({ zod: '4.0.0', sqlite3: '6.0.1' }));
    put('node_modules/sqlite3/build/Release/node_sqlite3.node', '');
    isBuilt(-3600);
    fakeNpm('exit 0');
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('does nothing and says nothing when all is there', () => {
    assert.deepEqual(ready(), { status: 0, stdout: '', stderr: '', calls: [] });
  });

  for (const [reason, change] of [
    ['nothing is installed', () => rmSync(at('node_modules'), { recursive: true })],
    ['a version in the lockfile changed', () => put('package-lock.json', lock({ zod: '4.0.1', sqlite3: '6.0.1' }))],
    ['a package was added', () => put('package-lock.json', lock({ zod: '4.0.0', sqlite3: '6.0.1', koa: '3.0.0' }))],
    ['sqlite3 has no binary', () => rmSync(at('node_modules/sqlite3/build'), { recursive: true })],
  ] as const) {
    it(`installs where ${reason}`, () => {
      change();
      const { status, stderr, calls } = ready();
      assert.equal(status, 0);
      assert.match(stderr, /installing packages/);
      assert.deepEqual(calls, ['ci --include=dev --no-audit --no-fund']);
    });
  }

  it('does not miss optional packages of other platforms', () => {
    put(
      'package-lock.json',
      JSON.stringify({ packages: { 'node_modules/fsevents': { version: '2.0.0', optional: true } } }),
    );
    assert.deepEqual(ready().calls, []);
  });

  for (const [reason, change] of [
    ['nothing is built', () => rmSync(at('dist'), { recursive: true })],
    ['a source is newer', () => isBuilt(3600)],
    [
      'a source was removed',
      () => {
        isBuilt(-0.001);
        put('src/gone.ts', '');
        rmSync(at('src/gone.ts'));
        utimesSync(at('src'), Date.now() / 1000 + 120, Date.now() / 1000 + 120);
      },
    ],
  ] as const) {
    it(`builds where ${reason}`, () => {
      change();
      const { status, calls } = ready();
      assert.equal(status, 0);
      assert.deepEqual(calls, ['run --silent build']);
    });
  }

  it('tells who waits what it is at, and when a compiler runs', () => {
    rmSync(at('node_modules'), { recursive: true });
    // It goes on when that was told, or when the one that tells it has ended.
    const until = (words: string): string =>
      `while kill -0 $PPID 2>/dev/null && ! grep -q '${words}' '${at('told')}'; do :; done`;
    const compiling = 'mkdir -p node_modules/sqlite3/build/Release/obj.target';
    fakeNpm([until('fetching packages'), compiling, until('compiling sqlite3')].join('\n'));
    const { status, stderr } = ready(undefined, '1');
    assert.equal(status, 0);
    assert.match(stderr, /^posthorn: fetching packages \(\d+ s\)$/m);
    assert.match(stderr, /^posthorn: compiling sqlite3, .*some minutes, only this once \(\d+ s\)$/m);
  });

  it('shows what npm said when it fails, and names the compilers that are missing', () => {
    rmSync(at('node_modules'), { recursive: true });
    fakeNpm('echo "gyp ERR! not ok" >&2; exit 1');
    const broken = ready();
    assert.equal(broken.status, 1);
    assert.match(broken.stderr, /gyp ERR! not ok/);
    const bare = ready(at('tools'));
    assert.equal(bare.status, 1);
    assert.match(
      bare.stderr,
      /missing: python3 make g\+\+\.\nOn Debian and Ubuntu: apt-get install python3 make g\+\+/,
    );
  });

  for (const [what, said, explained] of [
    [
      'the registry cannot be reached',
      'npm error code EAI_AGAIN\nnpm error request to https://registry.example/koa failed, reason: getaddrinfo EAI_AGAIN',
      /registry of packages cannot be reached.*proxy[^]*npm run pack:offline/,
    ],
    [
      'neither the binary of sqlite3 nor the headers can be fetched',
      'npm error gyp ERR! stack FetchError: request to https://nodejs.org/download/release/v20/node-headers.tar.gz failed, reason: getaddrinfo ENOTFOUND nodejs.org',
      /no binary of sqlite3.*github\.com.*nodejs\.org[^]*npm_config_nodedir=\/usr[^]*npm run pack:offline/,
    ],
  ] as const) {
    it(`says what to do where ${what}`, () => {
      rmSync(at('node_modules'), { recursive: true });
      for (const compiler of ['python3', 'make', 'g++'])
        writeFileSync(at(`tools/${compiler}`), '#!/bin/sh\n', { mode: 0o755 });
      put('said', said);
      fakeNpm(`cat '${at('said')}' >&2; exit 1`);
      const { status, stderr } = ready();
      assert.equal(status, 1);
      assert.match(stderr, explained);
    });
  }

  it('refuses a path with a space before npm runs, unless all is installed', () => {
    const spaced = path.join(folder, 'with a space');
    const parts = readdirSync(folder);
    mkdirSync(spaced);
    for (const part of parts) cpSync(at(part), path.join(spaced, part), { recursive: true, preserveTimestamps: true });
    const script = path.join(spaced, 'src/bin/ready.mjs');
    const run = () => spawnSync(process.execPath, [script], { encoding: 'utf8', env: { PATH: at('tools') } });
    assert.equal(run().status, 0);
    rmSync(path.join(spaced, 'node_modules'), { recursive: true });
    const { status, stderr } = run();
    assert.equal(status, 1);
    assert.match(stderr, /has a space in it \(.*with a space\).*\nMove it to a path without spaces/);
  });
});
