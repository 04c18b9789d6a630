/** The short form of `npm run torture -- kill`: six kills in phases that the seed chooses and losses of power under load, nothing lost, books balanced. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { benchKey, startAppliance } from '../bench/appliance.ts';
import { post } from '../bench/latency.ts';
import { until } from '../bench/peers.ts';
import { startReceiver } from './receiver.ts';
import { postgresPrograms } from '../support/harness/postgres.ts';

const root = path.resolve(import.meta.dirname, '../..');

/** Mails that are sent at once to a slow disk. */
const SLOW_MAILS = 30;
const syncsIn = (traceFile: string): number =>
  existsSync(traceFile) ? (readFileSync(traceFile, 'utf8').match(/f(?:data)?sync\(/g) ?? []).length : 0;

describe('torture (short)', () => {
  it('loses nothing over six kills', async () => {
    const script = path.join(root, 'test/torture/kill.ts');
    const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', script, '--kills', '6'], {
      cwd: root,
    });
    assert.match(stdout, /^6 kills: [1-9]\d* accepted, 0 lost, \d+ second copies \(0 beyond promise 3\), seed 1$/m);
  });

  it('loses nothing over four crashes of PostgreSQL and the failover to a standby', async function () {
    if (postgresPrograms() === null) this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const script = path.join(root, 'test/torture/postgres.ts');
    const args = ['--import', 'tsx', script, '--crashes', '4', '--failovers', '1'];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
    assert.match(stdout, /^4 crashes: [1-9]\d* accepted, 0 lost, \d+ second copies/m);
    assert.match(stdout, /^1 failovers: [1-9]\d* accepted, 0 lost, \d+ second copies/m);
  });

  it('loses nothing over 150 losses of power', async function () {
    if (spawnSync('strace', ['-V']).status !== 0) this.skip('strace is not installed (apt-get install strace)');
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

  it('takes and delivers mail while each sync of the disk takes 40 ms, several mails with one sync', async function () {
    if (spawnSync('strace', ['-V']).status !== 0) this.skip('strace is not installed (apt-get install strace)');
    const receiver = await startReceiver();
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-slow-disk-'));
    const dataDir = path.join(folder, 'data');
    const traceFile = path.join(folder, 'syncs');
    const env = { POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(receiver.port)}` }) };
    mkdirSync(dataDir);
    const inject = 'inject=fdatasync,fsync:delay_exit=40000';
    const under = [
      'strace',
      '-D',
      '-f',
      '-e',
      'trace=fdatasync,fsync',
      '-e',
      inject,
      '-e',
      'signal=none',
      '-o',
      traceFile,
    ];
    const appliance = await startAppliance({ dataDir, env, under });
    try {
      const key = benchKey(appliance);
      appliance.cli('domains', 'add', 'torture.test', '--trust', '--json');
      const before = syncsIn(traceFile);
      const mail = (n: number) => ({ from: 'a@torture.test', to: `r${String(n)}@dest.test`, subject: 'x', text: 'x' });
      await Promise.all(Array.from({ length: SLOW_MAILS }, (_, n) => post(appliance, key, mail(n))));
      await until(() => receiver.copies.size === SLOW_MAILS, 'the mails', 120_000);
      const balanced = async (): Promise<boolean> => {
        const books = (await appliance.command('books', '--json')) as {
          balanced: boolean;
          lines: { status: string; found: number }[];
        };
        assert.ok(books.balanced);
        return books.lines.some(({ status, found }) => status === 'delivered' && found === SLOW_MAILS);
      };
      await until(balanced, 'the outcomes', 60_000);
      const syncs = syncsIn(traceFile) - before;
      // Each mail is accepted, claimed and recorded: one by one that were three syncs for each.
      assert.ok(syncs > 0 && syncs < 2 * SLOW_MAILS, `${String(syncs)} syncs for ${String(SLOW_MAILS)} mails`);
      assert.equal(await appliance.stop(), 0);
      assert.equal(
        [...receiver.copies.values()].reduce((sum, copies) => sum + copies, 0),
        SLOW_MAILS,
      );
    } finally {
      await appliance.kill();
      receiver.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('judges a soak of a few seconds', async function () {
    if (spawnSync('sh', ['-c', 'command -v smtp-sink']).status !== 0)
      this.skip('smtp-sink is not installed (apt-get install postfix)');
    const script = path.join(root, 'test/torture/soak.ts');
    const args = ['--import', 'tsx', script, '--minutes', '0.05', '--rate', '20'];
    // How late the loop is depends on the machine here: exit code 1 with the figures is a judgement, too.
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root }).catch(
      (error: unknown) => error as { stdout: string },
    );
    assert.match(stdout, /^ *[1-9]\d mails taken$/m);
    for (const name of ['errors in the log', 'accepted mails that did not arrive', 'answers but 202 and 503'])
      assert.match(stdout, new RegExp(`^ +${name}: 0 `, 'm'));
    assert.match(stdout, /slopes are shown and not held/);
  });
});
