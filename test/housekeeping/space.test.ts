import assert from 'node:assert/strict';
import { isOnPostgres } from '../support/harness/postgres.ts';
import { takeStep } from '../../src/housekeeping/housekeeping.ts';
import { roomRule } from '../../src/housekeeping/old-rows.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { contentRow } from '../support/harness/mail-rows.ts';
import { openTempDatabase } from '../support/harness/temp-database.ts';

describe('housekeeping/space', function () {
  before(function () {
    if (isOnPostgres) this.skip('PostgreSQL cleans up by itself');
  });
  it('gives pages back to the disk that deleting has left free, all but a stock, and then rests', async () => {
    const temp = await openTempDatabase();
    const { db } = temp;
    const html = 'x'.repeat(200_000);
    for (let n = 0; n < 10; n++)
      await db.commit.insert({ contents: Array.from({ length: 20 }, () => contentRow({ html })) });
    await db.commit.transact((tx) => tx.run('DELETE FROM contents'));
    const size = async (): Promise<number> => {
      await db.commit.transact(() => Promise.resolve());
      const [row] = await db.prepared.all<{ n: number }>(
        'SELECT page_count * page_size AS n FROM pragma_page_count, pragma_page_size',
      );
      return row?.n ?? 0;
    };
    const before = await size();
    assert.ok(before > 40_000_000, String(before));
    const rule = roomRule(db, new FakeClock());
    let steps = 0;
    while ((await takeStep(rule, 500, db.commit)).rows > 0) steps++;
    assert.ok(steps >= 5, String(steps));
    const after = await size();
    assert.ok(after < 14_000_000, `${String(after)} bytes are left of ${String(before)}`);
    assert.ok(after > 4_000_000, 'a stock for the next mail is kept');
    assert.deepEqual(await takeStep(rule, 500, db.commit), { rows: 0, more: false });
    await temp.close();
  });

  it('moves fewer pages in a step whose pages take long, and goes on with the next', async () => {
    const temp = await openTempDatabase();
    const html = 'x'.repeat(200_000);
    await temp.db.commit.insert({ contents: Array.from({ length: 60 }, () => contentRow({ html })) });
    await temp.db.commit.transact((tx) => tx.run('DELETE FROM contents'));
    const clock = new FakeClock();
    let now = 0;
    clock.monotonic = () => (now += 2);
    const rule = roomRule(temp.db, clock);
    const free = async (): Promise<number> => {
      const [row] = await temp.db.prepared.all<{ freelist_count: number }>('PRAGMA freelist_count');
      return row?.freelist_count ?? 0;
    };
    const before = await free();
    // The clock says 2 ms at each look: it is looked at before the first pages and after each two of them.
    const { rows, more } = await takeStep(rule, 100, temp.db.commit);
    assert.deepEqual({ rows, more, went: before - (await free()) }, { rows: 4, more: true, went: 4 });
    await temp.close();
  });
});
