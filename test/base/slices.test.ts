import assert from 'node:assert/strict';
import fc from 'fast-check';
import { hasLongList, jsonInSlices, mapInSlices, nextSlice } from '../../src/base/slices.ts';
import { LoopTurns } from '../support/harness/loop-turns.ts';

const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

describe('base/slices', () => {
  /** How often others had a turn while it ran. */
  async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
    const turns = new LoopTurns();
    await work();
    turns.end();
    return turns.count;
  }

  it('lets one of many jobs do a slice of a millisecond in a turn of the loop, each in its turn', async () => {
    const turns = new LoopTurns();
    const slices: { job: number; turn: number }[] = [];
    const job = async (name: number): Promise<void> => {
      for (let slice = 0; slice < 4; slice++) {
        await nextSlice();
        slices.push({ job: name, turn: turns.count });
        for (const end = performance.now() + 1; performance.now() < end;);
      }
    };
    await Promise.all(numbers(20).map(job));
    turns.end();
    assert.deepEqual(
      slices.map((slice) => slice.job),
      [0, 1, 2, 3].flatMap(() => numbers(20)),
    );
    assert.equal(new Set(slices.map((slice) => slice.turn)).size, 80);
  });

  it('maps as Array.map does, and lets others have turns', async () => {
    for (const count of [0, 1, 100, 101, 250]) {
      assert.deepEqual(
        await mapInSlices(numbers(count), (n) => n * 2),
        numbers(count).map((n) => n * 2),
      );
    }
    const turns = await turnsDuring(() => mapInSlices(numbers(1000), (n) => n));
    assert.ok(turns >= 9, String(turns));
  });

  it('writes what JSON.stringify writes', async () => {
    const member = fc.oneof(
      fc.jsonValue(),
      fc.constant(undefined),
      fc.array(fc.jsonValue(), { minLength: 95, maxLength: 320, size: 'max' }),
    );
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string(), member, { maxKeys: 6 }), async (record) => {
        assert.equal((await jsonInSlices(record)).toString(), JSON.stringify(record).toWellFormed());
      }),
      { numRuns: 60 },
    );
  });

  const records: [name: string, record: object][] = [
    ['nothing', {}],
    ['nothing that JSON knows', { a: undefined }],
    ['a long list first', { data: numbers(201), more: true }],
    ['a long list last', { object: 'list', data: numbers(200) }],
    ['two long lists, side by side', { a: numbers(101), b: numbers(300) }],
    ['text that ends like a list', { data: numbers(101), next: 'a],', last: ',' }],
    ['what is not there behind a long list', { data: numbers(101), next: undefined }],
    ['holes in a long list', { data: [...numbers(100), undefined, 'x'] }],
    ['a record with a long list', { result: { data: numbers(201), more: true } }],
    [
      'records with long lists, side by side',
      { a: { data: numbers(101) }, b: { x: 1, y: numbers(101), z: undefined }, c: 1 },
    ],
    ['a record with a long list behind a long list', { a: numbers(101), b: { data: numbers(101) } }],
    ['a long list behind a record with one', { b: { data: numbers(101) }, a: numbers(101) }],
    [
      'what has no JSON, beside a long list',
      { f: () => 0, s: Symbol('s'), data: numbers(101), n: { toJSON: () => undefined } },
    ],
    [
      'what makes its own JSON',
      { a: { data: numbers(101), toJSON: () => 'a' }, b: Object.assign(numbers(101), { toJSON: () => 'b' }) },
    ],
    ['8 bit', { data: Array.from({ length: 150 }, () => 'Grüße 📮') }],
  ];
  for (const [name, record] of records) {
    it(`writes ${name}`, async () => {
      assert.equal((await jsonInSlices(record)).toString(), JSON.stringify(record));
    });
  }

  it('lets others have turns while it writes', async () => {
    const turns = await turnsDuring(() => jsonInSlices({ data: numbers(1000) }));
    assert.ok(turns >= 9, String(turns));
  });

  it('tells what is worth it', () => {
    assert.equal(hasLongList({ data: numbers(100), x: 1 }), false);
    assert.equal(hasLongList({ x: null, data: numbers(101) }), true);
  });
});
