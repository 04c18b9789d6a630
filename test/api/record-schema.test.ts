/** Schemas and examples of records. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import { maybe, recordSchema, sampleOf, shows, text, whole } from '../../src/api/record-schema.ts';
import { recordOf } from '../../src/storage/record.ts';
import { computed, flag, json, orNull, table, text as textColumn, texts, time } from '../../src/storage/table.ts';
import { tables } from '../../src/storage/tables.ts';

describe('api/record-schema', () => {
  const rows: [what: string, schema: z.ZodType, sample: unknown][] = [
    ['a text is empty', z.string(), ''],
    ['an example is shown', text('Says.', 'x'), 'x'],
    ['an example stays with another description', text('Says.', 'x').describe('More.'), 'x'],
    ['a number is 0', z.int(), 0],
    ['a map is empty', z.record(z.string(), z.string()), {}],
    ['a null is shown', maybe('Says.'), null],
    ['an object that may be null is shown', z.object({ n: whole('N.', 4) }).nullable(), { n: 4 }],
    ['null may be the example of an object', shows(z.object({ n: z.int() }).nullable(), null), null],
    ['a list of objects has one', z.array(z.object({ a: z.boolean() })), [{ a: false }]],
    ['a list of texts is empty', z.array(z.string()), []],
    ['the first of several values', z.enum(['b', 'a']), 'b'],
    ['an optional member is left out', z.object({ a: z.literal('k'), b: z.string().optional() }), { a: 'k' }],
    ['a member of an extended object', z.object({ a: text('A.', 'x') }).extend({ b: z.int() }), { a: 'x', b: 0 }],
  ];
  for (const [what, schema, sample] of rows)
    it(what, () => {
      assert.deepEqual(sampleOf(schema), sample);
    });

  const things = table({
    id: textColumn().says('Id.', 'one'),
    inside: textColumn(),
    size: orNull(textColumn('big', 'small')).says('Size.'),
    at: time().says('When.', '2026-01-31T09:30:02.481Z'),
    hot: computed(flag().says('Whether it is hot.')),
    names_json: texts().says('Names.'),
    more_json: orNull(json<object>()).says('More.'),
  });

  it('the schema of a table has its public columns, and an example that fits', () => {
    const names = { id: 'Thing', description: 'A thing.' };
    const Thing = recordSchema(recordOf('thing', things), names, { more: z.object({ n: z.int() }), last: z.int() });
    const sample = sampleOf(Thing);
    assert.deepEqual(sample, {
      ...{ object: 'thing', id: 'one', size: null, at: '2026-01-31T09:30:02.481Z', hot: false, names: [] },
      ...{ more: { n: 0 }, last: 0 },
    });
    assert.deepEqual(Thing.parse(sample), sample);
    assert.equal(Thing.shape['size']?.description, 'Size.');
    assert.equal(Thing.safeParse({ ...sample, size: 'huge' }).success, false);
  });

  it('no column whose value is sealed or hashed is shown', () => {
    const shown = Object.entries(tables).flatMap(([name, { columns }]) =>
      Object.entries(columns)
        .filter(([column, { member }]) => member !== null && /sealed|hash|secret|password|token|private/.test(column))
        .map(([column]) => `${name}.${column}`),
    );
    assert.deepEqual(shown, []);
  });
});
