import assert from 'node:assert/strict';
import fc from 'fast-check';
import { equalInConstantTime, redact, sha256Hex } from '../../src/base/secret.ts';

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

  const secret = 'a'.repeat(49);
  const rows: [text: string, redacted: string, reason: string][] = [
    [`key ak_live_12345678_${secret} used`, 'key ak_live_12345678… used', 'the public id may be shown'],
    [`ak_test_12345678_${secret}`, 'ak_test_12345678…', 'test keys too'],
    [
      `Authorization: Bearer ak_live_12345678_${secret}`,
      'Authorization: Bearer ak_live_12345678…',
      'behind its scheme',
    ],
    ['authorization: bearer abc.def"', 'authorization: bearer …"', 'tokens of others'],
    ['ak_live_1', 'ak_live_1…', 'a cut key'],
    ['nothing to hide', 'nothing to hide', 'other text'],
  ];
  for (const [text, redacted, reason] of rows)
    it(`redacts: ${reason}`, () => {
      assert.equal(redact(text), redacted);
    });
});
