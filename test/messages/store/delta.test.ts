import assert from 'node:assert/strict';
import fc from 'fast-check';
import { appliedDelta, createDeltaMaker, MOST_FOREIGN } from '../../../src/messages/store/delta.ts';

const line = (n: number): string =>
  `<tr><td style="padding:8px">Row ${String(n)} of {{ name }}, who is well</td></tr>\n`;
const base = Array.from({ length: 500 }, (_, n) => line(n)).join('');

describe('base/delta', () => {
  it('tells a filled-in template by its values', () => {
    const text = base.replaceAll('{{ name }}', 'Ann "the" <\u00e4>');
    const delta = createDeltaMaker(base).of(text);
    assert.ok(delta !== null);
    assert.equal(appliedDelta(base, delta), text);
  });

  it('is small where little differs', () => {
    const text = `${base.slice(0, 10_000)}Dear Ann,${base.slice(10_020)}`;
    const delta = createDeltaMaker(base).of(text) ?? '';
    assert.ok(delta !== '' && delta.length < 100, delta);
    assert.equal(appliedDelta(base, delta), text);
  });

  it('is none where nothing is in common, or nothing is there', () => {
    assert.equal(createDeltaMaker(base).of('x'.repeat(50_000)), null);
    assert.equal(createDeltaMaker(base).of(''), null);
    assert.equal(createDeltaMaker('').of('some text that is longer than a block of it'), null);
  });

  it('is none where much stands in nothing of the base: looking for it would hold the loop', () => {
    const withOwn = (characters: number): string =>
      `${base.slice(0, 20_000)}${'x'.repeat(characters)}${base.slice(20_000)}`;
    const text = withOwn(MOST_FOREIGN - 100);
    const delta = createDeltaMaker(base).of(text);
    assert.ok(delta !== null);
    assert.equal(appliedDelta(base, delta), text);
    assert.equal(createDeltaMaker(base).of(withOwn(MOST_FOREIGN + 1)), null);
  });

  it('gives back every text, whatever it and the base are', () => {
    const piece = fc.constantFrom(
      '{{ a }}',
      '<p style="color:#333333;padding:8px 16px">',
      'x'.repeat(40),
      '\n',
      '\u00e9',
      'abcdefghijklmnopqrstuvwxyz',
    );
    const text = fc.array(fc.oneof(piece, fc.string()), { maxLength: 40 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(text, text, (one, other) => {
        const delta = createDeltaMaker(one).of(other);
        if (delta !== null) assert.equal(appliedDelta(one, delta), other);
      }),
      { numRuns: 1000 },
    );
  });
});
