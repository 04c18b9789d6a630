/** Runs systemd/paths.sh with settings, on a folder that looks like a system, with this program in place of a build. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const project = path.resolve(import.meta.dirname, '../..');

describe('systemd/paths.sh', () => {
  let root = '';
  before(function () {
    if (process.getuid?.() !== 0) this.skip('the script has to run as root');
    root = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'ph-paths-')));
    for (const folder of ['etc/posthorn', 'var/lib/posthorn', 'srv', 'opt/posthorn/src/bin'])
      mkdirSync(path.join(root, folder), { recursive: true });
    cpSync(path.join(project, 'systemd'), path.join(root, 'opt/posthorn/systemd'), { recursive: true });
    writeFileSync(path.join(root, 'etc/passwd'), 'posthorn:x:900:900::/var/lib/posthorn:/usr/sbin/nologin\n');
    const given = [path.join(project, 'node_modules/tsx/dist/loader.mjs'), path.join(project, 'src/main.ts')];
    writeFileSync(
      path.join(root, 'opt/posthorn/src/bin/posthorn.cjs'),
      `const [loader, main] = ${JSON.stringify(given)};
       const args = ['--import', 'file://' + loader, main, ...process.argv.slice(2)];
       const { status } = require('node:child_process').spawnSync(process.execPath, args, { stdio: 'inherit' });
       process.exit(status);`,
    );
  });
  after(() => {
    if (root !== '') rmSync(root, { recursive: true });
  });

  /** Returns the drop-in of a unit that these settings give, empty if there is none. */
  function dropIn(settings: string, unit: string): string {
    writeFileSync(path.join(root, 'etc/posthorn/posthorn.yaml'), settings);
    const { status, stderr } = spawnSync(path.join(root, 'opt/posthorn/systemd/paths.sh'), ['--root', root], {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], POSTHORN_SMTP__HOSTNAME: 'mail.example.com' },
    });
    assert.equal(status, 0, stderr);
    const file = path.join(root, `etc/systemd/system/${unit}.d/10-folders.conf`);
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  }

  it('lets the service write where a SQLite database is that has a folder of its own', () => {
    const settings =
      'dataDir: /var/lib/posthorn\nstorage: { url: "sqlite:/srv/db/posthorn.db" }\nbackup: { dir: /var/backups/posthorn }\n';
    assert.match(dropIn(settings, 'posthorn.service'), /^ReadWritePaths="-\/srv\/db"$/m);
    assert.match(dropIn(settings, 'posthorn-backup.service'), /^ReadWritePaths="-\/srv\/db"$/m);
    assert.ok(existsSync(path.join(root, 'srv/db')));
  });

  it('lets the backup run where the data are in a folder of the usual one', () => {
    assert.match(
      dropIn('dataDir: /var/lib/posthorn/data\n', 'posthorn-backup.service'),
      /^ConditionPathExists=\nConditionPathExists=\/var\/lib\/posthorn\/data\/secret\.key$/m,
    );
  });

  it('reads relative paths from the folder that the service starts in', () => {
    const settings = 'dataDir: data\n';
    assert.doesNotMatch(dropIn(settings, 'posthorn.service'), /ReadWritePaths/);
    assert.match(dropIn(settings, 'posthorn.service'), /^RequiresMountsFor="\/var\/lib\/posthorn\/data"$/m);
    assert.match(
      dropIn(settings, 'posthorn-backup.service'),
      /^ConditionPathExists=\nConditionPathExists=\/var\/lib\/posthorn\/data\/secret\.key$/m,
    );
  });

  it('has both units wait for the disks of the data, and the backup alone for that of the backups', () => {
    const settings =
      'dataDir: /srv/ph\nstorage: { url: "sqlite:/srv/db/posthorn.db" }\nbackup: { dir: /srv/backups }\n';
    const waits = (unit: string): string[] =>
      [...dropIn(settings, unit).matchAll(/^RequiresMountsFor="(.*)"$/gm)].map(([, folder = '']) => folder);
    assert.deepEqual(waits('posthorn.service'), ['/srv/ph', '/srv/db']);
    assert.deepEqual(waits('posthorn-backup.service'), ['/srv/ph', '/srv/db', '/srv/backups']);
    const usual = 'dataDir: /var/lib/posthorn\nbackup: { dir: /var/backups/posthorn }\n';
    assert.deepEqual([dropIn(usual, 'posthorn.service'), dropIn(usual, 'posthorn-backup.service')], ['', '']);
  });

  // The last one: it takes the system of the others apart.
  it('has uninstall.sh --purge name the folders that stay', () => {
    dropIn('dataDir: "/srv/ph data"\nbackup: { dir: "/srv/bk%1" }\n', 'posthorn.service');
    const purged = spawnSync(path.join(project, 'systemd/uninstall.sh'), ['--root', root, '--purge'], {
      encoding: 'utf8',
    });
    assert.equal(purged.status, 0, purged.stderr);
    assert.match(purged.stdout, /^posthorn: removed, with \/etc\/posthorn, \/var\/lib\/posthorn and/m);
    for (const folder of ['/srv/ph data', '/srv/bk%1']) {
      assert.ok(existsSync(root + folder));
      assert.ok(purged.stdout.includes(`posthorn: ${folder} stays, as settings named it`), purged.stdout);
    }
    assert.ok(!existsSync(path.join(root, 'etc/posthorn')));
  });
});
