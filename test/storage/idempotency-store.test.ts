import assert from 'node:assert/strict';
import { sha256Hex } from '../../src/base/secret.ts';
import { createIdempotencyStore, type IdempotencyStore } from '../../src/storage/idempotency-store.ts';
import type { IdempotencyRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { oldRule } from '../support/harness/old-rule.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const DAY = 24 * 60 * 60 * 1000;

describe('storage/idempotency-store', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let store: IdempotencyStore;
  const rowOf = (name: string, body = '{"id":"ž"}'): IdempotencyRow => ({
    key: sha256Hex(name),
    body_hash: sha256Hex(body),
    status: 202,
    headers_json: '{"Location":"/v1/messages/1"}',
    body,
    created_at: clock.now(),
    expires_at: clock.now() + DAY,
    key_id: null,
  });

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    store = createIdempotencyStore({ db: temp.db, clock });
  });
  afterEach(() => temp.close());

  it('gives back what was inserted, byte for byte', async () => {
    const row = rowOf('a', `{"text":"\\u0000 'quoted' ${'x'.repeat(100_000)} 💌"}`);
    assert.equal(await store.find(row.key), null);
    await store.insert(row);
    assert.deepEqual(await store.find(row.key), row);
  });

  it('asks once for all look-ups of one moment', async () => {
    await store.insert(rowOf('a'));
    let statements = 0;
    const counted = createIdempotencyStore({
      db: {
        commit: temp.db.commit,
        prepared: {
          ...temp.db.prepared,
          all: (sql, values) => {
            statements++;
            return temp.db.prepared.all(sql, values);
          },
        },
      },
      clock,
    });
    const keys = ['a', 'b', 'a', 'c'].map(sha256Hex);
    const found = await Promise.all(keys.map((key) => counted.find(key)));
    assert.deepEqual(
      found.map((row) => row?.key ?? null),
      [keys[0], null, keys[2], null],
    );
    assert.equal(statements, 1);
    assert.equal(await counted.find(sha256Hex('d')), null);
    assert.equal(statements, 2);
  });

  it('forgets after 24 hours, to the millisecond, and takes the key again', async () => {
    const row = rowOf('a');
    await store.insert(row);
    clock.advance(DAY - 1);
    assert.deepEqual(await store.find(row.key), row);
    clock.advance(1);
    assert.equal(await store.find(row.key), null);
    const next = rowOf('a', '{"second":true}');
    await store.insert(next);
    assert.deepEqual(await store.find(row.key), next);
  });

  it('takes the same key only once while it lives', async () => {
    await store.insert(rowOf('a'));
    await assert.rejects(store.insert(rowOf('a', '{}')), /unique/i);
    assert.equal((await store.find(sha256Hex('a')))?.body, '{"id":"ž"}');
  });

  it('purges what has expired and nothing else, step by step', async () => {
    for (let i = 0; i < 30; i++) void store.insert(rowOf(`old ${String(i)}`, '{}'));
    clock.advance(DAY);
    await store.insert(rowOf('young'));
    const purge = () => oldRule(temp.db, clock, 'expired idempotency keys').step(20, temp.db.commit);
    assert.deepEqual([await purge(), await purge(), await purge()], [20, 10, 0]);
    assert.notEqual(await store.find(sha256Hex('young')), null);
  });

  it('hands a failure to everybody who asked', async () => {
    const failing = createIdempotencyStore({
      db: { commit: temp.db.commit, prepared: { ...temp.db.prepared, all: () => Promise.reject(new Error('away')) } },
      clock,
    });
    const both = await Promise.allSettled([failing.find('a'), failing.find('b')]);
    assert.deepEqual(
      both.map(({ status }) => status),
      ['rejected', 'rejected'],
    );
  });
});
