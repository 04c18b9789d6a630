/** The units as systemd reads them: no mistakes, and little that they could do if they were taken over. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const folder = path.resolve(import.meta.dirname, '../../systemd');
const unit = (name: string): string => readFileSync(path.join(folder, name), 'utf8');
const names = readdirSync(folder).filter((name) => /\.(service|socket|timer)$/.test(name));
/** All values of a setting, in order. */
const values = (name: string, key: string): string[] =>
  [...unit(name).matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value = '']) => value);

const analyze = (...args: string[]): { status: number | null; said: string } => {
  const { status, stdout, stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
  return { status, said: stdout + stderr };
};

describe('units', () => {
  /** Units with the Node.js of this machine: systemd-analyze looks whether the program is there. */
  let here = '';
  before(function () {
    if (spawnSync('systemd-analyze', ['--version']).status !== 0)
      this.skip('systemd-analyze is not installed (apt-get install systemd)');
    here = mkdtempSync(path.join(os.tmpdir(), 'ph-units-'));
    for (const name of names)
      writeFileSync(path.join(here, name), unit(name).replaceAll('/usr/bin/node', process.execPath));
  });
  after(() => {
    if (here !== '') rmSync(here, { recursive: true });
  });

  it('are found', () => {
    assert.deepEqual(names, [
      'posthorn-backup.service',
      'posthorn-backup.timer',
      'posthorn.service',
      'posthorn.socket',
    ]);
  });
  for (const name of names) {
    it(`${name} passes systemd-analyze verify`, () => {
      assert.deepEqual(analyze('verify', '--man=no', path.join(here, name)), { status: 0, said: '' });
    });
  }
  for (const name of names.filter((one) => one.endsWith('.service'))) {
    it(`${name} is exposed by 2.0 at most`, () => {
      const { status, said } = analyze(
        'security',
        '--offline=true',
        '--threshold=20',
        '--no-pager',
        path.join(here, name),
      );
      assert.equal(status, 0, said.trim().split('\n').at(-1));
    });
  }
});

describe('posthorn.socket', () => {
  it('leaves the service no right and no other user, with what it needs for that', () => {
    const service = unit('posthorn.service') + unit('without-capability.conf');
    const last = (key: string): string | undefined =>
      [...service.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].at(-1)?.[1];
    assert.deepEqual(['AmbientCapabilities', 'CapabilityBoundingSet', 'PrivateUsers', 'Wants'].map(last), [
      '',
      '',
      'true',
      'posthorn.socket',
    ]);
    assert.deepEqual(
      values('posthorn.socket', 'ListenStream').map((place) => place.split(':')[1]),
      ['25', '587', '465'],
    );
  });
});

describe('posthorn.service', () => {
  const one = (key: string): string | undefined => values('posthorn.service', key).at(-1);

  it('has the terms of service that the server keeps to', () => {
    assert.deepEqual(
      ['Type', 'NotifyAccess', 'WatchdogSec', 'TimeoutStopSec', 'KillMode', 'AmbientCapabilities', 'User'].map(one),
      ['notify', 'all', '60', '75', 'mixed', 'CAP_NET_BIND_SERVICE', 'posthorn'],
    );
  });
  it('is not started again where another start changes nothing', () => {
    assert.deepEqual(one('RestartPreventExitStatus')?.split(' '), ['64', '77', '78']);
  });
  it('may start Node.js and what tells the service manager, and nothing that is not of the system', () => {
    assert.equal(one('NoExecPaths'), '/');
    const paths = values('posthorn.service', 'ExecPaths').flatMap((value) => value.split(' '));
    assert.deepEqual(
      paths.filter((name) => !/^-?\/(?:usr\/)?(?:local\/)?lib/.test(name)),
      ['/usr/bin/node', '/bin/sh', '-/usr/bin/systemd-notify', '/opt/posthorn/node_modules/sqlite3'],
    );
  });
  it('may write only where its folders are', () => {
    assert.equal(one('ProtectSystem'), 'strict');
    assert.deepEqual(values('posthorn.service', 'ReadWritePaths'), ['-/var/backups/posthorn']);
    assert.equal(one('StateDirectory'), 'posthorn');
    assert.match(unit('posthorn.yaml'), /^dataDir: \/var\/lib\/posthorn$/m);
    assert.match(unit('posthorn.tmpfiles'), /^d \/var\/backups\/posthorn 0700 posthorn posthorn -$/m);
  });
});
