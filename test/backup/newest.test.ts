/** Reads the folder of backups, whatever else is in it. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { backupState } from '../../src/backup/newest.ts';

const manifest = (created_at: string, files: object[]): object => ({
  format: 1,
  version: '1.2.3',
  created_at,
  migrations: ['001-schema'],
  epoch: 1,
  key_ids: ['k1'],
  counts: { accounts: 1, messages: 2, recipients: 2, waiting: 0, events: 4 },
  books: { balanced: true, accepted: 2 },
  files,
});
const file = (name: string, bytes: number): object => ({ name, bytes, sha256: 'a'.repeat(64) });

const NOW = Date.parse('2026-01-31T12:00:00Z');

describe('backup/newest', () => {
  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(path.join(os.tmpdir(), 'ph-newest-'));
  });
  afterEach(() => {
    rmSync(dir, { recursive: true });
  });
  const put = (name: string, text: string): void => {
    mkdirSync(path.join(dir, name), { recursive: true });
    writeFileSync(path.join(dir, name, 'manifest.json'), text);
  };

  it('is of the newest that was asked for, with its age and all of its size', async () => {
    put('posthorn-20260130T031700Z', JSON.stringify(manifest('2026-01-30T03:17:00.000Z', [file('posthorn.db', 10)])));
    put(
      'posthorn-20260131T031700Z',
      JSON.stringify(manifest('2026-01-31T03:17:00.000Z', [file('posthorn.db', 4096), file('secret.key.enc', 400)])),
    );
    put('before-migration-20260201T031700Z', JSON.stringify(manifest('2026-02-01T03:17:00.000Z', [])));
    put('.partial-posthorn-20260202T031700Z', '{}');
    put('notes', 'mine');
    assert.deepEqual(await backupState(dir, NOW), {
      kind: 'read',
      dir,
      count: 2,
      newest: {
        name: 'posthorn-20260131T031700Z',
        at: Date.parse('2026-01-31T03:17:00Z'),
        bytes: 4496,
        hasKeys: true,
        version: '1.2.3',
      },
    });
  });

  it('is not one that was made while the clock was ahead, which would be the newest for years', async () => {
    for (const year of ['2026', '2031'])
      put(`posthorn-${year}0130T031700Z`, JSON.stringify(manifest(`${year}-01-30T03:17:00.000Z`, [])));
    const state = await backupState(dir, NOW);
    assert.ok(state.kind === 'read' && state.count === 2);
    assert.equal(state.newest?.name, 'posthorn-20260130T031700Z');
  });

  for (const [reason, text] of [
    ['no JSON', '{'],
    ['of another form', '{"format": 9}'],
    ['too large to be one', JSON.stringify({ padding: 'x'.repeat(1024 * 1024) })],
  ] as const) {
    it(`passes over one whose manifest is ${reason}`, async () => {
      put('posthorn-20260131T031700Z', text);
      put('posthorn-20260130T031700Z', JSON.stringify(manifest('2026-01-30T03:17:00.000Z', [file('posthorn.db', 10)])));
      const state = await backupState(dir, NOW);
      assert.ok(state.kind === 'read');
      assert.equal(state.newest?.name, 'posthorn-20260130T031700Z');
      assert.equal(state.newest.hasKeys, false);
    });
  }

  it('has none where the folder is empty or not there, and says why it cannot be read', async () => {
    assert.deepEqual(await backupState(dir, NOW), { kind: 'read', dir, count: 0, newest: null });
    const absent = path.join(dir, 'absent');
    assert.deepEqual(await backupState(absent, NOW), { kind: 'read', dir: absent, count: 0, newest: null });
    mkdirSync(path.join(dir, 'posthorn-20260131T031700Z', 'manifest.json'), { recursive: true });
    const state = await backupState(dir, NOW);
    assert.ok(state.kind === 'unreadable');
    assert.match(state.text, /EISDIR/);
  });
});
