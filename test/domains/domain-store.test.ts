import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { newId } from '../../src/base/id.ts';
import { insertRows } from '../../src/storage/rows.ts';
import { addAccount } from '../../src/accounts/account-store.ts';
import { openKeyring, type Keyring } from '../../src/base/keyring.ts';
import { Problem, type ProblemCode } from '../../src/base/problem.ts';
import { sealPurpose } from '../../src/domains/dkim-key.ts';
import { createDomainDirectory } from '../../src/domains/domain-directory.ts';
import { toDomainRecord, type DomainWithKeys } from '../../src/domains/domain-record.ts';
import { removeRetiredKeys, rotateDkim } from '../../src/domains/dkim-rotation.ts';
import { addDomain, findDomain, pageOfDomains, removeDomain, updateDomain } from '../../src/domains/domain-store.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const has =
  (code: ProblemCode, field: string | null = null) =>
  (error: unknown): boolean =>
    error instanceof Problem && error.code === code && error.field === field;
const DAY = 24 * 60 * 60 * 1000;

describe('domains/domain-store', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let keyring: Keyring;
  let accountId: string;
  let changed: string[];
  const deps = (): { db: TempDatabase['db']; clock: FakeClock; keyring: Keyring; changed: (name: string) => void } => ({
    db: temp.db,
    clock,
    keyring,
    changed: (name) => void changed.push(name),
  });
  const states = ({ keys }: DomainWithKeys): string[] => keys.map(({ selector, state }) => `${selector} ${state}`);

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    keyring = openKeyring(temp.folder);
    changed = [];
    accountId = (await addAccount(deps(), { name: 'a', plan: 'starter' })).id;
  });
  afterEach(() => temp.close());

  it('adds a pending domain with two keys that only the keyring opens', async () => {
    const added = await addDomain(deps(), { accountId, name: 'Acme.Test.' });
    assert.deepEqual(await findDomain(deps(), { accountId, nameOrId: 'ACME.test' }), added);
    assert.deepEqual(await findDomain(deps(), { accountId: null, nameOrId: added.row.id }), added);
    assert.deepEqual(
      [added.row.name, added.row.status, added.row.return_path, added.row.verified_at],
      ['acme.test', 'pending', 'rp.acme.test', null],
    );
    assert.deepEqual(states(added), ['ph202601r pending', 'ph202601e pending']);
    assert.deepEqual(changed, ['acme.test']);
    for (const key of added.keys) {
      assert.ok(!key.private_key_sealed.includes('PRIVATE'));
      createPrivateKey(keyring.open(sealPurpose(key.id), key.private_key_sealed).toString());
    }
  });

  it('refuses more than a thousand domains of an account, apart from those that are trusted', async () => {
    const { row } = await addDomain(deps(), { accountId, name: 'acme.test' });
    const domains = Array.from({ length: 999 }, (_, n) => ({
      ...row,
      id: newId('dom', clock.now()),
      name: `d${String(n)}.test`,
    }));
    await temp.db.commit.transact((tx) => insertRows(tx, [{ domains }]));
    await assert.rejects(addDomain(deps(), { accountId, name: 'more.test' }), has('invalid_state'));
    await addDomain(deps(), { accountId, name: 'trusted.test', trusted: true });
    const other = await addAccount(deps(), { name: 'b', plan: 'starter' });
    await addDomain(deps(), { accountId: other.id, name: 'more.test' });
    await removeDomain(deps(), { accountId, nameOrId: 'd7.test' });
    await addDomain(deps(), { accountId, name: 'more.test' });
  });

  it('trusts a domain where the operator says so: verified, signing at once', async () => {
    const { row, keys } = await addDomain(deps(), {
      accountId,
      name: 'acme.test',
      trusted: true,
      returnPath: 'Bounce.Acme.Test',
    });
    assert.deepEqual([row.status, row.verified_at, row.return_path], ['verified', clock.now(), 'bounce.acme.test']);
    assert.deepEqual(
      keys.map(({ state, active_at }) => [state, active_at]),
      [
        ['active', clock.now()],
        ['active', clock.now()],
      ],
    );
  });

  it('shows the record of the contract', async () => {
    const added = await addDomain(deps(), { accountId, name: 'acme.test', trusted: true });
    const record = toDomainRecord(added, 'mail.host.test');
    assert.deepEqual(
      { ...record, records: record.records.length },
      {
        object: 'domain',
        id: added.row.id,
        name: 'acme.test',
        status: 'verified',
        taken: false,
        records: 5,
        dkim: [
          {
            selector: 'ph202601r',
            algorithm: 'rsa-sha256',
            state: 'active',
            active_at: '2026-01-31T09:30:00.000Z',
            removed_at: null,
          },
          {
            selector: 'ph202601e',
            algorithm: 'ed25519-sha256',
            state: 'active',
            active_at: '2026-01-31T09:30:00.000Z',
            removed_at: null,
          },
        ],
        return_path: 'rp.acme.test',
        track_opens: null,
        track_clicks: null,
        receiving: false,
        receiving_addresses: ['*'],
        created_at: '2026-01-31T09:30:00.000Z',
        verified_at: '2026-01-31T09:30:00.000Z',
        trusted: true,
        checked_at: null,
        failing_since: null,
        refused_at: null,
      },
    );
    assert.deepEqual(
      record.records.find(({ purpose }) => purpose === 'return_path'),
      {
        purpose: 'return_path',
        type: 'MX',
        host: 'rp.acme.test',
        value: '10 mail.host.test',
        required: true,
        forms: {
          name: 'rp',
          quoted: null,
          zone_line: 'rp.acme.test. 3600 IN MX 10 mail.host.test.',
          priority: 10,
          target: 'mail.host.test',
        },
        mistake: null,
        cure: null,
        status: 'missing',
        found: null,
        checked_at: null,
      },
    );
    assert.equal(
      toDomainRecord({ ...added, row: { ...added.row, track_opens: 1, track_clicks: 0 } }, 'm.test').track_opens,
      true,
    );
  });

  const badNames = [
    '',
    'localhost',
    'acme',
    '.test',
    'a..test',
    'a@b.test',
    'a b.test',
    '-a.test',
    'a.1',
    '[127.0.0.1]',
    `${'x'.repeat(64)}.test`,
    '<a.test>',
    'a.test>',
    'a.test\n',
  ];
  it('refuses names that no sender can have', async () => {
    for (const name of badNames) {
      await assert.rejects(addDomain(deps(), { accountId, name }), has('invalid_field', 'name'), name);
      await assert.rejects(
        addDomain(deps(), { accountId, name: 'acme.test', returnPath: name }),
        has('invalid_field', 'return_path'),
        name,
      );
    }
  });

  it('an unverified claim does not block the owner of the domain: several accounts may claim it, one has it', async () => {
    await addDomain(deps(), { accountId, name: 'acme.test' });
    await assert.rejects(addDomain(deps(), { accountId, name: 'acme.test' }), has('already_exists', 'name'));
    await assert.rejects(addDomain(deps(), { accountId, name: 'acme.test', trusted: true }), /remove it first/);
    const other = await addAccount(deps(), { name: 'b', plan: 'starter' });
    const claim = await addDomain(deps(), { accountId: other.id, name: 'acme.test' });
    assert.equal(claim.row.status, 'pending');
    const third = await addAccount(deps(), { name: 'c', plan: 'starter' });
    await addDomain(deps(), { accountId: third.id, name: 'acme.test', trusted: true });
    for (const loser of [accountId, other.id]) {
      const { row, taken } = await findDomain(deps(), { accountId: loser, nameOrId: 'acme.test' });
      assert.deepEqual([row.status, taken], ['failed', true], 'the others learn it');
    }
    const owner = await findDomain(deps(), { accountId: null, nameOrId: 'acme.test' });
    assert.deepEqual([owner.row.account_id, owner.taken], [third.id, undefined]);
    const late = await addAccount(deps(), { name: 'd', plan: 'starter' });
    await assert.rejects(addDomain(deps(), { accountId: late.id, name: 'acme.test' }), has('already_exists', 'name'));
  });

  for (const name of ['co.uk', 'com.au', 'gmail.com', 'Yahoo.co.jp', 'gmx.net'])
    it(`does not let ${name} be claimed, unless the operator vouches for it`, async () => {
      await assert.rejects(addDomain(deps(), { accountId, name }), has('invalid_field', 'name'));
      assert.equal((await addDomain(deps(), { accountId, name, trusted: true })).row.status, 'verified');
    });

  it('takes no mail address for a domain, and says why', async () => {
    for (const name of ['hi@acme.test', 'Acme <hi@acme.test>', '<hi@acme.test>', '@acme.test'])
      await assert.rejects(addDomain(deps(), { accountId, name, trusted: true }), {
        code: 'invalid_field',
        message: 'This is not a domain name: it has an @. Give what comes after it.',
      });
  });

  it('lists newest first, by status, in pages', async () => {
    // Ids are given in the order of the calls.
    await Promise.all(
      ['a.test', 'b.test', 'c.test'].map((name) => addDomain(deps(), { accountId, name, trusted: name !== 'b.test' })),
    );
    const names = async (filter: Omit<Parameters<typeof pageOfDomains>[1], 'accountId'>): Promise<string[]> =>
      (await pageOfDomains(deps(), { accountId, ...filter })).domains.map(({ row }) => row.name);
    assert.deepEqual(await names({ limit: 10 }), ['c.test', 'b.test', 'a.test']);
    assert.deepEqual(await names({ limit: 10, status: 'verified' }), ['c.test', 'a.test']);
    const [first] = (await pageOfDomains(deps(), { accountId: null, limit: 1 })).domains;
    assert.deepEqual([first?.row.name, first?.keys.length], ['c.test', 2]);
    assert.deepEqual(await names({ limit: 10, after: first?.row.id ?? '' }), ['b.test', 'a.test']);
  });

  it('rotates in stages', async () => {
    const ref = { accountId, nameOrId: 'acme.test' };
    await addDomain(deps(), { accountId, name: 'acme.test', trusted: true });
    const rotated = await rotateDkim(deps(), ref);
    assert.deepEqual(states(rotated), [
      'ph202601r active',
      'ph202601e active',
      'ph202601r2 pending',
      'ph202601e2 pending',
    ]);
    await assert.rejects(rotateDkim(deps(), ref), has('invalid_state'));
  });

  for (const atOnce of [false, true])
    it(`of two rotations at the same time one takes place${atOnce ? ', also at once' : ''}`, async () => {
      const ref = { accountId, nameOrId: 'acme.test' };
      await addDomain(deps(), { accountId, name: 'acme.test', trusted: true });
      const both = await Promise.allSettled([rotateDkim(deps(), ref, { atOnce }), rotateDkim(deps(), ref, { atOnce })]);
      const done = both.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
      const refused = both.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
      assert.deepEqual(refused.map(has('invalid_state')), [true]);
      assert.deepEqual(
        done.map(({ keys }) => keys),
        [(await findDomain(deps(), ref)).keys],
      );
    });

  it('never names a key as one before it whose record may still be published', async () => {
    const ref = { accountId, nameOrId: 'acme.test' };
    clock.advance(DAY);
    await addDomain(deps(), { accountId, name: 'acme.test', trusted: true });
    await rotateDkim(deps(), ref, { atOnce: true });
    clock.advance(7 * DAY);
    await removeRetiredKeys(deps());
    assert.deepEqual(states(await rotateDkim(deps(), ref)), [
      'ph202602r2 active',
      'ph202602e2 active',
      'ph202602r3 pending',
      'ph202602e3 pending',
    ]);
  });

  it('changes only what is given, also while another change is made', async () => {
    const ref = { accountId, nameOrId: 'acme.test' };
    await addDomain(deps(), { accountId, name: 'acme.test', trusted: true });
    await Promise.all([
      updateDomain(deps(), ref, { track_opens: true }),
      updateDomain(deps(), ref, { track_clicks: true }),
      updateDomain(deps(), ref, { return_path: 'bounce.acme.test' }),
    ]);
    const { row } = await findDomain(deps(), ref);
    assert.deepEqual([row.track_opens, row.track_clicks, row.return_path], [1, 1, 'bounce.acme.test']);
  });

  it('rotates at once where the pair before waits for records that no DNS will show', async () => {
    const ref = { accountId, nameOrId: 'acme.test' };
    await addDomain(deps(), { accountId, name: 'acme.test', trusted: true });
    await rotateDkim(deps(), ref);
    assert.deepEqual(states(await rotateDkim(deps(), ref, { atOnce: true })), [
      'ph202601r retiring',
      'ph202601e retiring',
      'ph202601r3 active',
      'ph202601e3 active',
    ]);
  });

  it('rotates at once where that is asked for, and removes the old pair after seven days', async () => {
    const ref = { accountId, nameOrId: 'acme.test' };
    await addDomain(deps(), { accountId, name: 'acme.test', trusted: true });
    const rotated = await rotateDkim(deps(), ref, { atOnce: true });
    assert.deepEqual(states(rotated), [
      'ph202601r retiring',
      'ph202601e retiring',
      'ph202601r2 active',
      'ph202601e2 active',
    ]);
    assert.equal(rotated.keys[0]?.retired_at, clock.now());
    clock.advance(7 * DAY - 1);
    assert.equal(await removeRetiredKeys(deps()), 0);
    clock.advance(1);
    assert.equal(await removeRetiredKeys(deps()), 2);
    assert.deepEqual(states(await findDomain(deps(), ref)), ['ph202601r2 active', 'ph202601e2 active']);
  });

  it('replaces an Ed25519 key whose record never came', async () => {
    const ref = { accountId, nameOrId: 'acme.test' };
    await addDomain(deps(), { accountId, name: 'acme.test' });
    await temp.db.commit.transact((tx) =>
      tx.run(`UPDATE dkim_keys SET state = 'active' WHERE algorithm = 'rsa-sha256'`),
    );
    assert.deepEqual(states(await rotateDkim(deps(), ref)), [
      'ph202601r active',
      'ph202601r2 pending',
      'ph202601e2 pending',
    ]);
  });
});

