/** The short form of `npm run torture`: a few kills under load, nothing lost, books balanced. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

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
});
