import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { closeToOthers } from '../../src/operator/door/data-folder.ts';

const modeOf = (file: string): number => statSync(file).mode & 0o777;

describe('the files of the database', () => {
  let folder: string;
  let file: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'posthorn-files-'));
    chmodSync(folder, 0o755);
    file = path.join(folder, 'posthorn.db');
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('are closed to all other users', () => {
    for (const end of ['', '-wal', '-shm']) {
      writeFileSync(file + end, '');
      chmodSync(file + end, 0o644);
    }
    assert.deepEqual(closeToOthers(file), [file, `${file}-wal`, `${file}-shm`]);
    for (const end of ['', '-wal', '-shm']) assert.equal(modeOf(file + end), 0o640);
    assert.deepEqual(closeToOthers(file), [], 'once');
  });

  it('keep the rights that their group was given', () => {
    writeFileSync(file, '');
    chmodSync(file, 0o660);
    assert.deepEqual(closeToOthers(file), []);
    assert.equal(modeOf(file), 0o660);
  });

  it('need not be there', () => {
    assert.deepEqual(closeToOthers(file), []);
  });
});
