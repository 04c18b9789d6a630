import assert from 'node:assert/strict';
import { newId } from '../../src/base/id.ts';
import { checkTimes, domainsToCheck } from '../../src/domains/domain-watch.ts';
import { insertRows } from '../../src/storage/rows.ts';
import { addDomain } from '../../src/domains/domain-store.ts';
import { openKeyring } from '../../src/base/keyring.ts';
import { domainChecks } from '../../src/housekeeping/domain-checks.ts';
import { recordsOf } from '../../src/domains/domain-record.ts';
import { ensureDefaultAccount } from '../../src/accounts/account-store.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { DomainRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

describe('housekeeping/domain-checks', () => {
  let temp: TempDatabase;
  let folder: string;
  beforeEach(async () => {
    temp = await openTempDatabase();
    folder = mkdtempSync(path.join(tmpdir(), 'ph-'));
  });
  afterEach(async () => {
    await temp.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('checks what is due, and warns when a record breaks', async () => {
    const clock = new FakeClock(Date.parse('2026-01-31T09:30:00Z'));
    const { db } = temp;
    const resolver = new FakeResolver();
    const warned: unknown[] = [];
    const log = { warn: (fields: object) => warned.push(fields), info: () => undefined };
    const hostname = 'mail.posthorn.test';
    const deps = { db, clock, resolver, hostname, log, graceMs: 0, keyring: openKeyring(folder) };
    const { id: accountId } = await ensureDefaultAccount(deps);
    const domain = await addDomain(deps, { accountId, name: 'acme.test' });
    await addDomain(deps, { accountId, name: 'trusted.test', trusted: true });
    const rule = domainChecks(deps);
    const status = async (): Promise<string | undefined> =>
      (await db.reader<DomainRow>('domains').where('name', 'acme.test').first())?.status;
    const zones = Object.fromEntries(
      recordsOf(domain, hostname).map(({ host, type, value }) => [`${host} ${type}`, [value]]),
    );

    resolver.zones = zones;
    await rule.step();
    assert.equal(await status(), 'verified');
    assert.ok(resolver.asked.every((question) => !question.includes('trusted.test')));

    resolver.zones = {};
    clock.advance(checkTimes.every - 1);
    await rule.step();
    assert.equal(await status(), 'verified');
    clock.advance(1);
    await rule.step();
    assert.equal(await status(), 'failed');
    assert.equal(warned.length, 1);

    resolver.zones = zones;
    clock.advance(checkTimes.brokenEvery);
    await rule.step();
    assert.equal(await status(), 'verified');

    resolver.zones = {};
    clock.jump(-30 * 24 * 3_600_000);
    await rule.step();
    assert.equal(await status(), 'failed', 'a check that is yet to come was none');
  });

  it('looks every half hour at a domain that has lost a record, and once more when its countdown is over', async () => {
    const clock = new FakeClock(Date.parse('2026-01-31T09:30:00Z'));
    const { db } = temp;
    const resolver = new FakeResolver();
    const deps = {
      db,
      clock,
      resolver,
      hostname: 'mail.posthorn.test',
      graceMs: 45 * 60_000,
      keyring: openKeyring(folder),
    };
    const { id: accountId } = await ensureDefaultAccount(deps);
    const domain = await addDomain(deps, { accountId, name: 'acme.test' });
    const rule = domainChecks(deps);
    const checkedAfter = async (minutes: number): Promise<boolean> => {
      clock.advance(minutes * 60_000);
      await rule.step();
      const row = await db.reader<DomainRow>('domains').first();
      return row?.checked_at === clock.now();
    };
    resolver.zones = Object.fromEntries(
      recordsOf(domain, deps.hostname).map(({ host, type, value }) => [`${host} ${type}`, [value]]),
    );
    assert.ok(await checkedAfter(0));
    resolver.zones = {};
    assert.deepEqual([await checkedAfter(359), await checkedAfter(1)], [false, true]);
    assert.deepEqual([await checkedAfter(29), await checkedAfter(1)], [false, true]);
    assert.deepEqual([await checkedAfter(14), await checkedAfter(1), await checkedAfter(1)], [false, true, false]);
    assert.equal((await db.reader<DomainRow>('domains').first())?.status, 'failed');
  });

  it('looks every two minutes at a domain that was just added, for an hour', async () => {
    const clock = new FakeClock(Date.parse('2026-01-31T09:30:00Z'));
    const { db } = temp;
    const resolver = new FakeResolver();
    const deps = { db, clock, resolver, hostname: 'mail.posthorn.test', graceMs: 0, keyring: openKeyring(folder) };
    const { id: accountId } = await ensureDefaultAccount(deps);
    await addDomain(deps, { accountId, name: 'acme.test' });
    const rule = domainChecks(deps);
    const checkedAfter = async (minutes: number): Promise<boolean> => {
      clock.advance(minutes * 60_000);
      await rule.step();
      return (await db.reader<DomainRow>('domains').first())?.checked_at === clock.now();
    };
    assert.deepEqual(
      [await checkedAfter(0), await checkedAfter(1), await checkedAfter(1), await checkedAfter(56)],
      [true, false, true, true],
    );
    assert.deepEqual([await checkedAfter(3), await checkedAfter(200)], [false, false]);
  });

  it('gives new domains half of the checks, and the rest to those that are due again', async () => {
    const clock = new FakeClock(Date.parse('2026-01-31T09:30:00Z'));
    const { db } = temp;
    const deps = { db, clock, keyring: openKeyring(folder) };
    const { id: accountId } = await ensureDefaultAccount(deps);
    const { row } = await addDomain(deps, { accountId, name: 'acme.test' });
    const rowsOf = (name: string, count: number, checkedAt: number | null): DomainRow[] =>
      Array.from({ length: count }, (_, n) => ({
        ...row,
        id: newId('dom', clock.now()),
        name: `${name}${String(n)}.test`,
        checked_at: checkedAt === null ? null : checkedAt + n,
      }));
    const long = clock.now() - 2 * checkTimes.every;
    const rows: [fresh: number, due: number, checkedFresh: number, checkedDue: number][] = [
      [100, 100, 10, 10],
      [100, 3, 17, 3],
      [4, 100, 4, 16],
      [100, 0, 20, 0],
      [0, 100, 0, 20],
      [5, 5, 5, 5],
    ];
    for (const [fresh, due, checkedFresh, checkedDue] of rows) {
      await db.commit.transact(async (tx) => {
        await tx.run('DELETE FROM dkim_keys');
        await tx.run('DELETE FROM domains');
        await insertRows(tx, [{ domains: [...rowsOf('new', fresh, null), ...rowsOf('due', due, long)] }]);
      });
      const names = (await domainsToCheck(deps, checkTimes)).map(({ name }) => name);
      // Of each kind, those that have waited longest.
      const first = (kind: string, count: number) =>
        Array.from({ length: count }, (_, n) => `${kind}${String(n)}.test`);
      assert.deepEqual(names, [...first('new', checkedFresh), ...first('due', checkedDue)]);
    }
  });
});
