/** Records that are made from the declaration of a table. */
import assert from 'node:assert/strict';
import { columnsOf, recordOf } from '../../src/storage/record.ts';
import { computed, flag, integer, json, map, orNull, table, text, texts, time } from '../../src/storage/table.ts';

const things = table({
  id: text().says('Id.', 'one'),
  owner: text(),
  kind: text('big', 'small').says('Size.').audited(),
  made_at: time().says('When.', '2026-01-31T09:30:02.481Z'),
  gone_at: orNull(time()).says('Until when.'),
  hot: orNull(flag()).says('Whether it is hot.').audited(),
  parts: computed(integer().says('Parts.', 3)),
  names_json: texts().says('Names.', ['a']),
  labels_json: orNull(map()).says('Labels.'),
  more_json: json<{ a: number }>().says('More.'),
});

const row = {
  id: 'x',
  kind: 'small' as const,
  made_at: 0,
  gone_at: null,
  hot: 1,
  names_json: '["b","c"]',
  labels_json: '{"k":"v"}',
  more_json: '{"a":1}',
};
const shown = {
  ...{
    object: 'thing',
    id: 'x',
    kind: 'small',
    made_at: '1970-01-01T00:00:00.000Z',
    gone_at: null,
    hot: true,
    parts: 2,
  },
  ...{ names: ['b', 'c'], labels: { k: 'v' }, more: { a: 1 } },
};

describe('storage/record', () => {
  const thing = recordOf('thing', things);

  it('a computed member is no column', () => {
    assert.deepEqual(
      things.names,
      Object.keys(things.members).filter((name) => name !== 'parts'),
    );
    assert.equal('parts' in things.columns, false);
  });

  it('shows the members in the order of the table, and no other column', () => {
    const record = thing(Object.assign({ owner: 'secret' }, row), { parts: 2 });
    assert.deepEqual(Object.entries(record), Object.entries(shown));
  });

  it('what is given takes the place of what is stored', () => {
    assert.deepEqual(thing(row, { parts: 2, hot: null, names: [] }), { ...shown, hot: null, names: [] });
  });

  it('a part of another record has no kind', () => {
    const { object: _, ...part } = shown;
    assert.deepEqual(recordOf(null, things)(row, { parts: 2 }), part);
  });

  it('records have nothing in common', () => {
    thing(row, { parts: 2, hot: null });
    assert.deepEqual(thing(row, { parts: 2 }), shown);
  });

  it('the audit keeps the members that are marked', () => {
    assert.deepEqual(thing.audited, ['kind', 'hot']);
  });

  it('columns are stored as they were read', () => {
    const { object: _, parts: __, ...members } = thing(row, { parts: 2 });
    assert.deepEqual(columnsOf(things, members), row);
  });

  it('only what is given is stored', () => {
    assert.deepEqual(columnsOf(things, { hot: undefined }), {});
    assert.deepEqual(columnsOf(things, { hot: null, gone_at: null }), { hot: null, gone_at: null });
    assert.deepEqual(columnsOf(things, { hot: false }), { hot: 0 });
  });
});
