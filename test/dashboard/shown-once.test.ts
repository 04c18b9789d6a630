import assert from 'node:assert/strict';
import { openKeyring } from '../../src/base/keyring.ts';
import type { View } from '../../src/dashboard/page.ts';
import { createShownOnce } from '../../src/dashboard/shown-once.ts';
import { createIdempotencyStore } from '../../src/storage/idempotency-store.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const page = (title: string): View => ({ kind: 'view', view: 'v', title, data: {} });

describe('dashboard/shown-once', () => {
  let clock: FakeClock;
  let once: ReturnType<typeof createShownOnce>;
  let temp: TempDatabase;
  let folder: string;
  const node = (hasOthers: boolean): ReturnType<typeof createShownOnce> =>
    createShownOnce({
      clock,
      keyring: openKeyring(folder),
      store: createIdempotencyStore({ db: temp.db, clock }),
      hasOthers: () => hasOthers,
    });
  before(async () => {
    temp = await openTempDatabase();
    folder = temp.folder;
  });
  after(() => temp.close());
  beforeEach(() => {
    clock = new FakeClock();
    once = node(false);
  });

  it('gives a page once, to the session that made it', async () => {
    const token = await once.keep('ses_1', page('a'));
    assert.equal(await once.take('ses_2', token), null, 'another session');
    assert.equal((await once.take('ses_1', token))?.title, 'a');
    assert.equal(await once.take('ses_1', token), null, 'a second time');
    assert.equal(await once.take('ses_1', ''), null);
  });

  it('shows a page again after a second send of its form, to the same session and within the minute', async () => {
    const token = await once.keep('ses_1', page('a'));
    await once.take('ses_1', token);
    once.showAgain('ses_2', token);
    assert.equal(await once.take('ses_1', token), null, 'another session asked for it');
    once.showAgain('ses_1', token);
    assert.equal((await once.take('ses_1', token))?.title, 'a');
    assert.equal(await once.take('ses_1', token), null);
    clock.advance(60_000);
    once.showAgain('ses_1', token);
    assert.equal(await once.take('ses_1', token), null, 'after a minute');
  });

  it('forgets a page after a minute', async () => {
    const token = await once.keep('ses_1', page('a'));
    clock.advance(60_000);
    assert.equal(await once.take('ses_1', token), null);
  });

  it('keeps few of one session, which takes no room from others, and a bounded number of all', async () => {
    const other = await once.keep('ses_2', page('other'));
    const mine: string[] = [];
    for (let n = 0; n < 20; n++) mine.push(await once.keep('ses_1', page(String(n))));
    assert.deepEqual(
      (await Promise.all(mine.map((token) => once.take('ses_1', token)))).flatMap((one) => one?.title ?? []),
      ['15', '16', '17', '18', '19'],
    );
    for (let n = 0; n < 999; n++) await once.keep(`ses_x${String(n)}`, page('x'));
    assert.equal((await once.take('ses_2', other))?.title, 'other');
    const first = await once.keep('ses_y', page('first'));
    for (let n = 0; n < 1000; n++) await once.keep(`ses_z${String(n)}`, page('x'));
    assert.equal(await once.take('ses_y', first), null, 'the oldest of all gives way');
  });

  it('shows a page at another node, once, and leaves no secret in the database as it is', async () => {
    const [one, two] = [node(true), node(true)];
    const token = await one.keep('ses_1', { ...page('a'), data: { key: 'ak_live_secret' } });
    const rows = await temp.db.prepared.all('SELECT body FROM idempotency');
    assert.equal(rows.length, 1);
    assert.doesNotMatch(JSON.stringify(rows), /ak_live_secret/);
    assert.equal(await two.take('ses_2', token), null, 'another session');
    assert.deepEqual((await two.take('ses_1', token))?.data, { key: 'ak_live_secret' });
    assert.equal(await two.take('ses_1', token), null, 'a second time');
    const shown = await one.keep('ses_1', page('b'));
    assert.equal((await one.take('ses_1', shown))?.title, 'b');
    assert.equal(await two.take('ses_1', shown), null, 'shown at the first');
    const old = await one.keep('ses_1', page('c'));
    clock.advance(60_000);
    assert.equal(await two.take('ses_1', old), null, 'after a minute');
  });
});
