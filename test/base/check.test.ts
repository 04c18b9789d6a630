import assert from 'node:assert/strict';

import fc from 'fast-check';
import { z } from 'zod';

import { check, faults, fieldName } from '../../src/base/check.ts';
import { Problem } from '../../src/base/problem.ts';
import { nearest } from '../../src/base/spelling.ts';

const Order = z.strictObject({
  number: z.string().min(2).max(5),
  reply_to: z.union([z.string(), z.array(z.string().regex(/^[a-z]+$/)).max(3)]).nullish(),
  count: z.int().min(1).max(9).optional(),
  kind: z.enum(['small', 'large']).optional(),
  lines: z
    .array(z.strictObject({ what: z.string(), note: z.string().optional() }))
    .max(2)
    .optional(),
  labels: z.record(z.string().regex(/^[a-z]+$/), z.string().max(3)).optional(),
  test: z.union([z.boolean(), z.strictObject({ outcome: z.enum(['good', 'bad']) })]).optional(),
  slug: z
    .string()
    .regex(/^[a-z]+$/)
    .register(faults, { code: 'unknown_stream', says: 'is no stream' })
    .optional(),
  even: z
    .number()
    .refine((n) => n % 2 === 0, { error: 'must be even', params: { code: 'invalid_recipient' } })
    .optional(),
  free: z.array(z.string()).optional(),
  names: z.array(z.string()).min(1).optional(),
  later: z.null().register(faults, { unavailable: true }).optional(),
});

