/** The hold book over a real database: what another node changes, and rows that have ended. */
import assert from 'node:assert/strict';
import { createHoldBook, type HoldBook } from '../../../src/messages/delivery/hold-book.ts';
import type { HoldRow } from '../../../src/storage/tables.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

describe('messages/delivery/hold-book', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
  });
  afterEach(() => temp.close());

  const bookOf = (db: Pick<TempDatabase['db'], 'prepared' | 'commit'> = temp.db): HoldBook =>
    createHoldBook({ db, clock, changed: () => undefined });

  const rowOf = (id: string, more: Partial<HoldRow> = {}): HoldRow => ({
    id,
    kind: 'hold',
    scope: 'domain',
    target: 'dest.test',
    account_id: null,
    domain: null,
    stream: null,
    key_id: null,
    tag: null,
    catches_new: 1,
    connections: null,
    per_minute: null,
    note: null,
    created_at: clock.now(),
    created_by: 'op',
    until: null,
    ...more,
  });

  const stored = async (): Promise<string[]> =>
    (await temp.db.prepared.all<{ id: string }>('SELECT id FROM holds ORDER BY id')).map(({ id }) => id);

  it('reads what another node has added and ended, and says whether that is something new', async () => {
    const [one, two] = [bookOf(), bookOf()];
    assert.equal(await two.load(), false);
    await one.add(rowOf('a'));
    assert.equal(two.has('a'), false);
    assert.equal(await two.load(), true);
    assert.ok(two.has('a'));
    assert.equal(await two.load(), false);
    await two.end(['a']);
    assert.ok(one.has('a'));
    assert.equal(await one.load(), true);
    assert.deepEqual([one.has('a'), one.list()], [false, []]);
  });

  it('does not lose an own hold to a reading that began before it', async () => {
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    let readings = 0;
    const all: typeof temp.db.prepared.all = async (sql, values) => {
      const rows = await temp.db.prepared.all(sql, values);
      if (++readings === 1) await held;
      return rows as never;
    };
    const book = bookOf({ commit: temp.db.commit, prepared: { ...temp.db.prepared, all } });
    const loading = book.load();
    await book.add(rowOf('a'));
    release();
    assert.equal(await loading, false);
    assert.ok(book.has('a'));
    assert.equal(readings, 2);
  });

  it('removes rows that have ended with the next one', async () => {
    const book = bookOf();
    await book.add(rowOf('a', { until: clock.now() + 1000 }));
    await book.add(rowOf('b'));
    clock.advance(1000);
    assert.deepEqual(await stored(), ['a', 'b']);
    await book.add(rowOf('c'));
    assert.deepEqual(await stored(), ['b', 'c']);
    assert.deepEqual(
      book.list().map(({ id }) => id),
      ['b', 'c'],
    );
  });
});
