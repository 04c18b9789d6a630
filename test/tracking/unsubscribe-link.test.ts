import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { trackingKeys, type TrackingKey } from '../../src/tracking/token.ts';
import { readUnsubscribeToken, unsubscribeToken, type Unsubscription } from '../../src/tracking/unsubscribe-link.ts';

const keysOf = (...keyIds: string[]) =>
  trackingKeys({
    keyIds,
    derive: (purpose, id = '') => createHash('sha256').update(`${purpose} ${id}`).digest(),
  });
const keys = keysOf('new', 'old');
const [key, old] = keys as [TrackingKey, TrackingKey];
const wish: Unsubscription = {
  deliveryId: 'dlv_01jz5w8q3hf2m9d4x6k7c1b0na',
  accountId: 'acc_01jz5w8q3hf2m9d4x6k7c1b0na',
  stream: 'broadcast',
  fromDomain: 'acme.test',
  email: 'ana@dest.test',
};
const token = unsubscribeToken(key, wish);

describe('tracking/unsubscribe-link', () => {
  it('reads back whose mail is to stop', () => {
    fc.assert(
      fc.property(fc.string(), fc.emailAddress(), (stream, email) => {
        const one = { ...wish, stream: stream.toWellFormed(), email };
        assert.deepEqual(readUnsubscribeToken(keys, unsubscribeToken(key, one)), one);
      }),
    );
  });

  it('is the same at each try, another for each recipient, and shows no address', () => {
    assert.equal(unsubscribeToken(key, wish), token);
    assert.notEqual(unsubscribeToken(key, { ...wish, email: 'bo@dest.test' }), token);
    const clear = Buffer.from(token, 'base64url').toString('latin1');
    for (const told of Object.values<string>({ ...wish })) assert.ok(!clear.includes(told), told);
  });

  it('outlives the rotation of keys', () => {
    assert.deepEqual(readUnsubscribeToken(keys, unsubscribeToken(old, wish)), wish);
    assert.equal(readUnsubscribeToken(keysOf('new'), unsubscribeToken(old, wish)), null);
  });

  it('cannot be changed anywhere, nor made up', () => {
    for (let at = 0; at < token.length; at++) {
      const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
      assert.equal(readUnsubscribeToken(keys, changed), null, `character ${String(at)}`);
    }
    for (const text of ['', token.slice(0, 40), `${token}=`, 'A'.repeat(10_000), '💌'])
      assert.equal(readUnsubscribeToken(keys, text), null);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (raw) => {
        assert.equal(readUnsubscribeToken(keys, Buffer.concat([key.tag, raw]).toString('base64url')), null);
      }),
    );
  });

  it('fits a header line, with the longest names there can be', () => {
    const long = {
      ...wish,
      stream: 's'.repeat(32),
      fromDomain: `${'d'.repeat(249)}.test`,
      email: `${'l'.repeat(64)}@${'d'.repeat(185)}.test`,
    };
    const longest = unsubscribeToken(key, long);
    assert.ok(longest.length < 900, String(longest.length));
    assert.deepEqual(readUnsubscribeToken(keys, longest), long);
  });
});
