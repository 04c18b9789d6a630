import assert from 'node:assert/strict';
import { Problem } from '../../src/base/problem.ts';
import { WAIT_MS } from '../../src/api/idempotency.ts';
import { createFormRepeats } from '../../src/dashboard/form-repeats.ts';
import { move, once, view, type Shown } from '../../src/dashboard/page.ts';
import { createIdempotencyStore, KEEP_MS } from '../../src/storage/idempotency-store.ts';
import { TestClock } from '../support/harness/app.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

describe('dashboard/form-repeats', () => {
  let temp: TempDatabase;
  let clock: TestClock;
  let failures: unknown[];
  let runs: number;
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new TestClock();
    failures = [];
    runs = 0;
  });
  afterEach(() => temp.close());

  const repeats = (store = createIdempotencyStore({ db: temp.db, clock })) =>
    createFormRepeats({ clock, store, failed: (error) => failures.push(error) });
  const form = (fields: Record<string, string>, memberId = 'mem_1', url = '/exports') => ({
    memberId,
    url,
    fields: new URLSearchParams(fields),
  });
  const sent = { _token: 'a', _form: '1', kind: 'stats' };
  const work =
    (shown: Shown = move('/exports', 'It is written.')) =>
    (): Promise<Shown> => {
      runs += 1;
      return Promise.resolve(shown);
    };
  const nothing = (): Promise<void> => Promise.resolve();

  it('answers a later send with the first redirect, also after a restart, and says that it is one', async () => {
    await repeats().once(form(sent), work(), nothing);
    let repeated = 0;
    const again = await repeats().once(form({ ...sent, _token: 'b' }), work(), async () => {
      repeated += 1;
      await nothing();
    });
    assert.deepEqual(again, {
      kind: 'move',
      to: '/exports',
      say: 'The form was sent twice and done once. It is written.',
    });
    assert.deepEqual([repeated, runs], [1, 1]);
  });

  it('leads a later send of a form whose answer had a secret to the page that it names', async () => {
    const made = once('key-made', 'Your new API key', { key: 'secret' }, '/developer/keys');
    assert.deepEqual(await repeats().once(form(sent), work(made), nothing), made);
    const again = await repeats().once(form(sent), work(made), nothing);
    assert.equal(again.kind === 'move' && again.to, '/developer/keys');
    assert.ok(!JSON.stringify([again, await temp.db.reader('idempotency').select('*')]).includes('secret":'));
  });

  const others: Record<string, Parameters<typeof form>> = {
    'another number': [{ ...sent, _form: '2' }],
    'another field': [{ ...sent, kind: 'events' }],
    'another member': [sent, 'mem_2'],
    'another address': [sent, 'mem_1', '/exports?x=1'],
    'a field more': [{ ...sent, format: '' }],
  };
  for (const [what, args] of Object.entries(others))
    it(`does the work again for ${what}`, async () => {
      const all = repeats();
      await all.once(form(sent), work(), nothing);
      await all.once(form(...args), work(), nothing);
      assert.equal(runs, 2);
    });

  const unkept: Record<string, { fields: Record<string, string>; shown: Shown }> = {
    'a form without a number': { fields: { kind: 'stats' }, shown: move('/exports') },
    'a form with an empty number': { fields: { ...sent, _form: '' }, shown: move('/exports') },
    'a page, such as that of a refused form': { fields: sent, shown: view('exports', 'Exports') },
    'a redirect with a new session': {
      fields: sent,
      shown: { kind: 'move', to: '/profile', cookies: [{ name: 'session', value: 'x' }] },
    },
  };
  for (const [what, { fields, shown }] of Object.entries(unkept))
    it(`does not keep ${what}`, async () => {
      const all = repeats();
      await all.once(form(fields), work(shown), nothing);
      await all.once(form(fields), work(shown), nothing);
      assert.equal(runs, 2);
    });

  it('does not keep an error, and forgets a redirect after a day', async () => {
    const all = repeats();
    await assert.rejects(
      all.once(form(sent), () => Promise.reject(new Error('broken')), nothing),
      /broken/,
    );
    await all.once(form(sent), work(), nothing);
    clock.advance(KEEP_MS);
    await all.once(form(sent), work(), nothing);
    assert.equal(runs, 2);
  });

  it('says in plain words that the first send still runs, after 25 seconds', async () => {
    const all = repeats();
    let finish: (shown: Shown) => void = () => undefined;
    const sends: Promise<Shown>[] = [];
    await new Promise<void>((begun) => {
      const slow = (): Promise<Shown> => {
        begun();
        return new Promise((resolve) => (finish = resolve));
      };
      sends.push(all.once(form(sent), slow, nothing));
    });
    const second = all.once(form(sent), work(), nothing);
    const refused = assert.rejects(
      second,
      (error) => error instanceof Problem && error.message.startsWith('This form was sent twice, and the first one'),
    );
    await settleEventLoop();
    clock.advance(WAIT_MS);
    await refused;
    finish(move('/exports'));
    await Promise.all(sends);
    assert.equal(runs, 0);
  });

  it('says so where the row could not be written; the work is done and answered', async () => {
    const store = createIdempotencyStore({ db: temp.db, clock });
    const all = repeats({ ...store, insert: () => Promise.reject(new Error('disk full')) });
    assert.equal((await all.once(form(sent), work(), nothing)).kind, 'move');
    assert.match(String(failures), /disk full/);
  });
});
