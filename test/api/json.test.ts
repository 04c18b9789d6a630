import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { createJsonReader } from '../../src/api/json-reader.ts';
import { LoopTurns } from '../support/harness/loop-turns.ts';
import { MAX_DEPTH, MAX_MEMBERS, MAX_VALUES, hashJson, readJson } from '../../src/api/json.ts';
import type { JsonObject } from '../../src/api/json.ts';
import { Problem } from '../../src/base/problem.ts';
import { corpus, NO_CORPORA } from '../support/harness/corpora.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

const read = (text: string): ReturnType<typeof readJson> => readJson(Buffer.from(text));
const nested = (levels: number): string => `${'{"a":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`;

describe('readJson', () => {
  const good: [text: string, value: unknown, why: string][] = [
    ['{}', {}, 'nothing'],
    [' \n{ "a" : 1 }\t', { a: 1 }, 'white space'],
    ['{"a":{"a":{"a":1}}}', { a: { a: { a: 1 } } }, 'same name on other levels'],
    ['{"a":[{"b":1},{"b":2}]}', { a: [{ b: 1 }, { b: 2 }] }, 'same name in other objects'],
    ['{"a:b,{":"\\"c\\":\\\\","d":"\\\\\\""}', { 'a:b,{': '"c":\\', d: '\\"' }, 'punctuation and quotes in strings'],
    ['{"a":"\\ud83d\\ude00"}', { a: '😀' }, 'a pair of surrogates, escaped'],
    ['\ufeff{"a":1}', { a: 1 }, 'byte order mark'],
    [`{"__proto__":1}`, JSON.parse('{"__proto__":1}'), 'an ordinary name to JSON'],
    [nested(MAX_DEPTH), JSON.parse(nested(MAX_DEPTH)), 'as deep as may be'],
  ];
  for (const [text, value, why] of good) {
    it(`takes ${why}`, () => {
      const result = read(text);
      assert.ok(result.kind === 'ok', JSON.stringify(result));
      assert.deepEqual(result.value, value);
    });
  }

  const bad: [text: string | Buffer, why: RegExp][] = [
    ['', /not valid JSON/],
    ['{"a":1', /not valid JSON/],
    ['{"a":"\u0000"}', /not valid JSON/],
    ["{'a':1}", /not valid JSON/],
    ['{"a":1,}', /not valid JSON/],
    ['{"a":NaN}', /not valid JSON/],
    ['{"a":1}{}', /not valid JSON/],
    ['{"a":"\\', /not valid JSON/],
    ['[]', /must be a JSON object/],
    ['null', /must be a JSON object/],
    ['"{}"', /must be a JSON object/],
    ['{"a":1,"a":1}', /twice/],
    ['{"a":1,"\\u0061":2}', /twice/],
    ['{"b":[[{"a":1,"c":{},"a":{}}]]}', /twice/],
    ['{"__proto__":1,"__proto__":1}', /twice/],
    ['{"a":"\\ud800"}', /surrogate/],
    ['{"\\udc00":1}', /surrogate/],
    [nested(MAX_DEPTH + 1), /deeper/],
    [`{"a":${'['.repeat(100_000)}`, /deeper/],
    [Buffer.from([0x7b, 0x22, 0xc3, 0x28, 0x22, 0x3a, 0x31, 0x7d]), /UTF-8/],
    [Buffer.from('{"a":1}', 'utf16le'), /not valid JSON/],
    [Buffer.from([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d]), /UTF-8/],
  ];
  for (const [text, why] of bad) {
    it(`refuses ${JSON.stringify(Buffer.from(text).toString('latin1')).slice(0, 40)}: ${why.source}`, () => {
      const result = readJson(Buffer.from(text));
      assert.ok(result.kind === 'bad');
      assert.match(result.why, why);
    });
  }

  it('refuses more values than an honest body has before it builds them', () => {
    assert.equal(read(`{"a":[${'[],'.repeat(MAX_VALUES)}0]}`).kind, 'too_many_values');
    const members = (count: number): string =>
      JSON.stringify({ a: Object.fromEntries(Array.from({ length: count }, (_, n) => [`x${String(n)}`, { n }])) });
    assert.equal(read(members(MAX_MEMBERS)).kind, 'ok');
    assert.equal(read(members(MAX_MEMBERS + 1)).kind, 'too_many_values');
  });

  it('takes what JSON.stringify writes, unchanged', () => {
    const objects = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ maxDepth: 5 }));
    fc.assert(
      fc.property(objects, fc.nat(3), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        const result = read(text);
        if (!text.isWellFormed() || result.kind === 'bad') assert.ok(/\\ud[89a-f]/i.test(text), text);
        else assert.deepEqual(result, { kind: 'ok', value: JSON.parse(text) as unknown });
      }),
    );
  });

  it('finds a doubled member wherever it stands', () => {
    const objects = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { minKeys: 1 });
    fc.assert(
      fc.property(objects, fc.string(), (value, padding) => {
        const [name, first] = Object.entries(value)[0] ?? ['', null];
        const text = `{${JSON.stringify(padding)}:[${JSON.stringify(value)}],"x${padding.length}":{${JSON.stringify(name)}:1,"${'"y":{},'.slice(1)}${JSON.stringify(name)}:${JSON.stringify(first)}}}`;
        const result = read(text);
        assert.equal(result.kind, 'bad');
      }),
    );
  });

  it('never throws, whatever the bytes', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => void readJson(bytes)));
    const soup = fc
      .array(fc.constantFrom('{', '}', '[', ']', '"', ':', ',', '\\', '\\u00', 'a', '1', 'null', ' '))
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(soup, (text) => {
        const result = read(text);
        if (result.kind === 'ok') assert.deepEqual(result.value, JSON.parse(text));
      }),
    );
  });

  it('agrees with the JSON test suite on objects, and refuses all it must refuse', function () {
    const folder = corpus('json-testsuite/test_parsing');
    if (folder === null) this.skip(NO_CORPORA);
    for (const file of readdirSync(folder)) {
      const result = readJson(readFileSync(path.join(folder, file)));
      if (file.startsWith('n_')) assert.notEqual(result.kind, 'ok', file);
      // The suite allows doubled names and top-level values other than objects; a request body does not.
      if (file.startsWith('y_') && result.kind === 'bad') assert.match(result.why, /must be a JSON object|twice/, file);
    }
  });
});

