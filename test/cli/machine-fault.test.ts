/** Errors of the machine end a command with their cause, a cure and a fitting exit code, and never with a stack trace. */
import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { machineFault } from '../../src/operator/machine-fault.ts';
import { printError } from '../../src/cli/print-error.ts';
import { loadConfig } from '../../src/config/load.ts';
import { asNobody } from '../support/harness/as-nobody.ts';
import { ran } from './ran.ts';

const error = (code: string, file?: string): Error =>
  Object.assign(new Error(code), { code, ...(file === undefined ? {} : { path: file }) });

describe('cli/machine-fault', () => {
  for (const [code, file, exitCode, says] of [
    ['SQLITE_FULL', undefined, 74, /^the disk of \/data is full/],
    ['ENOSPC', '/backups/x', 74, /^the disk of \/backups\/x is full/],
    ['SQLITE_IOERR', undefined, 74, /^the disk of \/data reports errors or is full/],
    ['EIO', '/data/posthorn.db', 74, /^the disk of \/data\/posthorn\.db reports errors/],
    ['EROFS', '/srv/bk/.partial-x', 77, /^\/srv\/bk\/\.partial-x cannot be written: the file system is read-only/],
    ['SQLITE_READONLY', undefined, 77, /^\/data cannot be written/],
    ['EACCES', '/data/secret.key', 77, /may not open or write \/data\/secret\.key/],
    ['SQLITE_CANTOPEN', undefined, 77, /^this user .* may not open or write \/data/],
    ['SQLITE_CORRUPT', undefined, 74, /^the database of \/data is damaged/],
    ['SQLITE_BUSY', undefined, 69, /^the database cannot take or answer this now/],
    ['53300', undefined, 69, /^PostgreSQL cannot do more now/],
  ] as const) {
    it(`explains ${code}`, () => {
      const fault = machineFault(error(code, file), '/data');
      assert.match(fault?.line ?? '', says);
      const printed: string[] = [];
      const code_ = printError(error(code, file), (line) => printed.push(line), '/data');
      assert.deepEqual([code_, printed.length], [exitCode, 2]);
      assert.match(printed[1] ?? '', /^ {2}cure: {2}\S/);
    });
  }
  it('finds the cause of an error that wraps it', () => {
    assert.equal(machineFault(new Error('no commit', { cause: error('SQLITE_FULL') }), '/data')?.kind, 'full');
  });
  it('names the files of the data folder that belong to another user', function () {
    if (process.getuid?.() !== 0) this.skip('only root may become another user');
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-own-'));
    try {
      const file = path.join(folder, 'posthorn.db');
      writeFileSync(file, '');
      assert.match(machineFault(error('SQLITE_CANTOPEN'), folder)?.cure ?? '', /as the user of the service/);
      chownSync(file, 65_534, 65_534);
      assert.match(machineFault(error('SQLITE_CANTOPEN'), folder)?.cure ?? '', /Run as root: chown 0 \S+posthorn\.db$/);
      const unwritable = machineFault(error('SQLITE_READONLY'), folder);
      assert.match(`${unwritable?.line ?? ''} ${unwritable?.cure ?? ''}`, /may not open.* Run as root: chown 0 /);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
  it('leaves bugs with their stack', () => {
    for (const bug of [new TypeError('x is undefined'), error('ERR_ASSERTION'), 'text', null])
      assert.equal(machineFault(bug, '/data'), null);
    const printed: string[] = [];
    assert.equal(
      printError(new TypeError('x is undefined'), (line) => printed.push(line), null),
      70,
    );
    assert.match(printed.join(), /TypeError: x is undefined\n +at /);
  });
});

describe('settings that this user may not read', () => {
  it('end with 77 and name sudo', async function () {
    if (process.getuid?.() !== 0) this.skip('only root may become another user');
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-etc-'));
    try {
      chmodSync(folder, 0o755);
      mkdirSync(path.join(folder, 'posthorn'), { mode: 0o750 });
      const file = path.join(folder, 'posthorn/posthorn.yaml');
      writeFileSync(file, 'dataDir: /var/lib/posthorn\n', { mode: 0o640 });
      chownSync(file, 0, 0);
      const around = { cwd: folder, privileged: false, terminal: false, hostname: 'mail.example.com' };
      const printed: string[] = [];
      const code = await asNobody(() => {
        try {
          loadConfig({ ...around, env: {}, file });
          return 0;
        } catch (thrown) {
          return printError(thrown, (line) => printed.push(line), null);
        }
      });
      assert.equal(code, 77);
      assert.match(printed[0] ?? '', /posthorn\.yaml: this user may not read the settings \(EACCES\)$/);
      assert.match(printed[1] ?? '', /sudo posthorn/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('end `config check --json` with 77 too', async function () {
    if (process.getuid?.() !== 0) this.skip('only root may become another user');
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-etc-'));
    try {
      chmodSync(folder, 0o755);
      const file = path.join(folder, 'posthorn.yaml');
      writeFileSync(file, 'dataDir: /var/lib/posthorn\n', { mode: 0o600 });
      const { code, out } = await asNobody(() => ran(['config', 'check', '--json', '--config', file]));
      assert.equal(code, 77);
      assert.match(out, /"valid": false[\s\S]*this user may not read the settings \(EACCES\)/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
