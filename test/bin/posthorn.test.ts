import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, copyFileSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const real = path.resolve(import.meta.dirname, '../../src/bin/posthorn.cjs');

/** Uses the thread pool, whose threads all start at its first use, and prints how many threads the process then has. */
const COUNT_THREADS = `
  import { scrypt } from 'node:crypto';
  import { readdirSync } from 'node:fs';
  scrypt('p', 's', 32, { N: 2 }, () => console.log(readdirSync('/proc/self/task').length));
`;

describe('bin/posthorn.cjs', () => {
  let folder: string;
  const launch = (
    env: Record<string, string> = {},
    args: readonly string[] = [path.join(folder, 'src/bin/posthorn.cjs')],
  ) => {
    const { UV_THREADPOOL_SIZE: _, ...inherited } = process.env;
    return spawnSync(process.execPath, args, { encoding: 'utf8', env: { ...inherited, NODE_OPTIONS: '', ...env } });
  };
  const build = (program: string): void => {
    mkdirSync(path.join(folder, 'dist/src'), { recursive: true });
    writeFileSync(path.join(folder, 'dist/src/main.js'), program);
  };

  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-bin-'));
    mkdirSync(path.join(folder, 'src/bin'), { recursive: true });
    copyFileSync(real, path.join(folder, 'src/bin/posthorn.cjs'));
    writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}');
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('says what to do where nothing is built', () => {
    const { status, stderr } = launch();
    assert.equal(status, 69);
    assert.match(stderr, /not built yet.*npm run build/);
  });

  it('says which Node.js it needs', () => {
    const pretend = `Object.defineProperty(process.versions, 'node', { value: '20.18.3' }); require(${JSON.stringify(path.join(folder, 'src/bin/posthorn.cjs'))});`;
    const { status, stderr } = launch({}, ['-e', pretend]);
    assert.equal(status, 69);
    assert.match(stderr, /needs Node\.js 20\.19 or newer; this is 20\.18\.3/);
  });

  it('hands on arguments and exit code', () => {
    build('console.log(process.argv.slice(2).join()); process.exitCode = 78;');
    const { status, stdout } = launch({}, [path.join(folder, 'src/bin/posthorn.cjs'), 'config', 'check']);
    assert.deepEqual([status, stdout], [78, 'config,check\n']);
  });

  it('ends with 70 when the program breaks while it loads', () => {
    build("throw new Error('broken')");
    const { status, stderr } = launch();
    assert.equal(status, 70);
    assert.match(stderr, /broken/);
  });

  it('says so where the shell allows too few open files to load it', () => {
    build("throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })");
    const { status, stderr } = launch();
    assert.equal(status, 70);
    assert.match(stderr, /^posthorn: .*ulimit -n 1024/);
    assert.doesNotMatch(stderr, /at /);
  });

  it('really has eight threads in the pool, unless the environment names another number', function () {
    if (process.platform !== 'linux') this.skip('Linux only');
    build(COUNT_THREADS);
    const threads = (env: Record<string, string>): number => Number(launch(env).stdout);
    const alone = threads({ UV_THREADPOOL_SIZE: '1' }) - 1;
    assert.ok(alone > 0);
    assert.equal(threads({}) - alone, 8);
    assert.equal(threads({ UV_THREADPOOL_SIZE: '3' }) - alone, 3);
  });
});

describe('main', () => {
  it('says in one line that its result cannot be written, and ends with 74', () => {
    const full = openSync('/dev/full', 'w');
    const { status, stderr } = spawnSync(process.execPath, ['--import', 'tsx', 'src/main.ts', 'completion', 'bash'], {
      cwd: path.resolve(import.meta.dirname, '../..'),
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    closeSync(full);
    assert.equal(status, 74, stderr);
    assert.match(stderr, /^posthorn: the result cannot be written: [^\n]+\n$/);
  });
});