function problem(value: unknown, options: Parameters<typeof check>[2] = {}): Problem {
  try {
    check(Order, value, options);
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
  throw new assert.AssertionError({ message: 'the value passed' });
}

/** [value, code, field, why] */
const bad: readonly (readonly [value: unknown, code: string, field: string | null, why: string])[] = [
  [null, 'missing_field', null, 'no body at all'],
  [[], 'invalid_type', null, 'a list is no object'],
  ['x', 'invalid_type', null, 'a string is no object'],
  [{}, 'missing_field', 'number', 'required and absent'],
  [{ number: null }, 'missing_field', 'number', 'required and null'],
  [{ number: 7 }, 'invalid_type', 'number', 'another JSON type'],
  [{ number: 'x' }, 'invalid_field', 'number', 'too short'],
  [{ number: 'abcdef' }, 'field_too_long', 'number', 'too long'],
  [{ number: 'abc', reply_to: 5 }, 'invalid_type', 'reply_to', 'neither of two types'],
  [{ number: 'abc', reply_to: ['a', 5] }, 'invalid_type', 'reply_to[1]', 'an entry of another type'],
  [{ number: 'abc', reply_to: ['a', null] }, 'missing_field', 'reply_to[1]', 'an entry that is null'],
  [{ number: 'abc', reply_to: ['a', 'B'] }, 'invalid_field', 'reply_to[1]', 'an entry that breaks its pattern'],
  [{ number: 'abc', reply_to: ['a', 'b', 'c', 'd'] }, 'too_many_items', 'reply_to', 'a list that is too long'],
  [{ number: 'abc', count: '1' }, 'invalid_type', 'count', 'a string is no number'],
  [{ number: 'abc', count: 1.5 }, 'invalid_type', 'count', 'not a whole number'],
  [{ number: 'abc', count: 0 }, 'invalid_field', 'count', 'below its range'],
  [{ number: 'abc', count: 10 }, 'invalid_field', 'count', 'above its range'],
  [{ number: 'abc', kind: 'medium' }, 'invalid_field', 'kind', 'not one of the words'],
  [{ number: 'abc', kind: true }, 'invalid_type', 'kind', 'not even a word'],
  [{ number: 'abc', lines: {} }, 'invalid_type', 'lines', 'an object is no list'],
  [{ number: 'abc', lines: [{}] }, 'missing_field', 'lines[0].what', 'missing within a list'],
  [
    { number: 'abc', lines: [{ what: 'a' }, { what: 'b', not: 'c' }] },
    'unknown_field',
    'lines[1].not',
    'unknown within a list',
  ],
  [{ number: 'abc', labels: { a: 5 } }, 'invalid_type', 'labels.a', 'a value of another type'],
  [{ number: 'abc', labels: { A: 'x' } }, 'invalid_field', 'labels.A', 'a name that breaks its pattern'],
  [{ number: 'abc', labels: { a: 'abcd' } }, 'field_too_long', 'labels.a', 'a value that is too long'],
  [{ number: 'abc', test: 'yes' }, 'invalid_type', 'test', 'neither boolean nor object'],
  [{ number: 'abc', test: {} }, 'missing_field', 'test.outcome', 'missing within an alternative'],
  [{ number: 'abc', test: { outcome: 'ugly' } }, 'invalid_field', 'test.outcome', 'a bad word within an alternative'],
  [{ number: 'abc', test: { outcome: 'good', x: 1 } }, 'unknown_field', 'test.x', 'unknown within an alternative'],
  [{ number: 'abc', slug: 'A' }, 'unknown_stream', 'slug', 'a code noted on the schema'],
  [{ number: 'abc', slug: 5 }, 'invalid_type', 'slug', 'the noted code is not for a wrong type'],
  [{ number: 'abc', even: 3 }, 'invalid_recipient', 'even', 'a code given with the rule'],
  [{ number: 'abc', later: 'x' }, 'invalid_field', 'later', 'declared, not available'],
  [{ number: 'abc', numbr: 'x' }, 'unknown_field', 'numbr', 'unknown'],
  [{ number: 'abc', '': 'x' }, 'unknown_field', '', 'a name without characters is a name'],
  [{ numbr: 'x' }, 'unknown_field', 'numbr', 'unknown goes before missing: the typing error explains both'],
  [{ later: 1 }, 'invalid_field', 'later', 'not available goes before missing'],
  [{ number: 'x', count: 'y' }, 'invalid_type', 'count', 'a wrong type goes before a bad value'],
  [{ number: 5, count: 'y' }, 'invalid_type', 'number', 'of two of a rank, the one declared first'],
  [{ count: 'y', number: 5 }, 'invalid_type', 'number', 'and not the one sent first'],
  [{ number: 'abc', lines: [{ x: 1 }], y: 1 }, 'unknown_field', 'y', 'of two unknown ones the shallower'],
  [
    JSON.parse('{"number":"abc","__proto__":1}'),
    'unknown_field',
    '__proto__',
    'a name that objects treat in a special way',
  ],
];

describe('check', () => {
  for (const [value, code, field, why] of bad) {
    it(`${code} ${field ?? '(body)'}: ${why}`, () => {
      const { code: got, field: at } = problem(value);
      assert.deepEqual({ code: got, field: at }, { code, field });
    });
  }

  it('gives the value back, without members that are null and optional', () => {
    assert.deepEqual(check(Order, { number: 'abc' }), { number: 'abc' });
    assert.deepEqual(check(Order, { number: 'abc', count: null, lines: [{ what: 'x', note: null }] }), {
      number: 'abc',
      lines: [{ what: 'x' }],
    });
    assert.deepEqual(check(Order, { number: 'abc', labels: { a: null, b: 'x' } }), {
      number: 'abc',
      labels: { b: 'x' },
    });
    const untouched = { number: 'abc', lines: [{ what: 'x', note: null }] };
    check(Order, untouched);
    assert.equal(untouched.lines[0]?.note, null);
  });

  it('says what was probably meant', () => {
    assert.match(problem({ number: 'abc', replyTo: 'x' }).message, /did you mean `reply_to`\?/);
    assert.match(problem({ number: 'abc', numebr: 'x' }).message, /did you mean `number`\?/);
    assert.doesNotMatch(problem({ number: 'abc', colour: 'x' }).message, /did you mean/);
  });

  it('says what was expected', () => {
    assert.equal(problem({ number: 'abc', reply_to: 5 }).message, '`reply_to` must be a string or a list.');
    assert.equal(problem({ number: 'abcdef' }).message, '`number` must have at most 5 characters.');
    assert.equal(problem({ number: 'abc', names: [] }).message, '`names` must have at least 1 entry.');
    assert.equal(problem({ number: 'abc', kind: 'x' }).message, '`kind` must be one of `small`, `large`.');
    assert.equal(problem({ number: 'abc', even: 1 }).message, '`even` must be even.');
    assert.equal(problem({ number: 'abc', later: 1 }).message, '`later` is not available yet.');
    assert.equal(problem(null).message, 'The body is missing.');
  });

  it('says of a parameter that it was given twice, not that it has another type', () => {
    const told = (value: unknown): string => problem(value, { code: 'invalid_parameter', isQuery: true }).message;
    assert.equal(told({ number: ['abc', 'abc'] }), '`number` was given more than once.');
    assert.equal(told({ number: 'abc', kind: ['small', 'large'] }), '`kind` was given more than once.');
    assert.equal(told({ number: 'abcdef' }), '`number` must have at most 5 characters.');
    assert.equal(problem({ number: ['abc'] }).message, '`number` must be a string.');
  });

  it('takes a prefix and one code for all faults', () => {
    assert.equal(problem({}, { prefix: 'recipients[3]' }).field, 'recipients[3].number');
    assert.equal(problem('x', { prefix: 'recipients[3]' }).field, 'recipients[3]');
    assert.equal(problem({}, { code: 'invalid_parameter' }).code, 'invalid_parameter');
    assert.equal(problem({ number: 'abc', slug: 'A' }, { code: 'invalid_parameter' }).code, 'invalid_parameter');
  });

  it('answers 100,000 faults, and a name of a megabyte in a short sentence', () => {
    const { code, field } = problem({ number: 'abc', free: Array.from({ length: 100_000 }, () => 5), x: 1 });
    assert.deepEqual([code, field], ['unknown_field', 'x']);
    assert.ok((problem({ number: 'abc', ['x'.repeat(1e6)]: 1 }).field?.length ?? Infinity) < 300);
  });

  it('throws nothing but problems, whatever the value', () => {
    const wild = fc.oneof(
      fc.jsonValue(),
      fc.record(Object.fromEntries(Object.keys(Order.shape).map((name) => [name, fc.jsonValue()])), {
        requiredKeys: [],
      }),
    );
    fc.assert(
      fc.property(wild, (value) => {
        try {
          check(Order, value);
        } catch (error) {
          assert.ok(error instanceof Problem, String(error));
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe('a pattern without words of its own', () => {
  it('is still a whole sentence', () => {
    assert.throws(() => check(z.strictObject({ id: z.string().regex(/^msg_/) }), { id: 'abc' }), {
      message: '`id` does not have the form that is required here.',
    });
  });
});

describe('fieldName', () => {
  it('names members, entries and the whole', () => {
    assert.equal(fieldName(undefined, ['attachments', 0, 'content']), 'attachments[0].content');
    assert.equal(fieldName('recipients[3]', ['cc', 1]), 'recipients[3].cc[1]');
    assert.equal(fieldName(undefined, []), null);
  });
});

describe('nearest', () => {
  const known = ['from', 'to', 'reply_to', 'subject', 'html'];
  const rows: readonly (readonly [given: string, guess: string | null, why: string])[] = [
    ['subjct', 'subject', 'a letter is missing'],
    ['subjects', 'subject', 'a letter too many'],
    ['form', 'from', 'two letters swapped'],
    ['replyTo', 'reply_to', 'another habit of writing'],
    ['Reply-To', 'reply_to', 'the header'],
    ['HTML', 'html', 'capitals'],
    ['body', null, 'nothing near'],
    ['cc', null, 'short names are near to everything'],
    ['', null, 'nothing given'],
    ['subject'.repeat(1000), null, 'too long to be a typing error'],
  ];
  for (const [given, guess, why] of rows) {
    it(`${given.slice(0, 20)} -> ${String(guess)}: ${why}`, () => {
      assert.equal(nearest(given, known), guess);
    });
  }
});
