import assert from 'node:assert/strict';
import { postgresText, cleaned, types } from '../../../src/storage/postgres/connection.ts';

describe('storage/postgres/values', () => {
  it('numbers placeholders, and leaves question marks inside quotes alone', () => {
    assert.deepEqual(postgresText(`SELECT '?' || ? AS "a?" WHERE x = ? AND y = ANY (ARRAY(SELECT ?::jsonb))`), {
      text: `SELECT '?' || $1 AS "a?" WHERE x = $2 AND y = ANY (ARRAY(SELECT $3::jsonb))`,
      json: [2],
    });
    assert.equal(postgresText("SELECT 'it''s ?', ?").text, "SELECT 'it''s ?', $1");
  });

  it('replaces what PostgreSQL refuses, in texts and in JSON', () => {
    const lone = JSON.stringify(['a\0b', 'c\ud800d', '😀', '\\u0000', 'a\\']);
    const [text, json, bytes, number] = cleaned(['x\0y', lone, Buffer.from([0]), 1], [1]);
    assert.equal(text, 'x\ufffdy');
    assert.deepEqual(JSON.parse(String(json)), ['a\ufffdb', 'c\ufffdd', '😀', '\\u0000', 'a\\']);
    assert.deepEqual(bytes, Buffer.from([0]));
    assert.equal(number, 1);
  });

  it('leaves texts alone that only look like escapes', () => {
    const values = ['\\u0000', '["\\\\u0000"]'];
    assert.deepEqual(cleaned(values, [1]), values);
  });

  it('reads numbers and flags as SQLite gives them', () => {
    const read = (oid: number, text: string): unknown => types.getTypeParser(oid)(text);
    assert.deepEqual(
      [read(20, '12'), read(1700, '12.5'), read(701, '1e3'), read(16, 't'), read(16, 'f'), read(17, '\\x00ff')],
      [12, 12.5, 1000, 1, 0, Buffer.from([0, 255])],
    );
    assert.deepEqual([read(25, '12'), read(114, '[1]')], ['12', '[1]']);
  });
});
