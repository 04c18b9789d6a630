/** How a PostgreSQL server is signed in to: the password of now, wherever it comes from. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { addressOf } from '../../../src/storage/postgres/connection.ts';

const url = 'postgres://posthorn@db.example/posthorn';

describe('storage/postgres/address', () => {
  it('has the password that the file has now, and keeps it while the file is away', () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-password-'));
    const passwordFile = path.join(folder, 'password');
    writeFileSync(passwordFile, 'old\n');
    const address = addressOf({ url, passwordFile });
    assert.equal(address.password(), 'old');
    writeFileSync(passwordFile, 'new\n');
    assert.equal(address.password(), 'new');
    rmSync(folder, { recursive: true });
    assert.equal(address.password(), 'new');
    assert.throws(() => addressOf({ url, passwordFile }), /storage\.passwordFile: expected a readable file/);
  });

  it('has that of the settings, or none', () => {
    assert.equal(addressOf({ url, password: 'secret' }).password(), 'secret');
    assert.equal(addressOf({ url }).password(), null);
  });
});
