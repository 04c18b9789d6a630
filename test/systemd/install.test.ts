/** The install script, run on folders that look like a system: twice, over files that were changed, and back again. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { assertRuns, whyNotBuilt } from '../support/harness/installed.ts';

const project = path.resolve(import.meta.dirname, '../..');

/** Everything in a folder: name -> rights, owner, and what is in it. */
function treeOf(root: string): Map<string, string> {
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' }).sort();
  return new Map(
    names.map((name) => {
      const file = path.join(root, name);
      const stats = lstatSync(file);
      const { mode, uid, gid, size, mtimeMs } = stats;
      const held = stats.isSymbolicLink() ? readlinkSync(file) : `${String(size)} ${String(mtimeMs)}`;
      return [name, `${mode.toString(8)} ${String(uid)}:${String(gid)} ${held}`];
    }),
  );
}

const run = (script: string, ...args: string[]): { status: number | null; out: string; err: string } => {
  const { status, stdout, stderr } = spawnSync(path.join(project, 'systemd', script), args, { encoding: 'utf8' });
  return { status, out: stdout, err: stderr };
};

function whatIsMissing(): string | null {
  if (process.getuid?.() !== 0) return 'the install script has to run as root';
  const notBuilt = whyNotBuilt(project);
  if (notBuilt !== null) return notBuilt;
  const missing = ['systemd-sysusers', 'systemd-tmpfiles', 'systemctl'].filter(
    (tool) => spawnSync(tool, ['--version']).status !== 0,
  );
  return missing.length === 0 ? null : `${missing.join(', ')} is not installed (apt-get install systemd)`;
}

