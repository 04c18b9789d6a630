import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { whyNotMade, whyNotWritable } from '../../src/backup/folder.ts';

/** Debian's user without rights. */
const NOBODY = 65_534;

describe('backup/writable', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'ph-bk-'));
    chmodSync(folder, 0o755);
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('takes a folder that is there, and one that can be made', async () => {
    assert.equal(await whyNotWritable(folder), null);
    assert.equal(await whyNotWritable(path.join(folder, 'a/b/c')), null);
  });
  it('refuses a file', async () => {
    writeFileSync(path.join(folder, 'file'), '', { mode: 0o700 });
    assert.match((await whyNotWritable(path.join(folder, 'file'))) ?? '', /is not a folder/);
    assert.match((await whyNotWritable(path.join(folder, 'file/x'))) ?? '', /file is not a folder/);
  });
  it('names the read-only file system', async () => {
    assert.match((await whyNotWritable('/proc/1/nothing/here')) ?? '', /\/proc\/1/);
    assert.match((await whyNotWritable('/sys/kernel')) ?? '/sys', /\/sys/);
  });
  it('names a folder that the file system does not let be made', () => {
    assert.match(whyNotMade('/proc/posthorn/backups') ?? '', /cannot be used \(ENOENT\): choose another folder/);
  });
  it('names the folder that another user has', function () {
    if (process.getuid?.() !== 0) this.skip('only root may become another user');
    mkdirSync(path.join(folder, 'theirs'), { mode: 0o700 });
    const module = pathToFileURL(path.resolve(import.meta.dirname, '../../src/backup/folder.ts')).href;
    const program = `import { whyNotWritable } from ${JSON.stringify(module)};
      for (const folder of process.argv.slice(1)) console.log(await whyNotWritable(folder));`;
    const { stdout } = spawnSync(
      process.execPath,
      ['--import=tsx', '--input-type=module', '-e', program, path.join(folder, 'theirs'), path.join(folder, 'new')],
      { encoding: 'utf8', uid: NOBODY, gid: NOBODY },
    );
    const [there, below] = stdout.split('\n');
    assert.match(there ?? '', /^this user \(\d+\) may not write into .*theirs \(EACCES\): as root, `chown posthorn: /);
    assert.match(below ?? '', /new is not there and cannot be made: this user/);
  });
});
