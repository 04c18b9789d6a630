import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { makeFolder } from '../../src/base/make-folder.ts';

describe('makeFolder', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'posthorn-make-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('makes a folder and its parents with the mode, and leaves what is there', () => {
    makeFolder(path.join(folder, 'a/b'), 0o700);
    makeFolder(path.join(folder, 'a/b'), 0o750);
    for (const name of ['a', 'a/b']) assert.equal(statSync(path.join(folder, name)).mode & 0o777, 0o700);
  });

  it('throws where a file is in the way', () => {
    writeFileSync(path.join(folder, 'file'), '');
    assert.throws(() => {
      makeFolder(path.join(folder, 'file'), 0o700);
    }, /EEXIST/);
    assert.throws(() => {
      makeFolder(path.join(folder, 'file/below'), 0o700);
    }, /ENOTDIR/);
  });

  it('comes back from /proc, which has no folders to make', () => {
    assert.throws(() => {
      makeFolder('/proc/posthorn/a/b', 0o700);
    }, /ENOENT/);
  });
});
