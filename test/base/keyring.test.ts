import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { openKeyring } from '../../src/base/keyring.ts';

const key = (byte: number): string => Buffer.alloc(32, byte).toString('base64url');

describe('base/keyring', () => {
  let folder: string;
  const file = (): string => path.join(folder, 'secret.key');
  const write = (text: string, mode = 0o600): void => {
    writeFileSync(file(), text, { mode });
    chmodSync(file(), mode);
  };

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'posthorn-keyring-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('makes the file at the first start, for the owner only, and leaves nothing beside it', () => {
    const first = openKeyring(folder);
    assert.equal(statSync(file()).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(folder), ['secret.key']);
    const text = readFileSync(file(), 'utf8');
    const second = openKeyring(folder);
    assert.equal(readFileSync(file(), 'utf8'), text);
    assert.equal(second.currentId, first.currentId);
    assert.equal(second.open('dkim', first.seal('dkim', 'secret')).toString(), 'secret');
    assert.deepEqual(second.derive('verp'), first.derive('verp'));
  });

  it('makes the folder too', () => {
    assert.equal(openKeyring(path.join(folder, 'a', 'b')).keyIds.length, 1);
  });

  it('makes no new key beside a database that has lost its own', () => {
    const database = path.join(folder, 'posthorn.db');
    assert.equal(openKeyring(path.join(folder, 'new'), { database }).keyIds.length, 1, 'no database yet');
    writeFileSync(database, '');
    assert.throws(() => openKeyring(folder, { database }), /secret\.key is missing, but there is .*posthorn\.db/);
    assert.equal(existsSync(path.join(folder, 'secret.key')), false);
    openKeyring(folder);
    assert.equal(openKeyring(folder, { database }).keyIds.length, 1, 'the key is back');
  });

  it('opens what it sealed, whatever bytes', () => {
    const keyring = openKeyring(folder);
    fc.assert(
      fc.property(fc.string(), fc.uint8Array(), (purpose, bytes) => {
        const sealed = keyring.seal(purpose, Buffer.from(bytes));
        assert.match(sealed, /^v1\.[0-9a-f]{8}\.[A-Za-z0-9_-]+$/);
        assert.deepEqual(keyring.open(purpose, sealed), Buffer.from(bytes));
      }),
      { numRuns: 50 },
    );
  });

  it('seals the same secret differently each time', () => {
    const keyring = openKeyring(folder);
    assert.notEqual(keyring.seal('a', 'same'), keyring.seal('a', 'same'));
  });

  it('refuses what was sealed for another purpose, changed or is not a sealed text', () => {
    const keyring = openKeyring(folder);
    const sealed = keyring.seal('dkim:1', 'secret');
    const bad: [purpose: string, text: string, reason: string][] = [
      ['dkim:2', sealed, 'purpose'],
      ['dkim:1', sealed.slice(0, -5), 'cut short'],
      ['dkim:1', sealed.replace('v1.', 'v2.'), 'version'],
      ['dkim:1', '', 'empty'],
      ['dkim:1', `v1.${keyring.currentId}.AAAA`, 'shorter than nonce and tag'],
      ['dkim:1', sealed.slice(0, 30) + (sealed[30] === 'x' ? 'y' : 'x') + sealed.slice(31), 'a changed character'],
    ];
    for (const [purpose, text, reason] of bad) assert.throws(() => keyring.open(purpose, text), reason);
  });

  it('seals with the newest key and opens with all', () => {
    write(`old ${key(1)}\n`);
    const before = openKeyring(folder);
    const sealed = before.seal('p', 'kept');
    write(`# rotated\nold ${key(1)}\r\n\nnew ${key(2)}\n`);
    const after = openKeyring(folder);
    assert.deepEqual(after.keyIds, ['new', 'old']);
    assert.equal(after.open('p', sealed).toString(), 'kept');
    assert.match(after.seal('p', 'x'), /^v1\.new\./);
    assert.deepEqual(after.derive('verp', 'old'), before.derive('verp'));
    assert.notDeepEqual(after.derive('verp'), before.derive('verp'));
    write(`new ${key(2)}\n`);
    assert.throws(() => openKeyring(folder).open('p', sealed), /sealed under key old, which is not in secret\.key/);
    assert.throws(() => openKeyring(folder).derive('verp', 'old'), /not in secret\.key/);
  });

  it('derives 32 bytes for each purpose, apart from the others', () => {
    const keyring = openKeyring(folder);
    assert.equal(keyring.derive('verp').length, 32);
    assert.notDeepEqual(keyring.derive('verp'), keyring.derive('cursor'));
  });

  it('refuses a file that others may read', () => {
    for (const mode of [0o640, 0o604, 0o644, 0o660, 0o620]) {
      write(`a ${key(1)}\n`, mode);
      assert.throws(() => openKeyring(folder), /may be read by others .* chmod 600/, mode.toString(8));
    }
  });

  it('says what is wrong with the file, but never what stands in it', () => {
    const bad: [text: string, message: RegExp][] = [
      ['', /holds no key/],
      ['# only a comment\n', /holds no key/],
      ['a short\n', /line 1: expected/],
      [`# c\na ${key(1)} more\n`, /line 2: expected/],
      [`a ${key(1)}\na ${key(2)}\n`, /line 2: the key id a is there twice/],
      [`a.b ${key(1)}\n`, /line 1: expected/],
      ['x'.repeat(70_000), /too large/],
    ];
    for (const [text, message] of bad) {
      write(text);
      assert.throws(
        () => openKeyring(folder),
        (error: Error) => message.test(error.message) && !error.message.includes(key(1)),
      );
    }
  });
});
