import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { lockFolder } from '../../src/storage/folder-lock.ts';

describe('the lock of a data folder', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'ph-lock-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it('is given to one of many that ask at once, and again after its release', async () => {
    const asked = await Promise.all(Array.from({ length: 10 }, () => lockFolder(folder)));
    const [held, ...others] = asked.filter((lock) => lock !== null);
    assert.ok(held);
    assert.deepEqual(others, []);
    await held.release();
    await held.release();
    const next = await lockFolder(folder);
    assert.ok(next);
    await next.release();
  });

  it('does not outlive a process that is killed', async () => {
    const script = `
      import { lockFolder } from ${JSON.stringify(new URL('../../src/storage/folder-lock.ts', import.meta.url).href)};
      process.stdout.write((await lockFolder(${JSON.stringify(folder)})) === null ? 'taken' : 'mine');
      process.kill(process.pid, 'SIGKILL');`;
    const run = (): string => {
      try {
        return execFileSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
          encoding: 'utf8',
          stdio: ['ignore', 'pipe', 'ignore'],
        });
      } catch (error) {
        return (error as { stdout: string }).stdout;
      }
    };
    assert.equal(run(), 'mine');
    const held = await lockFolder(folder);
    assert.ok(held, 'free again');
    assert.equal(run(), 'taken');
    await held.release();
  });

  it('throws where the folder is not there', async () => {
    await assert.rejects(lockFolder(path.join(folder, 'nowhere')), /SQLITE_CANTOPEN/);
  });
});
