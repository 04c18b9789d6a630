import assert from 'node:assert/strict';
import { addAccount } from '../../src/accounts/account-store.ts';
import { Problem, type ProblemCode } from '../../src/base/problem.ts';
import {
  addSuppression,
  addSuppressions,
  createFullListCheck,
  pageOfSuppressions,
  removeSuppressions,
  findSuppressed,
  type NewSuppression,
  type Suppressed,
  type SuppressionFilter,
} from '../../src/suppressions/suppression-store.ts';
import type { SuppressionRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const has =
  (code: ProblemCode) =>
  (error: unknown): boolean =>
    error instanceof Problem && error.code === code;

describe('suppressions/suppression-store', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let accountId: string;
  const deps = (): { db: TempDatabase['db']; clock: FakeClock } => ({ db: temp.db, clock });
  const add = (email: string, more: Partial<NewSuppression> = {}): ReturnType<typeof addSuppression> =>
    addSuppression(deps(), { accountId, email, stream: null, reason: 'manual', createdBy: 'operator', ...more });
  const list = async ({
    limit,
    after,
    ...filter
  }: {
    accountId: string;
    reason?: 'manual';
    limit: number;
    after?: string;
  }): Promise<SuppressionRow[]> =>
    (await pageOfSuppressions(deps(), filter, { limit, ...(after === undefined ? {} : { after }) })).rows;
  const suppressed = async (ofAccount: string, stream: string, addressKeys: string[]): Promise<Suppressed> => {
    const [found] = await findSuppressed(temp.db.prepared, clock.now(), [
      { accountId: ofAccount, stream, addressKeys },
    ]);
    return found ?? new Map();
  };
  const reasons = async (stream: string, keys: string[]): Promise<Record<string, string>> =>
    Object.fromEntries([...(await suppressed(accountId, stream, keys))].map(([key, { reason }]) => [key, reason]));

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    accountId = (await addAccount(deps(), { name: 'a', plan: 'starter' })).id;
  });
  afterEach(() => temp.close());

  it('says when the list of an account is full, and within a minute when it has room again', async () => {
    const refuseFull = createFullListCheck(deps(), 2);
    await add('ana@example.net');
    await refuseFull(accountId);
    await add('bo@example.net');
    await refuseFull(accountId);
    clock.advance(60_000);
    await assert.rejects(refuseFull(accountId), has('invalid_state'));
    await refuseFull((await addAccount(deps(), { name: 'b', plan: 'starter' })).id);
    await removeSuppressions(deps(), { accountId, email: 'bo@example.net' });
    clock.advance(60_000);
    await refuseFull(accountId);
  });

  it('finds among many, whatever the case of the local part', async () => {
    await add('Ana@Example.Net');
    const keys = Array.from({ length: 1000 }, (_, i) => `u${String(i)}@example.net`);
    assert.deepEqual(await reasons('transactional', [...keys, 'ana@example.net']), { 'ana@example.net': 'manual' });
    assert.deepEqual(await reasons('transactional', []), {});
    assert.deepEqual(await reasons('transactional', [`' OR 1=1 --`]), {});
  });

  it('keeps streams apart; the account is above them', async () => {
    await add('a@x.test', { stream: 'broadcast', reason: 'unsubscribe' });
    await add('b@x.test', { stream: 'broadcast', reason: 'unsubscribe' });
    await add('b@x.test', { reason: 'complaint' });
    assert.deepEqual(await reasons('transactional', ['a@x.test', 'b@x.test']), { 'b@x.test': 'complaint' });
    const others = Array.from({ length: 600 }, (_, i) => `u${String(i)}@x.test`);
    for (const more of [[], others])
      assert.deepEqual(await reasons('broadcast', ['a@x.test', ...more, 'b@x.test']), {
        'a@x.test': 'unsubscribe',
        'b@x.test': 'complaint',
      });
  });

  it('keeps accounts apart', async () => {
    await add('a@x.test');
    const other = await addAccount(deps(), { name: 'b', plan: 'starter' });
    assert.equal((await suppressed(other.id, 'transactional', ['a@x.test'])).size, 0);
    assert.deepEqual(await list({ accountId: other.id, limit: 10 }), []);
    assert.deepEqual(await removeSuppressions(deps(), { accountId: other.id, email: 'a@x.test' }), []);
  });

  it('returns the old entry where there is one, and replaces one that has ended', async () => {
    const first = await add('a@x.test', { expiresAt: clock.now() + 1000 });
    assert.deepEqual([first.created, first.row.address_key], [true, 'a@x.test']);
    const again = await add('A@x.test', { reason: 'hard_bounce' });
    assert.deepEqual(again, { row: first.row, created: false });
    clock.advance(1000);
    assert.deepEqual(await reasons('transactional', ['a@x.test']), {});
    assert.deepEqual(await list({ accountId, limit: 10 }), []);
    const next = await add('a@x.test', { reason: 'hard_bounce' });
    assert.equal(next.created, true);
    assert.deepEqual(await list({ accountId, limit: 10 }), [next.row]);
  });

  it('replaces an entry with an end by what the recipient asked for, and no other', async () => {
    for (const [email, end, createdBy, reason] of [
      ['a@x.test', 1000, 'recipient', 'unsubscribe'],
      ['b@x.test', null, 'recipient', 'manual'],
      ['c@x.test', 1000, 'operator', 'manual'],
    ] as const) {
      await add(email, { expiresAt: end === null ? null : clock.now() + end });
      const { row, created } = await add(email, { reason: 'unsubscribe', createdBy });
      assert.deepEqual([row.reason, created], [reason, reason === 'unsubscribe'], email);
      assert.deepEqual(await reasons('transactional', [email]), { [email]: reason });
    }
    clock.advance(1000);
    assert.deepEqual(await reasons('transactional', ['a@x.test', 'b@x.test', 'c@x.test']), {
      'a@x.test': 'unsubscribe',
      'b@x.test': 'manual',
    });
  });

  it('takes the row of a bounce where the entry that is there has ended or will, and keeps one that lasts', async () => {
    const { row } = await add('a@x.test', { expiresAt: clock.now() + 1000 });
    const bounce = (id: string, end: number | null = null): Promise<void> =>
      temp.db.commit.insert({
        suppressions: [
          {
            ...row,
            id,
            reason: 'hard_bounce',
            source_message_id: null,
            created_at: clock.now(),
            created_by: 'posthorn',
            expires_at: end,
          },
        ],
      });
    const kept = async (): Promise<string[]> => (await list({ accountId, limit: 10 })).map(({ id }) => id);
    clock.advance(999);
    await bounce('sup_early', clock.now() + 1000);
    assert.deepEqual(await kept(), [row.id]);
    clock.advance(1);
    await bounce('sup_ending', clock.now() + 1000);
    assert.deepEqual(await kept(), ['sup_ending']);
    await bounce('sup_lasting');
    await bounce('sup_later');
    assert.deepEqual(await kept(), ['sup_lasting']);
    assert.deepEqual(await reasons('transactional', ['a@x.test']), { 'a@x.test': 'hard_bounce' });
  });

  it('tests a bounded number of entries for a page, and goes on from there', async () => {
    const rare = await add('rare@x.test', { reason: 'complaint' });
    const many = Array.from({ length: 100 }, (_, n): NewSuppression => {
      const email = `u${String(n).padStart(2, '0')}@x.test`;
      return { accountId, email, stream: null, reason: 'manual', createdBy: 'operator' };
    });
    for (const one of many) {
      clock.advance(1000);
      await addSuppressions(deps(), [one]);
    }
    type Filter = Omit<SuppressionFilter, 'accountId'>;
    const pages = async (filter: Filter, direction: 'after' | 'before'): Promise<SuppressionRow[][]> => {
      const found: SuppressionRow[][] = [];
      let edge: string | null = direction === 'after' ? null : 'sup_0';
      for (;;) {
        const part = { limit: 4, ...(edge === null ? {} : { [direction]: edge }) };
        const page = await pageOfSuppressions(deps(), { accountId, ...filter }, part, [10, 20]);
        found.push(page.rows);
        if (!page.hasMore) return found;
        edge = direction === 'after' ? page.last : page.first;
        assert.ok(edge !== null && found.length < 100);
      }
    };
    for (const direction of ['after', 'before'] as const) {
      const found = await pages({ reason: 'complaint' }, direction);
      assert.deepEqual(found.flat(), [rare.row], direction);
      assert.equal(found.length, 4, 'slices of 30 of 101 entries');
      const all = await pages({}, direction);
      assert.equal(new Set(all.flat().map(({ id }) => id)).size, 101);
      const span = { createdAfter: clock.now() - 2000, createdBefore: clock.now() };
      const within = (await pages(span, direction)).map((page) => page.map(({ email }) => email));
      assert.deepEqual(within, [['u98@x.test', 'u97@x.test']], 'a span of time is found at once');
    }
  });

  it('refuses what is no address and notes that are too long', async () => {
    await assert.rejects(add('nobody'), has('invalid_address'));
    await assert.rejects(add('a@x.test', { note: 'x'.repeat(501) }), has('field_too_long'));
    assert.equal((await add('a@bücher.test')).row.email, 'a@xn--bcher-kva.test');
  });

  it('removes all entries of an address, or those of one scope', async () => {
    await add('a@bücher.test');
    await add('a@bücher.test', { stream: 'broadcast' });
    const removed = await removeSuppressions(deps(), { accountId, email: 'A@BÜCHER.test', stream: 'broadcast' });
    assert.deepEqual(
      removed.map(({ scope }) => scope),
      ['stream:broadcast'],
    );
    assert.equal((await removeSuppressions(deps(), { accountId, email: 'a@xn--bcher-kva.test' })).length, 1);
    assert.deepEqual(await list({ accountId, limit: 10 }), []);
  });

  it('removes what a complaint made only by force, and then all or nothing', async () => {
    await add('a@x.test', { reason: 'complaint' });
    await add('a@x.test', { stream: 'broadcast' });
    await assert.rejects(removeSuppressions(deps(), { accountId, email: 'a@x.test' }), has('invalid_state'));
    assert.equal((await list({ accountId, limit: 10 })).length, 2);
    assert.equal((await removeSuppressions(deps(), { accountId, email: 'a@x.test', force: true })).length, 2);
  });

  it('lists newest first, by reason, in pages', async () => {
    for (const name of ['a', 'b', 'c'])
      await add(`${name}@x.test`, { reason: name === 'b' ? 'hard_bounce' : 'manual' });
    const page = await list({ accountId, reason: 'manual', limit: 1 });
    assert.deepEqual(
      page.map(({ email }) => email),
      ['c@x.test'],
    );
    const rest = await list({ accountId, reason: 'manual', limit: 10, after: page[0]?.id ?? '' });
    assert.deepEqual(
      rest.map(({ email }) => email),
      ['a@x.test'],
    );
  });
});
