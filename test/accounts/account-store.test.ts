import assert from 'node:assert/strict';
import {
  addAccount,
  ensureDefaultAccount,
  findAccount,
  listAccounts,
  changeAccount,
} from '../../src/accounts/account-store.ts';
import { createStreams } from '../../src/accounts/stream-store.ts';
import { Problem, type ProblemCode } from '../../src/base/problem.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const has =
  (code: ProblemCode) =>
  (error: unknown): boolean =>
    error instanceof Problem && error.code === code;

describe('accounts/account-store', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  const deps = (): { db: TempDatabase['db']; clock: FakeClock } => ({ db: temp.db, clock });

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
  });
  afterEach(() => temp.close());

  it('makes the default account once, even when asked twice at the same time', async () => {
    const [a, b] = await Promise.all([ensureDefaultAccount(deps()), ensureDefaultAccount(deps())]);
    assert.deepEqual(a, b);
    assert.deepEqual([a.name, a.plan, a.created_at], ['default', 'unlimited', clock.now()]);
    assert.deepEqual(await ensureDefaultAccount(deps()), a);
    assert.deepEqual(await listAccounts(deps()), [a]);
  });

  it('keeps the plan that the default account was given', async () => {
    const { id } = await ensureDefaultAccount(deps());
    await changeAccount(deps(), id, { plan: 'pro' });
    assert.equal((await ensureDefaultAccount(deps())).plan, 'pro');
  });

  it('adds accounts with their streams, finds them by name and id', async () => {
    const made = await addAccount(deps(), { name: ' Shop ', plan: 'starter' });
    assert.deepEqual(await findAccount(deps(), 'Shop'), made);
    assert.deepEqual(await findAccount(deps(), made.id), made);
    assert.equal(await findAccount(deps(), 'shop'), null);
    const streams = createStreams(deps());
    const types = await Promise.all(
      ['transactional', 'broadcast'].map(async (slug) => (await streams.find(made.id, slug))?.type),
    );
    assert.deepEqual(types, ['transactional', 'broadcast']);
  });

  it('finds by id where another account has that id as its name', async () => {
    const first = await addAccount(deps(), { name: 'first', plan: 'starter' });
    await addAccount(deps(), { name: first.id, plan: 'starter' });
    assert.deepEqual(await findAccount(deps(), first.id), first);
  });

  it('refuses bad and taken names', async () => {
    await addAccount(deps(), { name: 'Shop', plan: 'starter' });
    await assert.rejects(addAccount(deps(), { name: 'Shop', plan: 'starter' }), has('already_exists'));
    await assert.rejects(addAccount(deps(), { name: ' ', plan: 'starter' }), has('invalid_field'));
    await assert.rejects(addAccount(deps(), { name: 'a\0b', plan: 'starter' }), has('invalid_field'));
    await assert.rejects(addAccount(deps(), { name: 'x'.repeat(101), plan: 'starter' }), has('field_too_long'));
    assert.equal((await listAccounts(deps())).length, 1);
  });

  it('cannot set the plan of nobody', async () => {
    await assert.rejects(changeAccount(deps(), 'acc_none', { plan: 'pro' }), has('not_found'));
  });
});
