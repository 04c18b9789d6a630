import assert from 'node:assert/strict';
import fc from 'fast-check';
import { equalInConstantTime, sha256Hex } from '../../src/base/secret.ts';

describe('base/secret', () => {
  it('hashes text and bytes alike', () => {
    assert.equal(sha256Hex('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
    assert.equal(sha256Hex(Buffer.from('abc')), sha256Hex('abc'));
  });

  it('compares as === does', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        assert.equal(equalInConstantTime(a, b), a === b);
      }),
    );
    fc.assert(
      fc.property(fc.string(), (a) => {
        assert.ok(equalInConstantTime(a, a));
      }),
    );
  });
});
