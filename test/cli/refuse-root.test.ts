/** Root makes no file among those of the service: the server could not open it. */
import assert from 'node:assert/strict';
import { chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { openDatabase } from '../../src/storage/database.ts';
import { ran } from './ran.ts';

const OTHER = 12345;

describe('root is refused where the data belong to another user', () => {
  let folder = '';
  let dataDir = '';
  beforeEach(function () {
    if (process.getuid?.() !== 0) this.skip('only root can give files away');
    folder = mkdtempSync(path.join(os.tmpdir(), 'ph-root-'));
    dataDir = path.join(folder, 'data');
    mkdirSync(dataDir);
    chownSync(dataDir, OTHER, OTHER);
  });
  afterEach(() => {
    if (folder !== '') rmSync(folder, { recursive: true });
  });
  const says = (file: string): RegExp => new RegExp(`^posthorn: ${file} belongs to user ${String(OTHER)}: run this as`);

  it('by backup restore into their empty folder', async () => {
    const { code, notes } = await ran(['backup', 'restore', folder], { POSTHORN_DATA_DIR: dataDir });
    assert.equal(code, 77, notes);
    assert.match(notes, says(dataDir));
    assert.deepEqual(readdirSync(dataDir), []);
  });

  it('by backup create of their database', async () => {
    const file = path.join(dataDir, 'posthorn.db');
    await (await openDatabase({ url: `sqlite:${file}` })).close();
    chownSync(file, OTHER, OTHER);
    const { code, notes } = await ran(['backup', 'create'], { POSTHORN_DATA_DIR: dataDir });
    assert.equal(code, 77, notes);
    assert.match(notes, says(file));
  });
});
