/** The file for machines without a network: packed, checked, unpacked elsewhere, installed and run with no tool to fetch or compile. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { assertRuns, whyNotBuilt } from '../support/harness/installed.ts';

const project = path.resolve(import.meta.dirname, '../..');
/** Tools that a machine of this kind does not have. */
const absent = ['npm', 'npx', 'git', 'gcc', 'g++', 'make', 'python3', 'curl', 'wget'];

describe('systemd/pack-offline.sh', () => {
  let folder = '';
  let archive = '';
  let unpacked = '';

  before(function () {
    const missing = whyNotBuilt(project);
    if (missing !== null) this.skip(missing);
    folder = mkdtempSync(path.join(os.tmpdir(), 'ph offline-'));
    chmodSync(folder, 0o755);
    const { status, stderr } = pack(folder);
    assert.equal(status, 0, stderr);
    archive = readdirSync(folder).find((name) => name.endsWith('.tar.gz')) ?? '';
    assert.equal(spawnSync('tar', ['-xzf', archive], { cwd: folder }).status, 0);
    unpacked = path.join(folder, archive.replace('.tar.gz', ''));
  });
  after(() => {
    if (folder !== '') rmSync(folder, { recursive: true });
  });
  const pack = (to: string) =>
    spawnSync(path.join(project, 'systemd/pack-offline.sh'), ['--to', to], { encoding: 'utf8' });

  it('names version, system and architecture, and has a checksum', () => {
    const { version } = JSON.parse(readFileSync(path.join(project, 'package.json'), 'utf8')) as { version: string };
    assert.equal(archive, `posthorn-${version}-${process.platform}-${process.arch}.tar.gz`);
    const { status, stdout } = spawnSync('sha256sum', ['--check', `${archive}.sha256`], {
      cwd: folder,
      encoding: 'utf8',
    });
    assert.deepEqual([status, stdout], [0, `${archive}: OK\n`]);
  });

  it('is the same, byte for byte, when it is made again', () => {
    const first = readFileSync(path.join(folder, `${archive}.sha256`), 'utf8');
    const again = path.join(folder, 'again');
    mkdirSync(again);
    assert.equal(pack(again).status, 0);
    assert.equal(readFileSync(path.join(again, `${archive}.sha256`), 'utf8'), first);
  });

  it('has what runs, and nothing for development', () => {
    for (const file of ['dist/src/main.js', 'systemd/install.sh', 'config/posthorn.yaml', 'docs/install.md'])
      assert.ok(existsSync(path.join(unpacked, file)), file);
    for (const file of ['node_modules/typescript', 'src/main.ts', 'src/bin/ready.mjs', 'test'])
      assert.equal(existsSync(path.join(unpacked, file)), false, file);
  });

  it('runs from a folder with a space in its name', async () => {
    await assertRuns(unpacked);
  });

  it('runs without any network', function () {
    const cut = ['--user', '--map-root-user', '--net', '--'];
    if (spawnSync('unshare', [...cut, 'true']).status !== 0) this.skip('namespaces are not allowed here');
    const env = {
      PATH: process.env['PATH'],
      POSTHORN_CONFIG: '/dev/null',
      POSTHORN_DATA_DIR: path.join(folder, 'data'),
    };
    const program = path.join(unpacked, 'src/bin/posthorn.cjs');
    const run = (...args: string[]) =>
      spawnSync('unshare', [...cut, process.execPath, program, ...args], { env, encoding: 'utf8' });
    assert.equal(run('migrate').status, 0);
    const made = run('keys', 'create', '--name', 'k', '--scopes', 'send', '--json');
    assert.equal(made.status, 0, made.stderr);
    assert.match(made.stdout, /ak_live_/);
  });

  it('installs with none of the tools that fetch or compile', function () {
    if (process.getuid?.() !== 0) this.skip('the install script has to run as root');
    const missing = ['systemd-sysusers', 'systemd-tmpfiles', 'systemctl'].filter(
      (tool) => spawnSync(tool, ['--version']).status !== 0,
    );
    if (missing.length > 0) this.skip(`${missing.join(', ')} is not installed (apt-get install systemd)`);
    const root = path.join(folder, 'root');
    for (const place of ['etc', 'var/lib', 'var/backups', 'opt', 'bin'])
      mkdirSync(path.join(root, place), { recursive: true });
    writeFileSync(path.join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
    writeFileSync(path.join(root, 'etc/group'), 'root:x:0:\n');
    const calls = path.join(folder, 'calls');
    for (const tool of absent)
      writeFileSync(path.join(root, 'bin', tool), `#!/bin/sh\necho ${tool} >>'${calls}'; exit 127\n`, { mode: 0o755 });
    const env = { ...process.env, PATH: `${path.join(root, 'bin')}:${process.env['PATH'] ?? ''}` };
    const install = () =>
      spawnSync('sh', [path.join(unpacked, 'systemd/install.sh'), '--root', root], { env, encoding: 'utf8' });
    const first = install();
    assert.equal(first.status, 0, first.stderr);
    assert.match(install().stdout, /nothing has changed/);
    assert.equal(existsSync(calls), false, 'a tool was asked for');
    assert.ok(existsSync(path.join(root, 'opt/posthorn/dist/src/main.js')));
  });

  it('refuses a checkout that is not built, and unknown options', () => {
    const bare = path.join(folder, 'bare');
    mkdirSync(path.join(bare, 'systemd'), { recursive: true });
    for (const name of ['pack-offline.sh', 'stage-program.sh', 'common.sh'])
      writeFileSync(path.join(bare, 'systemd', name), readFileSync(path.join(project, 'systemd', name)));
    for (const [args, says] of [
      [[], /not built: in .* run `npm ci && npm run build`/],
      [['--to', '/nowhere/at/all'], /there is no folder/],
      [['--into', 'x'], /unknown option --into/],
    ] as const) {
      const { status, stderr } = spawnSync('sh', [path.join(bare, 'systemd/pack-offline.sh'), ...args], {
        encoding: 'utf8',
      });
      assert.equal(status, 1);
      assert.match(stderr, says);
    }
  });
});
