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

  it('are closed to all other users, where an earlier version left them open', () => {
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

  for (const [what, chmod, told] of [
    [
      'is another user’s',
      () => {
        throw Object.assign(new Error('not permitted'), { code: 'EPERM' });
      },
      /EPERM/,
    ],
    ['is of a file system without modes', () => undefined, /the file system ignores it/],
  ] as const)
    it(`are refused with cause and cure where others can read a file that ${what}, but not in a folder that is shut`, () => {
      writeFileSync(file, '');
      chmodSync(file, 0o644);
      const refuse = (): string[] => closeToOthers(file, chmod);
      assert.throws(
        refuse,
        /posthorn\.db may be read by every user of this machine \(mode 644\).*chmod o-rwx.*mount it for this user alone/,
      );
      assert.throws(refuse, told);
      chmodSync(folder, 0o750);
      assert.deepEqual(refuse(), []);
    });
});
