import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, rmSync, watch } from 'node:fs';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { startApp } from '../../src/app.ts';
import type { BenchRecord } from '../../src/cli/bench.ts';
import { newFolder } from '../support/harness/app.ts';
import { ran } from './ran.ts';

describe('posthorn bench', () => {
  it('measures a server of its own, and leaves nothing behind', async () => {
    const folder = newFolder();
    const env = { POSTHORN_DATA_DIR: folder };
    const { code, out, notes } = await ran(['bench', '--seconds', '1', '--connections', '4', '--json'], env, {
      startApp,
    });
    assert.equal(code, 0, notes);
    const record = JSON.parse(out) as BenchRecord;
    assert.deepEqual(
      [record.object, record.folder, record.seconds, record.connections, record.refused],
      ['bench', folder, 1, 4, 0],
    );
    assert.ok(record.accepted > 10, out);
    assert.equal(record.finished, record.accepted, 'all of it was worked off');
    for (const { p50, p99 } of [record.sync_ms, record.accept_ms]) assert.ok(p50 > 0 && p50 <= p99, out);
    assert.deepEqual(readdirSync(folder), []);
    rmSync(folder, { recursive: true });
  });

  it('leaves nothing behind where Ctrl-C ends it', async () => {
    const folder = newFolder();
    const bench = spawn(process.execPath, ['--import=tsx', 'src/main.ts', 'bench', '--seconds', '60'], {
      cwd: path.resolve(import.meta.dirname, '../..'),
      env: { ...process.env, POSTHORN_DATA_DIR: folder },
      stdio: 'ignore',
    });
    const ended = once(bench, 'exit');
    const watching = watch(folder);
    await once(watching, 'change');
    watching.close();
    // The socket of its server is there once mail is taken.
    const inside = path.join(folder, readdirSync(folder)[0] ?? '');
    while (!existsSync(path.join(inside, 'posthorn.sock'))) await setImmediate();
    bench.kill('SIGINT');
    assert.deepEqual(await ended, [null, 'SIGINT']);
    assert.deepEqual(readdirSync(folder), []);
    rmSync(folder, { recursive: true });
  });

  for (const args of [
    ['--seconds', '0'],
    ['--seconds', '601'],
    ['--connections', '1e3'],
    ['--connections', '201'],
  ])
    it(`refuses ${args.join(' ')}`, async () => {
      const { code, notes } = await ran(['bench', ...args], {}, { startApp });
      assert.equal(code, 64);
      assert.match(notes, /whole number from 1 to/);
    });
});
