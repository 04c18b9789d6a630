/** Numbers that a double cannot hold: found wherever they stand, named, and nothing else taken for one. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { roundedProblem } from '../../src/api/json-numbers.ts';
import { readJson } from '../../src/api/json.ts';

const roundedIn = (text: string) => {
  const result = readJson(Buffer.from(text));
  assert.ok(result.kind === 'ok', JSON.stringify(result));
  return result.rounded;
};

describe('api/json-numbers', () => {
  for (const number of [
    '0',
    '-0',
    '17',
    '0.1',
    '1.10',
    '1e2',
    '1E+2',
    '15e-1',
    '9007199254740991',
    '-9007199254740991',
    '9007199254740992',
    '100000000000000000000',
    '1e21',
    '0.30000000000000004',
    '0.10000000000000001',
    '48.208174999999997',
    '12345678901234.5',
    '9007199254740.99',
    '1.7976931348623157e308',
    '5e-324',
    '2.0E-3',
    '0.000000000000000000',
    '1000000000000000000000000',
  ]) {
    it(`keeps ${number}`, () => {
      assert.deepEqual(roundedIn(`{"a":${number}}`), []);
    });
  }

  for (const number of [
    '1234567890123456789',
    '9007199254740993',
    '-9007199254740993',
    '9223372036854775807',
    '18446744073709551615',
    '1e400',
    '-1e400',
    '1e-400',
    '3.14159265358979323846',
    '12345678901234567.5',
    '12345678901234.567',
    '9007199254740.9935',
    '9007199254740.991',
    '0.1000000000000000055',
    `1${'0'.repeat(400)}`,
  ]) {
    it(`tells of ${number.slice(0, 30)}`, () => {
      assert.deepEqual(roundedIn(`{"a":${number}}`), [{ entry: -1, field: 'a', text: number.replace(/^-/, '') }]);
    });
  }

  it('names the member, and of a bulk send one in each entry', () => {
    const big = '12345678901234567890';
    const text = `{"to":"a, \\"b\\": ${big}","variables":{"a":[1,{"order id":${big}}],"b":${big}},"recipients":[{"variables":{"id":${big},"x":${big}}},{"to":"x"},{"variables":{"y":{"id":${big}}}}]}`;
    assert.deepEqual(
      roundedIn(text).map(({ entry, field }) => [entry, field]),
      [
        [-1, 'variables.a[1].order id'],
        [0, 'recipients[0].variables.id'],
        [2, 'recipients[2].variables.y.id'],
      ],
    );
  });

  it('says what would become of it and what to do', () => {
    const [first] = roundedIn('{"variables":{"id":1234567890123456789}}');
    assert.ok(first);
    const { code, field, message } = roundedProblem(first);
    assert.deepEqual([code, field], ['invalid_field', 'variables.id']);
    assert.match(
      message,
      /1234567890123456789, which readers of JSON change to 1234567890123456800\. Send it as a string\.$/,
    );
  });

  it('never takes for changed what JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.double({ noDefaultInfinity: true, noNaN: true }), (value) => {
        assert.deepEqual(roundedIn(JSON.stringify({ value })), []);
      }),
    );
  });

  it('knows every amount that is printed as another', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10 ** 13 - 1 }), fc.integer({ min: 1, max: 999 }), (whole, part) => {
        const text = `${String(whole)}.${String(part).padStart(3, '0').replace(/0+$/, '')}`;
        assert.equal(roundedIn(`{"v":${text}}`).length === 0, String(Number(text)) === text, text);
      }),
    );
  });

  it('knows every whole number that comes out as another', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 1n << 66n }), (value) => {
        // A whole number below 10^21 is printed in full, as it would be in a mail.
        fc.pre(value < 10n ** 20n);
        assert.equal(roundedIn(`{"v":${String(value)}}`).length === 0, String(Number(value)) === String(value));
      }),
    );
  });
});
