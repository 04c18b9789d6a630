/** The short form of `npm run torture`: a few kills and losses of power under load, nothing lost, books balanced. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { postgresPrograms } from '../support/harness/postgres.ts';

const root = path.resolve(import.meta.dirname, '../..');

describe('torture (short)', () => {
  it('loses nothing over five kills', async function () {
    this.timeout(180_000);
    const script = path.join(root, 'test/torture/kill.ts');
    const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', script, '--kills', '5'], {
      cwd: root,
    });
    assert.match(stdout, /^5 kills: [1-9]\d* accepted, 0 lost, \d+ second copies/m);
  });

  it('loses nothing over four crashes of PostgreSQL and the failover to a standby', async function () {
    if (postgresPrograms() === null) this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    this.timeout(240_000);
    const script = path.join(root, 'test/torture/postgres.ts');
    const args = ['--import', 'tsx', script, '--crashes', '4', '--failovers', '1'];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
    assert.match(stdout, /^4 crashes: [1-9]\d* accepted, 0 lost, \d+ second copies/m);
    assert.match(stdout, /^1 failovers: [1-9]\d* accepted, 0 lost, \d+ second copies/m);
  });

  it('loses nothing over 150 losses of power', async function () {
    if (spawnSync('strace', ['-V']).status !== 0) this.skip('strace is not installed (apt-get install strace)');
    this.timeout(180_000);
    const script = path.join(root, 'test/torture/power.ts');
    const args = [
      '--import',
      './test/support/harness/as-esm.mjs',
      '--import',
      'tsx',
      script,
      '--images',
      '150',
      '--mails',
      '100',
    ];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
    assert.match(stdout, /^150 images of .* [1-9]\d* with something to lose: 100 accepted, 0 faults/m);
  });
});
