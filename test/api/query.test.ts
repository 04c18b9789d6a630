import assert from 'node:assert/strict';
import fc from 'fast-check';
import { z } from 'zod';
import {
  booleanParameter,
  integerParameter,
  listParameter,
  parseQuery,
  textsParameter,
  timeParameter,
} from '../../src/api/query.ts';
import { check } from '../../src/base/check.ts';
import { Problem } from '../../src/base/problem.ts';

const isRecord = (name: string): boolean => name === 'metadata';

describe('parseQuery', () => {
  const good: [search: string, value: object, why: string][] = [
    ['', {}, 'nothing'],
    ['a=1&b=2', { a: '1', b: '2' }, 'pairs'],
    ['a=1&a=2&a=3', { a: ['1', '2', '3'] }, 'one name several times'],
    ['a', { a: '' }, 'a name alone'],
    ['a=&&b=', { a: '', b: '' }, 'empty parts'],
    ['a=b=c', { a: 'b=c' }, 'the first = counts'],
    ['q=x+y%2Bz&n%C3%A4me=1', { q: 'x y+z', näme: '1' }, 'encodings'],
    ['metadata[order]=17&metadata[who]=x', { metadata: { order: '17', who: 'x' } }, 'names in brackets'],
    ['metadata%5Border%5D=17', { metadata: { order: '17' } }, 'names in encoded brackets'],
    ['metadata[0]=17', { metadata: { 0: '17' } }, 'a number as the name of a member'],
  ];
  for (const [search, value, why] of good) {
    it(`reads ${why}`, () => {
      assert.deepEqual(parseQuery(search, isRecord), value);
    });
  }

  it('reads lists with brackets, as some programs write them', () => {
    for (const search of ['tag=a&tag=b', 'tag[]=a&tag[]=b', 'tag%5B0%5D=a&tag%5B1%5D=b', 'tag=a&tag[]=b'])
      assert.deepEqual(parseQuery(search, isRecord), { tag: ['a', 'b'] }, search);
    assert.deepEqual(parseQuery('tag[]=a&metadata[0]=b', isRecord), { tag: 'a', metadata: { 0: 'b' } });
  });

  it('keeps members of objects out of it', () => {
    assert.deepEqual(Object.keys(parseQuery('__proto__=1&metadata[__proto__]=2', isRecord)), [
      '__proto__',
      'metadata[__proto__]',
    ]);
  });

  it('refuses what cannot be decoded, and too many parameters', () => {
    for (const search of [
      'a=%',
      'a=%zz',
      '%ff=1',
      'a=%c3%28',
      Array.from({ length: 101 }, (_, n) => `p${n}=1`).join('&'),
    ]) {
      assert.throws(() => parseQuery(search, isRecord), { code: 'invalid_parameter' }, search.slice(0, 20));
    }
  });

  it('reads back what URLSearchParams writes, and never throws anything else', () => {
    const names = fc.stringMatching(/^[a-z]{1,8}$/);
    fc.assert(
      fc.property(
        fc.dictionary(
          names,
          fc.string({ unit: 'grapheme' }).filter((text) => text.isWellFormed()),
        ),
        (value) => {
          assert.deepEqual(parseQuery(new URLSearchParams(value).toString(), isRecord), { ...value });
        },
      ),
    );
    fc.assert(
      fc.property(fc.string(), (search) => {
        try {
          parseQuery(search, isRecord);
        } catch (error) {
          assert.ok(error instanceof Problem);
        }
      }),
    );
  });
});

describe('query parameters', () => {
  const Query = z.strictObject({
    limit: integerParameter(1, 100).default(25),
    opened: booleanParameter().optional(),
    status: listParameter(['queued', 'sent']).optional(),
    tag: textsParameter(z.string().max(5), 2).optional(),
    since: timeParameter().optional(),
  });
  const read = (search: string): z.output<typeof Query> =>
    check(Query, parseQuery(search, isRecord), { code: 'invalid_parameter' });

  it('become values', () => {
    assert.deepEqual(read(''), { limit: 25 });
    assert.deepEqual(read('limit=7&opened=false&status=sent,queued&tag=a&tag=b&since=2026-01-31T10:00:00%2B01:00'), {
      limit: 7,
      opened: false,
      status: ['sent', 'queued'],
      tag: ['a', 'b'],
      since: Date.parse('2026-01-31T09:00:00Z'),
    });
    assert.deepEqual(read('tag=a').tag, ['a']);
  });

  for (const search of [
    'tag=a,b&status=sent,queued',
    'tag=a&tag=b&status=sent&status=queued',
    'tag=a,b&tag=a&status=sent,queued&status=sent',
  ]) {
    it(`lists in queries: commas and repetition mean the same in ${search}`, () => {
      const { tag, status } = read(search);
      assert.deepEqual({ tag, status }, { tag: ['a', 'b'], status: ['sent', 'queued'] });
    });
  }

  it('say which names a list takes', () => {
    assert.throws(
      () => read('status=sent,other'),
      /`status` must be one or more of queued, sent, separated by commas\./,
    );
  });

  const bad: [search: string, field: string][] = [
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=', 'limit'],
    ['limit=1e1', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['limit=99999999999', 'limit'],
    ['opened=yes', 'opened'],
    ['status=sent,other', 'status'],
    ['status=', 'status'],
    ['status=sent&status=', 'status'],
    ['tag=a,b,c', 'tag'],
    ['tag=a&tag=b&tag=c', 'tag'],
    ['since=2026-01-31', 'since'],
    ['since=2026-01-31T10:00:00', 'since'],
    ['sinse=1', 'sinse'],
    ['since=9999-12-31T23:59:59Z', 'since'],
    ['since=0000-01-01T00:00:00Z', 'since'],
  ];
  for (const [search, field] of bad) {
    it(`refuse ${search}`, () => {
      assert.throws(() => read(search), { code: 'invalid_parameter', field });
    });
  }
});
