import assert from 'node:assert/strict';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

describe('storage/connection', () => {
  let temp: TempDatabase;
  beforeEach(async () => {
    temp = await openTempDatabase('sqlite');
  });
  afterEach(() => temp.close());

  it('shares one statement among callers that ask for the first time at once, and can be closed afterwards', async () => {
    const asked = Array.from({ length: 50 }, (_, at) => temp.db.prepared.all<{ v: number }>('SELECT ? AS v', [at]));
    const rows = (await Promise.all(asked)).map(([row]) => row?.v);
    assert.deepEqual(
      rows,
      Array.from({ length: 50 }, (_, at) => at),
    );
  });

  it('drops old statements, even while they run', async () => {
    const asked = Array.from({ length: 500 }, (_, at) => temp.db.prepared.all<{ v: number }>(`SELECT ${at} AS v`));
    const rows = (await Promise.all(asked)).map(([row]) => row?.v);
    assert.deepEqual(
      rows,
      Array.from({ length: 500 }, (_, at) => at),
    );
  });

  it('rejects a statement that cannot be prepared, each time, and goes on', async () => {
    for (let time = 0; time < 2; time++)
      await assert.rejects(temp.db.prepared.all('SELECT nonsense FROM nowhere'), /no such table/);
    assert.deepEqual(await temp.db.prepared.all('SELECT 1 AS v'), [{ v: 1 }]);
  });

  it('keeps no read transaction open after its rows are read', async () => {
    await temp.db.prepared.all('SELECT * FROM settings');
    await temp.db.commit.insert({ settings: [{ name: 'a', value: '1' }] });
    assert.deepEqual(await temp.db.prepared.all('SELECT name FROM settings'), [{ name: 'a' }]);
  });

  it('takes text, numbers, null and bytes as they are', async () => {
    const values = ['ž 💌 \u0000', 2 ** 52, 0.5, null, Buffer.from([0, 255, 10])] as const;
    const [row] = await temp.db.prepared.all<Record<string, unknown>>(
      'SELECT ? AS a, ? AS b, ? AS c, ? AS d, ? AS e',
      values,
    );
    assert.deepEqual(Object.values(row ?? {}), values);
  });
});