describe('hashJson', () => {
  it('is the same for bodies that differ in order and spacing alone', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        const reversed = Object.fromEntries(Object.entries(value).reverse()) as JsonObject;
        assert.equal(hashJson(reversed), hashJson(value as JsonObject));
      }),
    );
  });

  it('is another for bodies that mean something else', () => {
    const values = [
      {},
      { a: 1 },
      { a: '1' },
      { a: null },
      { a: [] },
      { a: {} },
      { a: [[]] },
      { a: [1, 2] },
      { a: [12] },
      { a: '1:2' },
      { a: ['1', '2'] },
      { a: ['1,2'] },
      { a: '"1:1' },
      { a: true },
      { a: 'true' },
      { ab: '' },
      { a: 'b' },
      { a: 'b', c: 'd' },
      { a: 'b,1:c"1:d' },
      { a: { c: 'd' } },
    ] as JsonObject[];
    assert.equal(new Set(values.map(hashJson)).size, values.length);
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
        const same = JSON.stringify(a) === JSON.stringify(b);
        if (!same && JSON.stringify(sorted(a)) !== JSON.stringify(sorted(b))) {
          assert.notEqual(hashJson({ v: a } as JsonObject), hashJson({ v: b } as JsonObject));
        }
      }),
    );
  });
});

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, member]) => [name, sorted(member)]),
  );
}

