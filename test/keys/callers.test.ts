import assert from 'node:assert/strict';
import { changeAccount, ensureDefaultAccount } from '../../src/accounts/account-store.ts';
import type { Authentication, Caller } from '../../src/keys/caller.ts';
import { createCallers, type Callers } from '../../src/keys/callers.ts';
import { createKey, findKey, revokeKey, updateKey, toKeyRecord } from '../../src/keys/key-store.ts';
import { StorageUnavailable } from '../../src/storage/commit.ts';
import type { ApiKeyRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

function callerOf(answer: Authentication): Caller {
  assert.equal(answer.kind, 'found');
  return answer.caller;
}

describe('keys/callers', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let callers: Callers;
  let row: ApiKeyRow;
  let key: string;
  let reported: unknown[];
  const deps = (): { db: TempDatabase['db']; clock: FakeClock } => ({ db: temp.db, clock });

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    reported = [];
    callers = createCallers({ ...deps(), report: (error) => void reported.push(error) });
    const account = await ensureDefaultAccount(deps());
    ({ row, key } = await createKey(deps(), {
      name: 'App',
      scopes: ['send'],
      domains: ['acme.test'],
      allowedIps: ['192.0.2.1'],
      accountId: account.id,
      createdBy: 'operator',
    }));
  });
  afterEach(async () => {
    await callers.close();
    await temp.close();
  });

  it('finds who is behind a key', async () => {
    assert.deepEqual(callerOf(await callers.authenticate(key)), {
      accountId: row.account_id,
      keyId: row.id,
      keyName: 'App',
      mode: 'live',
      scopes: ['send'],
      domains: ['acme.test'],
      allowedIps: ['192.0.2.1'],
      plan: 'unlimited',
      paused: false,
      expiresAt: null,
      revokedAt: null,
    });
  });

  it('knows nobody behind anything else', async () => {
    const other = await createKey(deps(), {
      name: 'B',
      scopes: ['send'],
      accountId: row.account_id,
      createdBy: 'operator',
    });
    await temp.db.commit.transact((tx) => tx.run('DELETE FROM api_keys WHERE id = ?', [other.row.id]));
    for (const token of ['', 'ak_live_nonsense', key.slice(0, -1), `${key}x`, other.key, row.hash]) {
      assert.deepEqual(await callers.authenticate(token), { kind: 'unknown' }, token);
    }
  });

  it('takes the whole key, not only its public part', async () => {
    const twin = await createKey(deps(), {
      name: 'B',
      scopes: ['domain'],
      accountId: row.account_id,
      createdBy: 'operator',
    });
    await temp.db.commit.transact(async (tx) => {
      await tx.run('DELETE FROM api_keys WHERE id = ?', [row.id]);
      await tx.run('UPDATE api_keys SET public_id = ? WHERE id = ?', [row.public_id, twin.row.id]);
    });
    assert.deepEqual(await callers.authenticate(key), { kind: 'unknown' });
  });

  const forgetting = {
    forget(id: string): Promise<void> {
      callers.forget(id);
      return Promise.resolve();
    },
  };

  it('sees a revocation by this process at once', async () => {
    assert.equal(callerOf(await callers.authenticate(key)).revokedAt, null);
    await revokeKey({ ...deps(), callers: forgetting }, { accountId: row.account_id, id: row.id });
    assert.equal(callerOf(await callers.authenticate(key)).revokedAt, clock.now());
  });

  it('sees a revocation by another process within a second', async () => {
    await callers.authenticate(key);
    await revokeKey(deps(), { accountId: null, id: row.id });
    assert.equal(callerOf(await callers.authenticate(key)).revokedAt, null);
    clock.advance(1000);
    assert.notEqual(callerOf(await callers.authenticate(key)).revokedAt, null);
  });

  it('keeps an unchanged caller and its lists, whatever happens beside', async () => {
    const before = callerOf(await callers.authenticate(key));
    clock.advance(5000);
    callers.recordUse(row.id, '192.0.2.1', 'GET /v1/keys');
    clock.advance(5000);
    assert.equal(callerOf(await callers.authenticate(key)), before);
    await changeAccount(deps(), row.account_id, { plan: 'starter' });
    await updateKey({ ...deps(), callers: forgetting }, { accountId: null, id: row.id }, { allowedIps: [] });
    const after = callerOf(await callers.authenticate(key));
    assert.deepEqual([after.plan, after.allowedIps], ['starter', []]);
  });

  it('notes the last use, in one write for all uses of two seconds', async () => {
    const groups = temp.db.commit.stats.units;
    for (let i = 0; i < 100; i++) callers.recordUse(row.id, `192.0.2.${String(i)}`, 'POST /v1/messages');
    assert.equal(temp.db.commit.stats.units, groups);
    const used = clock.now();
    clock.advance(2000);
    await temp.db.commit.insert({});
    const noted = await findKey(deps(), { accountId: null, id: row.id });
    assert.deepEqual(
      [noted.last_used_at, noted.last_used_ip, noted.last_used_endpoint],
      [used, '192.0.2.99', 'POST /v1/messages'],
    );
    assert.equal(toKeyRecord(noted, used).requests_24h, 100);
    assert.equal(clock.nextAt(), null);
  });

  it('counts uses by the hour, and forgets them after a day', async () => {
    const HOUR = 3_600_000;
    let written: Promise<unknown> = Promise.resolve();
    const { commit } = temp.db;
    const own = createCallers({
      db: {
        ...temp.db,
        commit: { ...commit, submit: (...args) => (written = commit.submit(...args)) },
      },
      clock,
      report: (error) => void reported.push(error),
    });
    const counted = async (): Promise<number> => {
      clock.advance(2000);
      await written;
      return toKeyRecord(await findKey(deps(), { accountId: null, id: row.id }), clock.now()).requests_24h;
    };
    for (let hour = 0; hour < 30; hour++) {
      own.recordUse(row.id, '::1', 'SMTP');
      assert.equal(await counted(), Math.min(24, hour + 1), String(hour));
      clock.advance(HOUR - 2000);
    }
    clock.advance(12 * HOUR);
    assert.equal(await counted(), 11);
    const kept = JSON.parse((await findKey(deps(), { accountId: null, id: row.id })).uses_json) as unknown[];
    assert.equal(kept.length, 24);
  });

  it('writes what waits when it is closed', async () => {
    callers.recordUse(row.id, '::1', 'SMTP');
    await callers.close();
    assert.equal((await findKey(deps(), { accountId: null, id: row.id })).last_used_ip, '::1');
    assert.equal(clock.nextAt(), null);
  });

  it('reports uses it could not write and tries again', async () => {
    let broken = true;
    const commit = {
      ...temp.db.commit,
      submit: (...args: Parameters<typeof temp.db.commit.submit>) =>
        broken ? Promise.reject(new StorageUnavailable('disk full')) : temp.db.commit.submit(...args),
    } as typeof temp.db.commit;
    const own = createCallers({
      db: { ...temp.db, commit },
      clock,
      report: (error) => void reported.push(error),
    });
    own.recordUse(row.id, '::1', 'SMTP');
    clock.advance(2000);
    own.recordUse(row.id, '::2', 'SMTP');
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(reported.length, 1);
    broken = false;
    await own.close();
    const noted = await findKey(deps(), { accountId: null, id: row.id });
    assert.deepEqual([noted.last_used_ip, toKeyRecord(noted, clock.now()).requests_24h], ['::2', 2], 'none is lost');
  });
});
