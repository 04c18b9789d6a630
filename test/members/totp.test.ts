import assert from 'node:assert/strict';
import fc from 'fast-check';
import { base32, codeAt, otpauthUrl, stepOf, stepOfCode } from '../../src/members/totp.ts';

/** RFC 6238 appendix B, SHA-1; RFC 4226 appendix D has the same secret. */
const secret = Buffer.from('12345678901234567890');

describe('members/totp', () => {
  for (const [seconds, code] of [
    [59, '94287082'],
    [1_111_111_109, '07081804'],
    [1_111_111_111, '14050471'],
    [1_234_567_890, '89005924'],
    [2_000_000_000, '69279037'],
    [20_000_000_000, '65353130'],
  ] as const) {
    it(`gives ${code} at ${String(seconds)} s`, () => {
      assert.equal(codeAt(secret, stepOf(1000 * seconds), 8), code);
    });
  }

  for (const [counter, code] of [
    '755224',
    '287082',
    '359152',
    '969429',
    '338314',
    '254676',
    '287922',
    '162583',
    '399871',
    '520489',
  ].entries()) {
    it(`gives ${code} for counter ${String(counter)}`, () => {
      assert.equal(codeAt(secret, counter), code);
    });
  }

  it('takes the step before and the one after, each once, and no other', () => {
    const now = 1_700_000_000_000;
    const step = stepOf(now);
    for (const near of [-1, 0, 1])
      assert.equal(stepOfCode(secret, codeAt(secret, step + near), now, null), step + near);
    for (const far of [-3, -2, 2, 3]) assert.equal(stepOfCode(secret, codeAt(secret, step + far), now, null), null);
    assert.equal(stepOfCode(secret, codeAt(secret, step), now, step), null, 'used');
    assert.equal(stepOfCode(secret, codeAt(secret, step - 1), now, step), null, 'older than the one used');
    assert.equal(stepOfCode(secret, codeAt(secret, step + 1), now, step), step + 1);
    assert.equal(
      stepOfCode(secret, ` ${codeAt(secret, step).slice(0, 3)} ${codeAt(secret, step).slice(3)}`, now, null),
      step,
    );
  });

  it('takes nothing else, whatever it is', () => {
    fc.assert(
      fc.property(fc.string(), (text) => stepOfCode(secret, text, 1_700_000_000_000, null) === null),
      { numRuns: 200 },
    );
  });

  for (const [text, encoded] of [
    ['', ''],
    ['f', 'MY'],
    ['fo', 'MZXQ'],
    ['foo', 'MZXW6'],
    ['foob', 'MZXW6YQ'],
    ['fooba', 'MZXW6YTB'],
    ['foobar', 'MZXW6YTBOI'],
  ] as const) {
    it(`writes ${JSON.stringify(text)} in base32 (RFC 4648 section 10)`, () => {
      assert.equal(base32(Buffer.from(text)), encoded);
    });
  }

  it('gives apps an address with everything escaped', () => {
    assert.equal(
      otpauthUrl(Buffer.from('foobar'), 'a+b&c@example.net', 'Post horn'),
      'otpauth://totp/Post%20horn:a%2Bb%26c%40example.net?issuer=Post%20horn&secret=MZXW6YTBOI&algorithm=SHA1&digits=6&period=30',
    );
  });
});