describe('the reader of bodies that are read on the main thread', () => {
  it('reads many of some size in as many turns of the loop', async () => {
    const reader = createJsonReader({ clock: new FakeClock() });
    const items = Array.from({ length: 20_000 }, (_, n) => n % 10);
    const bodies = Array.from({ length: 10 }, (_, n) => Buffer.from(JSON.stringify({ n, items })));
    const turns = new LoopTurns();
    const used = new Set<number>();
    const read = await Promise.all(
      bodies.map(async (bytes) => {
        const body = await reader.read(bytes, { owner: 'acc_1' });
        used.add(turns.count);
        return body.value['n'];
      }),
    );
    turns.end();
    assert.deepEqual(
      read,
      bodies.map((_, n) => n),
    );
    assert.ok(used.size > 1, `ten bodies in ${String(used.size)} turn`);
    await reader.close();
  });
});

describe('the reader of large bodies', () => {
  const large = (value: JsonObject): Buffer => Buffer.from(JSON.stringify({ ...value, fill: 'x'.repeat(300_000) }));

  const one = { owner: 'acc_1' };
  const other = { owner: 'acc_2' };

  it('gives the same as the small one, and the same hash', async () => {
    const reader = createJsonReader({ clock: new FakeClock() });
    const bytes = large({ a: [1, { b: 'ä' }] });
    const inline = readJson(bytes);
    const body = await reader.read(Buffer.from(bytes), one);
    assert.ok(inline.kind === 'ok');
    assert.deepEqual(body.value, inline.value);
    assert.equal(body.hash(), hashJson(inline.value));
    await reader.close();
  });

  it('reads many at once, each answered with its own', async () => {
    const reader = createJsonReader({ clock: new FakeClock() });
    const bodies = await Promise.all([0, 1, 2, 3, 4, 5].map(async (n) => reader.read(large({ n }), one)));
    assert.deepEqual(
      bodies.map((body) => body.value['n']),
      [0, 1, 2, 3, 4, 5],
    );
    await reader.close();
  });

  it('refuses more than it can hold, and everything when it is closed', async () => {
    const reader = createJsonReader({ clock: new FakeClock() });
    const results = Promise.allSettled(Array.from({ length: 30 }, async (_, n) => reader.read(large({ n }), one)));
    await reader.close();
    const settled = await results;
    const codes = settled.map((result) =>
      result.status === 'rejected' && result.reason instanceof Problem ? result.reason.code : result.status,
    );
    assert.ok(codes.every((code) => code === 'service_unavailable' || code === 'fulfilled'));
    assert.ok(codes.slice(20).every((code) => code === 'service_unavailable'));
    await assert.rejects(async () => reader.read(large({}), one), { code: 'service_unavailable' });
  });

  it('lets accounts take turns, and refuses one that has too many waiting without the others', async () => {
    const reader = createJsonReader({ clock: new FakeClock() });
    const done: string[] = [];
    const read = async (owner: string, value: JsonObject): Promise<void> => {
      await reader.read(large(value), { owner });
      done.push(owner);
    };
    // Each takes much longer than those of the other account, which may have to wait for a thread that is still loading.
    const slow = { items: Array.from({ length: 50_000 }, (_, n) => n % 10) };
    const many = Array.from({ length: 520 }, (_, n) => read(one.owner, n < 30 ? slow : {}));
    const settled = Promise.allSettled(many);
    const few = [read(other.owner, {}), read(other.owner, {})];
    await Promise.all(few);
    assert.ok(done.length < 18, `${String(done.length)} were read before the second of another account`);
    const refused = (await settled).filter(({ status }) => status === 'rejected');
    assert.equal(refused.length, 6, 'two are read, 512 wait');
    await reader.close();
  });

  it('ends idle threads, and one that takes too long', async () => {
    const clock = new FakeClock();
    const reader = createJsonReader({ clock });
    await reader.read(large({}), one);
    assert.equal(clock.nextAt(), clock.now() + 30_000, 'idle');
    clock.advance(30_000);
    assert.equal(clock.nextAt(), null);
    const slow = assert.rejects(async () => reader.read(large({}), one), { code: 'timeout' });
    await Promise.resolve();
    clock.advance(40_000);
    await slow;
    assert.equal((await reader.read(large({ a: 1 }), one)).value['a'], 1, 'the next gets a new thread');
    await reader.close();
  });
});
