import assert from 'node:assert/strict';
import fc from 'fast-check';
import { survey, withCrlf } from '../../src/mail/body-facts.ts';

const found = (text: string) => survey(Buffer.from(text, 'latin1'));

describe('mail/survey', () => {
  for (const [text, expected] of [
    ['', {}],
    ['a b\r\nc\r\n\r\n', {}],
    ['a\nb', { bareEnds: 1 }],
    ['a\rb', { bareEnds: 1 }],
    ['a\r\n\n\r', { bareEnds: 2 }],
    [`${'x'.repeat(998)}\r\n${'y'.repeat(998)}`, {}],
    [`${'x'.repeat(999)}\r\n`, { hasLongLine: true }],
    [`a\r\n${'y'.repeat(999)}`, { hasLongLine: true }],
    ['a  b\r\n', { isRelaxed: false }],
    ['a \r\n', { isRelaxed: false }],
    ['a\tb\r\n', { isRelaxed: false }],
    [' a\r\n', {}],
  ] as const)
    it(`looks at ${JSON.stringify(text.slice(0, 20))}`, () => {
      assert.deepEqual(found(text), { bareEnds: 0, hasLongLine: false, isRelaxed: true, ...expected });
    });

  it('finds what a search for each kind finds', () => {
    const pieces = fc.constantFrom(' ', '\t', '\r\n', '\r', '\n', 'a', '\0', '\xff');
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 20 }), (all) => {
        const text = all.join('');
        const { bareEnds, isRelaxed } = found(text);
        assert.equal(bareEnds, text.match(/\r(?!\n)|(?<!\r)\n/g)?.length ?? 0);
        assert.equal(withCrlf(Buffer.from(text)).toString(), text.replace(/\r\n|\r|\n/g, '\r\n'));
        assert.equal(isRelaxed, !/ [ \r]|\t/.test(text));
      }),
      { numRuns: 1000 },
    );
  });
});
