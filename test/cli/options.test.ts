import assert from 'node:assert/strict';
import { InvalidArgumentError } from 'commander';
import { durationOption, limitOption, listOption } from '../../src/cli/derive.ts';

describe('cli/options', () => {
  for (const [text, before, list, reason] of [
    ['a,b', undefined, ['a', 'b'], 'commas'],
    [' a , b,', undefined, ['a', 'b'], 'spaces and a comma too many'],
    ['b', ['a'], ['a', 'b'], 'given twice'],
  ] as const) {
    it(`reads the list ${JSON.stringify(text)}: ${reason}`, () => {
      assert.deepEqual(listOption(text, before), list);
    });
  }

  for (const text of ['', ' , '])
    it(`refuses the list ${JSON.stringify(text)}, of a variable that is not set: it would restrict nothing`, () => {
      assert.throws(() => listOption(text, ['a']), InvalidArgumentError);
    });

  for (const [text, ms] of [
    ['1s', 1000],
    ['30d', 2_592_000_000],
    ['1.5h', 5_400_000],
  ] as const) {
    it(`reads the duration ${text}`, () => {
      assert.equal(durationOption(text), ms);
    });
  }

  for (const text of ['30', '-1s', '1w', '9999999d', '0ms', '']) {
    it(`refuses the duration ${JSON.stringify(text)}`, () => {
      assert.throws(() => durationOption(text), InvalidArgumentError);
    });
  }

  it('takes limits from 1 to 1000', () => {
    assert.deepEqual(['1', '1000'].map(limitOption), [1, 1000]);
    for (const text of ['0', '1001', '-1', '1.5', '1e2', 'x', ''])
      assert.throws(() => limitOption(text), InvalidArgumentError);
  });
});
