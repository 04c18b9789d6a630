/** A database on a disk of its own: it is the room there that decides whether new mail is taken. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { startTestApp } from '../support/harness/app.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';

const freeOf = async (folder: string): Promise<number> => {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
};

describe('the room for new mail', () => {
  it('is that of the disk with the database, not of the data folder', async function () {
    if (isOnPostgres) this.skip('a database of its own disk is a file');
    const [there, here] = [await freeOf('/dev/shm'), await freeOf(os.tmpdir())];
    const between = Math.floor((there + here) / 2);
    if (here - there < 2 ** 30) this.skip('/dev/shm does not have less room than the folder for temporary files');
    const folder = mkdtempSync('/dev/shm/ph-disk-');
    try {
      const url = `sqlite:${path.join(folder, 'posthorn.db')}`;
      const test = await startTestApp({ settings: { storage: { url, minFreeBytes: between } } });
      try {
        const { status } = await fetch(`${test.url}/readyz`);
        assert.equal(status, 503);
      } finally {
        await test.stop();
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
