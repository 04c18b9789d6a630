import assert from 'node:assert/strict';
import { ensureDefaultAccount, addAccount } from '../../src/accounts/account-store.ts';
import { newId } from '../../src/base/id.ts';
import { Problem } from '../../src/base/problem.ts';
import { sha256Hex } from '../../src/base/secret.ts';
import { createKey, findKey, pageOfKeys, revokeKey, toKeyRecord, updateKey } from '../../src/keys/key-store.ts';
import { parseKey } from '../../src/keys/key-format.ts';
import { insertRows } from '../../src/storage/rows.ts';
import type { AccountRow, ApiKeyRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const isNotFound = (error: unknown): boolean => error instanceof Problem && error.code === 'not_found';

describe('keys/key-store', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let account: AccountRow;
  const deps = (): { db: TempDatabase['db']; clock: FakeClock } => ({ db: temp.db, clock });
  const make = async (name = 'App'): Promise<{ row: ApiKeyRow; key: string }> =>
    createKey(deps(), { name, scopes: ['send'], accountId: account.id, createdBy: 'operator' });

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    account = await ensureDefaultAccount(deps());
  });
  afterEach(() => temp.close());

  it('stores a hash and never the key', async () => {
    const { row, key } = await make();
    assert.deepEqual(await findKey(deps(), { accountId: account.id, id: row.id }), row);
    assert.equal(row.hash, sha256Hex(key));
    assert.deepEqual(parseKey(key), { kind: 'ok', mode: 'live', publicId: row.public_id });
    assert.ok(!JSON.stringify(row).includes(key.slice(17)));
  });

  it('holds at most ten thousand keys of an account; the oldest that has ended makes room', async () => {
    const { row } = await make();
    const api_keys = Array.from({ length: 9999 }, (_, n) => ({
      ...row,
      id: newId('key', clock.now()),
      public_id: `p${String(n)}`,
    }));
    await temp.db.commit.transact((tx) => insertRows(tx, [{ api_keys }]));
    await assert.rejects(make(), (error) => error instanceof Problem && error.code === 'invalid_state');
    const other = await addAccount(deps(), { name: 'b', plan: 'starter' });
    await createKey(deps(), { name: 'App', scopes: ['send'], accountId: other.id, createdBy: 'operator' });
    const [ended = row, kept = row] = [api_keys[7], api_keys[8]];
    await revokeKey(deps(), { accountId: account.id, id: ended.id });
    await make('new');
    await assert.rejects(findKey(deps(), { accountId: account.id, id: ended.id }), isNotFound);
    await findKey(deps(), { accountId: account.id, id: kept.id });
    const replaced = { id: kept.id, revokeAt: clock.now() };
    const request = { name: 'next', scopes: ['send'], accountId: account.id, createdBy: 'operator' };
    await createKey(deps(), { ...request, replaces: replaced });
    await assert.rejects(make(), (error) => error instanceof Problem && error.code === 'invalid_state');
  }).timeout(20_000);

  it('shows the record of the contract', async () => {
    const { row, key } = await createKey(deps(), {
      name: 'CI',
      mode: 'test',
      scopes: ['send', 'event:read'],
      domains: ['acme.test'],
      allowedIps: ['192.0.2.7/24'],
      expiresAt: clock.now() + 1000,
      accountId: account.id,
      createdBy: 'key:App',
    });
    const record = toKeyRecord(row, clock.now());
    assert.deepEqual(record, {
      object: 'key',
      id: row.id,
      name: 'CI',
      mode: 'test',
      prefix: key.slice(0, 16),
      scopes: ['send', 'event:read'],
      domains: ['acme.test'],
      allowed_ips: ['192.0.2.0/24'],
      expires_at: '2026-01-31T09:30:01.000Z',
      last_used_at: null,
      last_used_ip: null,
      last_used_endpoint: null,
      requests_24h: 0,
      created_at: '2026-01-31T09:30:00.000Z',
      created_by: 'key:App',
      revoked_at: null,
    });
    assert.match(record.prefix, /^ak_test_[0-9A-Za-z]{8}$/);
  });

  it('refuses a bad request before it stores anything', async () => {
    await assert.rejects(
      createKey(deps(), { name: '', scopes: ['send'], accountId: account.id, createdBy: 'operator' }),
      Problem,
    );
    assert.deepEqual((await pageOfKeys(deps(), { accountId: account.id, limit: 10 })).rows, []);
  });

  it('revokes once, tells the cache, and keeps the first time', async () => {
    const { row } = await make();
    const forgotten: string[] = [];
    const callers = {
      forget(publicId: string): Promise<void> {
        forgotten.push(publicId);
        return Promise.resolve();
      },
    };
    const first = await revokeKey({ ...deps(), callers }, { accountId: account.id, id: row.id });
    assert.equal(first.revoked_at, clock.now());
    assert.deepEqual(forgotten, [row.public_id]);
    clock.advance(1000);
    assert.deepEqual(await revokeKey(deps(), { accountId: null, id: row.id }), first);
  });

  it('changes what may be changed', async () => {
    const { row } = await make();
    const ref = { accountId: account.id, id: row.id };
    const changed = await updateKey(deps(), ref, {
      name: 'Other',
      scopes: ['domain'],
      domains: ['b.test'],
      allowedIps: ['::1'],
    });
    assert.deepEqual(changed, {
      ...row,
      name: 'Other',
      scopes_json: '["domain"]',
      domains_json: '["b.test"]',
      allowed_ips_json: '["::1"]',
    });
    assert.deepEqual(await updateKey(deps(), ref, {}), changed);
    await assert.rejects(updateKey(deps(), ref, { scopes: ['no'] }), Problem);
  });

  it("does not know another account's keys", async () => {
    const { row } = await make();
    const other = await addAccount(deps(), { name: 'other', plan: 'starter' });
    const ref = { accountId: other.id, id: row.id };
    await assert.rejects(findKey(deps(), ref), isNotFound);
    await assert.rejects(revokeKey(deps(), ref), isNotFound);
    await assert.rejects(updateKey(deps(), ref, { name: 'x' }), isNotFound);
    assert.deepEqual((await pageOfKeys(deps(), { accountId: other.id, limit: 10 })).rows, []);
    await assert.rejects(findKey(deps(), { accountId: null, id: `key_' OR 1=1 --` }), isNotFound);
  });

  it('lists newest first, in pages', async () => {
    const names = ['a', 'b', 'c'];
    for (const name of names) await make(name);
    const page = await pageOfKeys(deps(), { accountId: account.id, limit: 2 });
    assert.ok(page.hasMore);
    assert.deepEqual(
      page.rows.map(({ name }) => name),
      ['c', 'b'],
    );
    const rest = await pageOfKeys(deps(), { accountId: account.id, limit: 2, after: page.rows[1]?.id ?? '' });
    assert.ok(!rest.hasMore);
    assert.deepEqual(
      rest.rows.map(({ name }) => name),
      ['a'],
    );
  });
});
