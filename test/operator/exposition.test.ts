import assert from 'node:assert/strict';
import fc from 'fast-check';
import { counter, Counts, exposition, gauge, Histogram } from '../../src/operator/metrics/exposition.ts';

describe('base/exposition', () => {
  it('writes help, type and samples', () => {
    assert.equal(
      exposition([
        counter('a_total', 'What a is.', 3),
        { name: 'b', type: 'gauge', help: 'two', samples: [{ labels: { x: '1', y: 'z' }, value: 0.5 }, { value: -1 }] },
        { name: 'c', type: 'gauge', help: 'nothing to say', samples: [] },
      ]),
      '# HELP a_total What a is.\n# TYPE a_total counter\na_total 3\n# HELP b two\n# TYPE b gauge\nb{x="1",y="z"} 0.5\nb -1\n',
    );
  });
  for (const [label, written, why] of [
    ['a"b', 'a\\"b', 'quotes'],
    ['a\\b', 'a\\\\b', 'backslashes'],
    ['a\nb', 'a\\nb', 'line ends'],
    ['münchen', 'münchen', 'UTF-8 as it is'],
  ] as const) {
    it(`keeps a label whole: ${why}`, () => {
      const text = exposition([{ name: 'a', type: 'gauge', help: 'h', samples: [{ labels: { l: label }, value: 1 }] }]);
      assert.equal(text.split('\n')[2], `a{l="${written}"} 1`);
    });
  }
  for (const [value, written] of [
    [Infinity, '+Inf'],
    [-Infinity, '-Inf'],
    [NaN, 'NaN'],
    [1e21, '1e+21'],
  ] as const) {
    it(`writes ${String(value)} as ${written}`, () => {
      assert.match(exposition([gauge('a', 'h', value)]), new RegExp(`^a ${written.replace('+', '\\+')}$`, 'm'));
    });
  }
  it('never lets a label break out of its line', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (label, help) => {
        const text = exposition([{ name: 'a', type: 'gauge', help, samples: [{ labels: { l: label }, value: 1 }] }]);
        assert.equal(text.split('\n').length, 4);
        assert.match(text.split('\n')[2] ?? '', /^a\{l="(?:[^"\\]|\\.)*"\} 1$/u);
      }),
    );
  });
});

describe('counts', () => {
  it('begin at 0 for what is known, and grow', () => {
    const counts = new Counts([{ x: 'a' }]);
    counts.add({ x: 'b' });
    counts.add({ x: 'b' }, 2);
    assert.deepEqual(counts.samples(), [
      { labels: { x: 'a' }, value: 0 },
      { labels: { x: 'b' }, value: 3 },
    ]);
  });
  it('keep sets of labels apart whose texts run together', () => {
    const counts = new Counts();
    counts.add({ x: 'a', y: 'bc' });
    counts.add({ x: 'ab', y: 'c' });
    assert.equal(counts.samples().length, 2);
  });
});

describe('histogram', () => {
  it('counts into buckets that hold those below; a bound belongs to its bucket', () => {
    const histogram = new Histogram([1, 2]);
    for (const value of [0.5, 1, 1.5, 2, 7]) histogram.observe(value);
    assert.deepEqual(
      histogram.samples({ of: 'x' }).map(({ suffix, labels, value }) => [suffix, labels?.['le'], value]),
      [
        ['_bucket', '1', 2],
        ['_bucket', '2', 4],
        ['_bucket', '+Inf', 5],
        ['_sum', undefined, 12],
        ['_count', undefined, 5],
      ],
    );
  });
  it('never has a bucket smaller than the one before, and the last holds all', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 100, noNaN: true })), (values) => {
        const histogram = new Histogram([0.1, 1, 10]);
        for (const value of values) histogram.observe(value);
        const buckets = histogram.samples().filter(({ suffix }) => suffix === '_bucket');
        assert.ok(buckets.every(({ value }, at) => value >= (buckets[at - 1]?.value ?? 0)));
        assert.equal(buckets.at(-1)?.value, values.length);
      }),
    );
  });
});
