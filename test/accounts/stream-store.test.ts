import assert from 'node:assert/strict';
import { addAccount } from '../../src/accounts/account-store.ts';
import { createStreams } from '../../src/accounts/stream-store.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

describe('accounts/stream-store', () => {
  let temp: TempDatabase;
  beforeEach(async () => {
    temp = await openTempDatabase();
  });
  afterEach(() => temp.close());

  it("finds an account's own streams, and changes by others within seconds", async () => {
    const clock = new FakeClock();
    const deps = { db: temp.db, clock };
    const account = await addAccount(deps, { name: 'a', plan: 'starter' });
    const streams = createStreams(deps);
    const found = await streams.find(account.id, 'broadcast');
    assert.deepEqual(
      [found?.slug, found?.type, found?.pool, found?.priority],
      ['broadcast', 'broadcast', 'default', 1],
    );
    for (const slug of ['news', '', 'broadcast ', 'a b', "' OR 1=1 --"])
      assert.equal(await streams.find(account.id, slug), null, slug);
    assert.equal(await streams.find('acc_other', 'broadcast'), null);

    await temp.db.commit.transact((tx) => tx.run(`UPDATE streams SET name = 'News' WHERE slug = 'broadcast'`));
    assert.equal((await streams.find(account.id, 'broadcast'))?.name, 'Broadcast');
    clock.advance(5000);
    assert.equal((await streams.find(account.id, 'broadcast'))?.name, 'News');
  });
});