describe('systemd/install.sh', () => {
  /** One system for all of them, in this order: a run of the script takes seconds. */
  let root = '';
  let atFirst: string[] = [];

  before(function () {
    const missing = whatIsMissing();
    if (missing !== null) this.skip(missing);
    root = mkdtempSync(path.join(os.tmpdir(), 'ph-root-'));
    chmodSync(root, 0o755);
    for (const folder of ['etc', 'var/lib', 'var/backups', 'opt'])
      mkdirSync(path.join(root, folder), { recursive: true });
    writeFileSync(path.join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
    writeFileSync(path.join(root, 'etc/group'), 'root:x:0:\n');
    atFirst = [...treeOf(root).keys()];
  });
  after(() => {
    if (root !== '') rmSync(root, { recursive: true });
  });

  it('refuses a systemd that is too old, before anything is changed', () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-tools-'));
    const tool = (name: string, text: string): void => {
      writeFileSync(path.join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    };
    // A Node.js that is too old ends the script at its next check, so that this never installs into the system of who runs the tests.
    tool('node', 'exit 1');
    const refusalWith = (version: string): string => {
      tool('systemctl', `echo '${version}'`);
      const env = { ...process.env, PATH: `${folder}:${process.env['PATH'] ?? ''}` };
      const script = path.join(project, 'systemd/install.sh');
      const { status, stderr } = spawnSync(script, [], { env, encoding: 'utf8' });
      assert.notEqual(status, 0);
      return stderr;
    };
    assert.match(refusalWith('systemd 249 (249.11-0ubuntu3)'), /systemd 250 or newer is needed; this is 249/);
    assert.match(refusalWith('systemd 250 (250.4-1)'), /Node\.js 20\.19 or newer is needed/);
    rmSync(folder, { recursive: true });
  });

  it('leaves the same tree when it runs twice, with a program that runs', () => {
    const first = run('install.sh', '--root', root);
    assert.equal(first.status, 0, first.err);
    const tree = treeOf(root);
    const second = run('install.sh', '--root', root);
    assert.deepEqual([second.status, second.err], [0, '']);
    assert.match(second.out, /nothing has changed/);
    assert.deepEqual(treeOf(root), tree);

    const command = path.join(root, 'opt/posthorn/src/bin/posthorn.cjs');
    const env = { PATH: process.env['PATH'], POSTHORN_CONFIG: path.join(root, 'etc/posthorn/posthorn.yaml') };
    const { status, stdout, stderr } = spawnSync(process.execPath, [command, 'config', 'show', '--json'], {
      env,
      encoding: 'utf8',
    });
    assert.equal(status, 0, stderr);
    assert.match(stdout, /\/var\/lib\/posthorn\/posthorn\.db/);
    // Files that are only for development stay behind.
    assert.equal(existsSync(path.join(root, 'opt/posthorn/node_modules/typescript')), false);
    assert.equal(
      existsSync(path.join(root, 'opt/posthorn/node_modules/sqlite3/build/Release/node_sqlite3.node')),
      true,
    );
    assert.match(readFileSync(path.join(root, 'etc/passwd'), 'utf8'), /^posthorn:.*:\/usr\/sbin\/nologin$/m);
    assert.match(tree.get('etc/posthorn/credentials') ?? '', /^40700 0:0 /);
    assert.match(tree.get('etc/posthorn/posthorn.yaml') ?? '', /^100640 0:[1-9]/);
    assert.equal(tree.has('etc/systemd/system/multi-user.target.wants/posthorn.service'), true);
  });

  it('brings every file that the program reads, and none for development', async () => {
    const config = readdirSync(path.join(root, 'opt/posthorn/config'));
    assert.deepEqual(
      config.filter((name) => /eslint|knip/.test(name)),
      [],
    );
    assert.ok(existsSync(path.join(root, 'opt/posthorn/config/monitoring/alerts.yaml')));
    await assertRuns(path.join(root, 'opt/posthorn'));
  });

  it('upgrades what is old, and never touches settings', () => {
    const settings = path.join(root, 'etc/posthorn/posthorn.yaml');
    appendFileSync(settings, 'log: { level: debug }\n');
    const mine = readFileSync(settings, 'utf8');
    writeFileSync(path.join(root, 'opt/posthorn/package.json'), '{"version":"0.0.1"}');
    writeFileSync(path.join(root, 'opt/posthorn/left-over'), '');
    appendFileSync(path.join(root, 'etc/systemd/system/posthorn.service'), '# old\n');
    // A run that broke off.
    mkdirSync(path.join(root, 'opt/posthorn.new'));
    const again = run('install.sh', '--root', root);
    assert.equal(again.status, 0, again.err);
    assert.doesNotMatch(again.out, /nothing has changed/);
    assert.equal(readFileSync(settings, 'utf8'), mine);
    assert.equal(
      readFileSync(path.join(root, 'opt/posthorn/package.json'), 'utf8'),
      readFileSync(path.join(project, 'package.json'), 'utf8'),
    );
    assert.deepEqual(readdirSync(path.join(root, 'opt')), ['posthorn']);
    assert.equal(existsSync(path.join(root, 'opt/posthorn/left-over')), false);
    assert.doesNotMatch(readFileSync(path.join(root, 'etc/systemd/system/posthorn.service'), 'utf8'), /# old/);
  });

  it('leaves what was switched off as it is', () => {
    const link = path.join(root, 'etc/systemd/system/timers.target.wants/posthorn-backup.timer');
    assert.ok(lstatSync(link).isSymbolicLink());
    rmSync(link);
    const again = run('install.sh', '--root', root);
    assert.equal(again.status, 0, again.err);
    assert.match(again.out, /^posthorn: posthorn-backup\.timer is switched off and stays so; .* enable --now/m);
    assert.doesNotMatch(again.out, /posthorn\.service is switched off/);
    assert.equal(lstatSync(link, { throwIfNoEntry: false }), undefined);
  });

  it('lets the units write where the settings say, and takes that back', () => {
    const settings = path.join(root, 'etc/posthorn/posthorn.yaml');
    const before = readFileSync(settings, 'utf8');
    const dropIn = (unit: string): string => path.join(root, `etc/systemd/system/${unit}.d/10-folders.conf`);
    mkdirSync(path.join(root, 'srv'));
    writeFileSync(settings, 'dataDir: /var/lib/posthorn\nbackup: { dir: /srv/bk 100% }\n');
    const first = run('install.sh', '--root', root);
    assert.equal(first.status, 0, first.err);
    assert.match(first.out, /made \/srv\/bk 100% for the service\n.*the units may write where the settings say/);
    for (const unit of ['posthorn.service', 'posthorn-backup.service'])
      assert.match(readFileSync(dropIn(unit), 'utf8'), /^\[Service\]\nReadWritePaths="-\/srv\/bk 100%%"$/m);
    assert.match(readFileSync(dropIn('posthorn-backup.service'), 'utf8'), /^RequiresMountsFor="\/srv\/bk 100%%"$/m);
    const folder = lstatSync(path.join(root, 'srv/bk 100%'));
    assert.deepEqual([folder.mode & 0o777, folder.uid > 0], [0o700, true]);
    assert.match(run('install.sh', '--root', root).out, /nothing has changed/);

    const paths = path.join(root, 'opt/posthorn/systemd/paths.sh');
    const again = (text: string): ReturnType<typeof spawnSync> => {
      writeFileSync(settings, text);
      return spawnSync(paths, ['--root', root], { encoding: 'utf8' });
    };
    const moved = again('dataDir: /srv/data\nbackup: { dir: /var/backups/posthorn }\n');
    assert.equal(moved.status, 0, String(moved.stderr));
    assert.match(
      readFileSync(dropIn('posthorn-backup.service'), 'utf8'),
      /^ConditionPathExists=\nConditionPathExists=\/srv\/data\/secret\.key$/m,
    );
    // The backup of PostgreSQL is pg_dump: the timer's unit is skipped.
    assert.equal(
      again('dataDir: /var/lib/posthorn\nstorage: { url: "postgres://posthorn@db.example.com/posthorn" }\n').status,
      0,
    );
    assert.match(readFileSync(dropIn('posthorn-backup.service'), 'utf8'), /^ConditionPathExists=!\/$/m);
    assert.equal(existsSync(dropIn('posthorn.service')), false);
    assert.equal(again('dataDir: /srv/data\n').status, 0);
    assert.doesNotMatch(readFileSync(dropIn('posthorn-backup.service'), 'utf8'), /!/);
    const wrong = again('backup: { dri: /srv/bk }\n');
    assert.equal(wrong.status, 1);
    assert.match(String(wrong.stderr), /the settings have mistakes.*backup\.dri: unknown setting/);
    assert.ok(existsSync(dropIn('posthorn.service')));
    assert.equal(again('backup: { dir: "/srv/\\"x" }\n').status, 1);
    assert.equal(again(before).status, 0);
    assert.equal(existsSync(path.dirname(dropIn('posthorn.service'))), false);
    rmSync(path.join(root, 'srv'), { recursive: true });
  });

  it('refuses a build that broke off or is older than its sources, and packages that are not those of the lockfile', () => {
    const stale = mkdtempSync(path.join(os.tmpdir(), 'ph-stale-'));
    for (const folder of ['systemd', 'dist/src', 'src', 'migrations'])
      mkdirSync(path.join(stale, folder), { recursive: true });
    for (const name of ['install.sh', 'common.sh'])
      copyFileSync(path.join(project, 'systemd', name), path.join(stale, 'systemd', name));
    for (const file of ['dist/src/main.js', 'dist/.built', 'src/main.ts', 'package.json'])
      writeFileSync(path.join(stale, file), '{}');
    utimesSync(path.join(stale, 'dist/.built'), 1, 1);
    const refusal = (): string => {
      const script = path.join(stale, 'systemd/install.sh');
      const { status, stderr } = spawnSync('sh', [script, '--root', root], { encoding: 'utf8' });
      assert.equal(status, 1);
      return stderr;
    };
    assert.match(refusal(), /older than its sources/);

    // tsc writes its files although it found errors; the build then ends before it writes this one.
    rmSync(path.join(stale, 'dist/.built'));
    assert.match(refusal(), /the build has broken off/);
    writeFileSync(path.join(stale, 'dist/.built'), '');

    const release = path.join(stale, 'node_modules/sqlite3/build/Release');
    mkdirSync(release, { recursive: true });
    writeFileSync(path.join(release, 'node_sqlite3.node'), '');
    const packages = {
      'node_modules/koa': { version: '3.3.0' },
      'node_modules/mocha': { version: '1.0.0', dev: true },
      'node_modules/fsevents': { version: '1.0.0', optional: true },
    };
    writeFileSync(path.join(stale, 'package-lock.json'), JSON.stringify({ packages }));
    assert.match(refusal(), /packages are not those of package-lock\.json \(koa\)/);
    mkdirSync(path.join(stale, 'node_modules/koa'));
    writeFileSync(path.join(stale, 'node_modules/koa/package.json'), '{"version":"2.0.0"}');
    assert.match(refusal(), /packages are not those of package-lock\.json \(koa\)/);
    rmSync(stale, { recursive: true });
  });

  it('is undone by uninstall.sh, which keeps data and settings unless told', () => {
    writeFileSync(path.join(root, 'var/lib/posthorn/posthorn.db'), 'mail');
    assert.equal(run('uninstall.sh', '--root', root).status, 0);
    const kept = [...treeOf(root).keys()].filter((name) => name.includes('posthorn'));
    assert.deepEqual(kept, [
      'etc/posthorn',
      'etc/posthorn/credentials',
      'etc/posthorn/posthorn.yaml',
      'var/backups/posthorn',
      'var/lib/posthorn',
      'var/lib/posthorn/posthorn.db',
    ]);
    assert.equal(run('uninstall.sh', '--root', root, '--purge').status, 0);
    const left = [...treeOf(root).keys()];
    assert.deepEqual(
      left.filter((name) => name.includes('posthorn')),
      [],
    );
    assert.deepEqual(
      atFirst.filter((name) => !left.includes(name)),
      [],
    );
    assert.doesNotMatch(readFileSync(path.join(root, 'etc/passwd'), 'utf8'), /posthorn/);
  });

  for (const [args, says] of [
    [['--root', '/nowhere/at/all'], /there is no folder/],
    [['--prefix', '/x'], /unknown option --prefix/],
  ] as const) {
    for (const script of ['install.sh', 'uninstall.sh']) {
      it(`${script} ${args.join(' ')} is refused`, () => {
        const { status, err } = run(script, ...args);
        assert.equal(status, 1);
        assert.match(err, says);
      });
    }
  }
});
