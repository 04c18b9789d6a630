/** Reads the folder of backups, whatever else is in it. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { backupState } from '../../src/backup/folder.ts';

const NOW = Date.parse('2026-01-31T12:00:00Z');

describe('backup/folder', () => {
  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(path.join(os.tmpdir(), 'ph-newest-'));
  });
  afterEach(() => {
    rmSync(dir, { recursive: true });
  });
  const put = (name: string, files: Readonly<Record<string, number>>): void => {
    mkdirSync(path.join(dir, name), { recursive: true });
    for (const [file, bytes] of Object.entries(files)) writeFileSync(path.join(dir, name, file), 'x'.repeat(bytes));
  };

  it('is of the newest that was asked for, with its age and all of its size', async () => {
    put('posthorn-20260130T031700Z', { 'posthorn.db': 10 });
    put('posthorn-20260131T031700Z', { 'posthorn.db': 4096, 'secret.key.enc': 400, 'manifest.json': 7 });
    put('before-migration-20260201T031700Z', { 'posthorn.db': 1 });
    put('.partial-posthorn-20260202T031700Z', { 'posthorn.db': 1 });
    put('notes', {});
    assert.deepEqual(await backupState(dir, NOW), {
      kind: 'read',
      dir,
      count: 2,
      newest: {
        name: 'posthorn-20260131T031700Z',
        at: Date.parse('2026-01-31T03:17:00Z'),
        bytes: 4496,
        hasKeys: true,
      },
    });
  });

  it('is not one that was made while the clock was ahead, which would be the newest for years', async () => {
    for (const year of ['2026', '2031']) put(`posthorn-${year}0130T031700Z`, { 'posthorn.db': 1 });
    const state = await backupState(dir, NOW);
    assert.ok(state.kind === 'read' && state.count === 2);
    assert.equal(state.newest?.name, 'posthorn-20260130T031700Z');
  });

  it('passes over a folder without a database', async () => {
    put('posthorn-20260131T031700Z', { 'secret.key.enc': 4 });
    put('posthorn-20260130T031700Z', { 'posthorn.db': 10 });
    const state = await backupState(dir, NOW);
    assert.ok(state.kind === 'read');
    assert.deepEqual([state.newest?.name, state.newest?.hasKeys], ['posthorn-20260130T031700Z', false]);
  });

  it('has none where the folder is empty or not there, and says why it cannot be read', async () => {
    assert.deepEqual(await backupState(dir, NOW), { kind: 'read', dir, count: 0, newest: null });
    const absent = path.join(dir, 'absent');
    assert.deepEqual(await backupState(absent, NOW), { kind: 'read', dir: absent, count: 0, newest: null });
    symlinkSync('posthorn-20260131T031700Z', path.join(dir, 'posthorn-20260131T031700Z'));
    const state = await backupState(dir, NOW);
    assert.ok(state.kind === 'unreadable');
    assert.match(state.text, /ELOOP/);
  });
});