describe('domains/domain-directory', () => {
  let temp: TempDatabase;
  beforeEach(async () => {
    temp = await openTempDatabase();
  });
  afterEach(() => temp.close());

  it('knows who may send from which name', async () => {
    const clock = new FakeClock();
    const deps = { db: temp.db, clock, keyring: openKeyring(temp.folder) };
    const { id: accountId } = await addAccount(deps, { name: 'a', plan: 'starter' });
    const directory = createDomainDirectory(deps);
    assert.equal(await directory.isVerified(accountId, 'acme.test'), false);
    await addDomain(deps, { accountId, name: 'acme.test', trusted: true });
    await addDomain(deps, { accountId, name: 'new.test' });
    const rows: [account: string, name: string, verified: boolean, reason: string][] = [
      [accountId, 'acme.test', true, 'its own'],
      [accountId, 'x.acme.test', false, 'a subdomain is another domain'],
      [accountId, 'test', false, 'what is above too'],
      [accountId, 'new.test', false, 'not verified yet'],
      ['acc_other', 'acme.test', false, "somebody else's"],
    ];
    for (const [account, name, verified, reason] of rows)
      assert.equal(await directory.isVerified(account, name), verified, reason);
    assert.equal((await directory.find('acme.test'))?.return_path, 'rp.acme.test');

    await temp.db.commit.transact((tx) => tx.run(`UPDATE domains SET status = 'failed' WHERE name = 'acme.test'`));
    assert.equal(await directory.isVerified(accountId, 'acme.test'), true);
    directory.forget('acme.test');
    assert.equal(await directory.isVerified(accountId, 'acme.test'), false);
    await temp.db.commit.transact((tx) => tx.run(`UPDATE domains SET status = 'verified' WHERE name = 'acme.test'`));
    clock.advance(1000);
    assert.equal(await directory.isVerified(accountId, 'acme.test'), true);
  });
});
