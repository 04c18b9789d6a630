import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { serveControl, type Control } from '../../src/operator/control-server.ts';
import { exportRule } from '../../src/operator/export-rule.ts';
import { Office } from '../operator/office.ts';
import { ran, type Ran } from './ran.ts';

describe('posthorn exports', () => {
  it('refuses a filter that is given twice: the first value would be lost without a word', async () => {
    const { code, notes } = await ran(['exports', 'create', 'messages', 'tag=invoice', 'tag=order']);
    assert.equal(code, 64);
    assert.match(notes, /tag is given twice/);
  });

  it('refuses a filter without a value: the export would be of all', async () => {
    const { code, notes } = await ran(['exports', 'create', 'messages', 'to=']);
    assert.equal(code, 64);
    assert.match(notes, /to has no value/);
  });
});

describe('posthorn exports save', () => {
  let office: Office;
  let control: Control;
  let id: string;
  let target: string;
  beforeEach(async () => {
    office = await Office.open();
    control = await serveControl(office.deps, office.folder);
    await office.mail('ana@dest.test');
    ({ id } = await office.run('exports.create', { kind: 'messages' }));
    while ((await exportRule({ ...office.deps, hasRoom: () => true }).step()) > 0);
    target = path.join(office.folder, 'saved');
    mkdirSync(target);
  });
  afterEach(async () => {
    await control.close();
    await office.close();
  });
  const save = (name = 'mine.csv'): Promise<Ran> =>
    ran(['exports', 'save', id, path.join(target, name)], { POSTHORN_DATA_DIR: office.folder });

  it('writes a new file for its owner alone, and no other', async () => {
    const { code, out, notes } = await save();
    assert.equal(code, 0, notes);
    assert.match(out, /mine\.csv: \d+ bytes$/);
    const file = path.join(target, 'mine.csv');
    const { path: source } = await office.run('exports.file', { id });
    assert.deepEqual([readFileSync(file, 'utf8'), statSync(file).mode & 0o777], [readFileSync(source, 'utf8'), 0o600]);
    assert.deepEqual(readdirSync(target), ['mine.csv']);
  });

  it('does not overwrite a file', async () => {
    writeFileSync(path.join(target, 'mine.csv'), 'mine');
    const { code, notes } = await save();
    assert.deepEqual([code, notes.includes('mine.csv cannot be written: there is such a file already')], [65, true]);
    assert.equal(readFileSync(path.join(target, 'mine.csv'), 'utf8'), 'mine');
    assert.deepEqual(readdirSync(target), ['mine.csv']);
  });

  it('says that a folder is missing', async () => {
    const { code, notes } = await save('none/mine.csv');
    assert.deepEqual([code, notes.includes('none/mine.csv cannot be written: ENOENT')], [65, true]);
  });

  it('leaves nothing behind where it cannot be written to its end', async () => {
    const { path: source } = await office.run('exports.file', { id });
    rmSync(source);
    mkdirSync(source); // it can be opened, and not read
    const { size } = statSync(source);
    await office.deps.db.commit.transact((tx) => tx.run('UPDATE export_files SET bytes_done = ?', [size]));
    const { code } = await save();
    assert.deepEqual([code, readdirSync(target)], [65, []]);
  });
});
