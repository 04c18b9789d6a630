import assert from 'node:assert/strict';
import fc from 'fast-check';
import { KEY_RANDOM_BYTES, keyPrefix, makeKey, parseKey } from '../../src/keys/key-format.ts';

const random = fc
  .uint8Array({ minLength: KEY_RANDOM_BYTES, maxLength: KEY_RANDOM_BYTES })
  .map((bytes) => Buffer.from(bytes));
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

describe('keys/key-format', () => {
  it('reads what it made', () => {
    fc.assert(
      fc.property(fc.constantFrom('live' as const, 'test' as const), random, (mode, bytes) => {
        const { key, publicId } = makeKey(mode, bytes);
        assert.match(key, /^ak_(live|test)_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$/);
        assert.ok(key.startsWith(`${keyPrefix(mode, publicId)}_`));
        assert.deepEqual(parseKey(key), { kind: 'ok', mode, publicId });
      }),
    );
  });

  it('loses none of the 256 random bits', () => {
    const secrets = (bytes: Buffer): string => makeKey('live', bytes).key.slice(17, 60);
    fc.assert(
      fc.property(random, fc.integer({ min: 48, max: 48 + 255 }), (bytes, bit) => {
        const other = Buffer.from(bytes);
        other.writeUInt8(other.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
        assert.notEqual(secrets(bytes), secrets(other));
      }),
    );
    assert.equal(secrets(Buffer.alloc(KEY_RANDOM_BYTES, 255)).length, 43);
    assert.equal(secrets(Buffer.alloc(KEY_RANDOM_BYTES)), '0'.repeat(43));
  });

  it('finds every single wrong character', () => {
    const { key } = makeKey('live', Buffer.alloc(KEY_RANDOM_BYTES, 7));
    for (let at = 0; at < key.length; at++) {
      for (const digit of [...DIGITS.split(''), '_', '-', 'ä']) {
        const wrong = key.slice(0, at) + digit + key.slice(at + 1);
        if (wrong !== key) assert.equal(parseKey(wrong).kind, 'bad', wrong);
      }
    }
  });

  it('refuses what is no key, and never throws', () => {
    const { key } = makeKey('test', Buffer.alloc(KEY_RANDOM_BYTES, 9));
    for (const text of [
      '',
      'ak_live_',
      'ak_live_nonsense',
      `${key} `,
      ` ${key}`,
      `${key}\n`,
      key.slice(0, -1),
      `${key}0`,
      'x'.repeat(100_000),
    ]) {
      assert.equal(parseKey(text).kind, 'bad', text.slice(0, 80));
    }
    assert.equal(parseKey(key.replace('test', 'live')).kind, 'bad', 'the mode is under the checksum too');
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        assert.equal(parseKey(text).kind, 'bad');
      }),
    );
  });

  it('takes exactly the random bytes it needs', () => {
    assert.throws(() => makeKey('live', Buffer.alloc(KEY_RANDOM_BYTES - 1)));
  });
});
