import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { addAccount } from '../../src/accounts/account-store.ts';
import { openKeyring, type Keyring } from '../../src/base/keyring.ts';
import { createSigningKeys, type SigningKeys, type SigningKeysAnswer } from '../../src/domains/signing-keys.ts';
import { toDomainRecord, type DomainWithKeys } from '../../src/domains/domain-record.ts';
import { rotateDkim } from '../../src/domains/dkim-rotation.ts';
import { addDomain } from '../../src/domains/domain-store.ts';
import { relaxedBodyHash } from '../../src/mail/dkim/canonicalize.ts';
import { signerForLoop, signerForThread, signHeaders, type SigningKey } from '../../src/mail/dkim/sign.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

/** mailauth brings no types. */
type DkimVerify = (
  mail: Buffer,
  options: { resolver: (name: string) => Promise<string[][]>; curTime: Date },
) => Promise<{ results: { status: { result: string }; signingDomain: string; selector: string }[] }>;
const { dkimVerify } = createRequire(import.meta.url)('mailauth/lib/dkim/verify') as { dkimVerify: DkimVerify };

function ready(answer: SigningKeysAnswer): readonly SigningKey[] {
  if (answer.kind === 'unavailable') throw new Error(answer.why);
  return answer.keys;
}

describe('domains/signing-keys', () => {
  let home: TempDatabase;
  let made: DomainWithKeys;
  let temp: TempDatabase;
  let clock: FakeClock;
  let keyring: Keyring;
  let domain: DomainWithKeys;
  let keys: SigningKeys;
  const ref = { accountId: null, nameOrId: 'acme.test' };

  // Made once for all tests: an RSA key costs more than all else that they do.
  before(async () => {
    home = await openTempDatabase();
    clock = new FakeClock();
    keyring = openKeyring(home.folder);
    const { id: accountId } = await addAccount({ db: home.db, clock }, { name: 'a', plan: 'starter' });
    made = await addDomain({ db: home.db, clock, keyring }, { accountId, name: 'acme.test', trusted: true });
  });
  after(() => home.close());
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    const { id } = await addAccount({ db: temp.db, clock }, { name: 'a', plan: 'starter' });
    domain = { row: { ...made.row, account_id: id }, keys: made.keys };
    await temp.db.commit.insert({ domains: [domain.row], dkim_keys: domain.keys });
    keys = createSigningKeys({ db: temp.db, clock, keyring });
  });
  afterEach(() => temp.close());

  for (const [where, signerOf] of [
    ['on the main loop', signerForLoop],
    ['in a thread', signerForThread],
  ] as const)
    it(`signs ${where} so that another implementation verifies it with the records we publish`, async () => {
      const head = 'From: a@acme.test\r\nTo: b@dest.test\r\nSubject: Hi\r\nDate: Sat, 31 Jan 2026 09:30:00 +0000\r\n';
      const body = 'Hello\r\n';
      const lines = await signHeaders({
        head,
        bodyHash: relaxedBodyHash(Buffer.from(body)),
        timestamp: Math.floor(clock.now() / 1000),
        signers: ready(await keys.keysFor(null, 'acme.test')).map(signerOf),
      });
      const { records: published } = toDomainRecord(domain, 'mail.host.test');
      const records = new Map(published.map(({ host, value }) => [host, value]));
      const { results } = await dkimVerify(Buffer.from(`${lines}${head}\r\n${body}`), {
        curTime: new Date(clock.now()),
        resolver: (name) => Promise.resolve([[records.get(name) ?? '']]),
      });
      assert.deepEqual(
        results.map(({ status, signingDomain, selector }) => [status.result, signingDomain, selector]),
        [
          ['pass', 'acme.test', 'ph202601r'],
          ['pass', 'acme.test', 'ph202601e'],
        ],
      );
    });

  it('opens keys once, and again when they have changed', async () => {
    const first = await keys.keysFor(null, 'acme.test');
    clock.advance(60_000);
    assert.equal(await keys.keysFor(null, 'acme.test'), first);
    await rotateDkim(
      {
        db: temp.db,
        clock,
        keyring,
        changed: (name) => {
          keys.forget(name);
        },
      },
      ref,
      { atOnce: true },
    );
    const selectors = ready(await keys.keysFor(null, 'acme.test')).map(({ selector }) => selector);
    assert.deepEqual(selectors, ['ph202601r2', 'ph202601e2']);
  });

  it('sees what another process changed within seconds', async () => {
    await keys.keysFor(null, 'acme.test');
    await rotateDkim({ db: temp.db, clock, keyring }, ref, { atOnce: true });
    clock.advance(5000);
    assert.equal(ready(await keys.keysFor(null, 'acme.test'))[0]?.selector, 'ph202601r2');
  });

  it('signs with active keys only', async () => {
    await temp.db.commit.transact((tx) =>
      tx.run(`UPDATE dkim_keys SET state = 'pending' WHERE algorithm = 'ed25519-sha256'`),
    );
    assert.deepEqual(
      ready(await keys.keysFor(null, 'acme.test')).map(({ algorithm }) => algorithm),
      ['rsa-sha256'],
    );
  });

  it('signs mail of an account only with keys of that account, and our own with those of the owner of the name', async () => {
    const deps = { db: temp.db, clock, keyring };
    const wish = { name: 'gone.test', trusted: true };
    const lost = await addDomain(deps, { ...wish, accountId: domain.row.account_id });
    await temp.db.commit.transact((tx) => tx.run(`UPDATE domains SET status = 'failed' WHERE id = ?`, [lost.row.id]));
    const { id: ownerId } = await addAccount(deps, { name: 'b', plan: 'starter' });
    await addDomain(deps, { ...wish, accountId: ownerId });
    const signature = async (account: string | null): Promise<string> => {
      const answer = await keys.keysFor(account, 'gone.test');
      if (answer.kind === 'unavailable') return answer.why;
      const ed = answer.keys.find(({ algorithm }) => algorithm === 'ed25519-sha256') ?? assert.fail();
      return Buffer.from(await signerForThread(ed).sign(Buffer.from('x'))).toString('hex');
    };
    assert.equal(await signature(null), await signature(ownerId));
    assert.notEqual(await signature(lost.row.account_id), await signature(ownerId));
    assert.equal(await signature('acc_of_a_stranger'), 'gone.test has no active DKIM key');
  });

  it('has nothing for a domain without keys, and is not stuck with that', async () => {
    assert.deepEqual(await keys.keysFor(null, 'new.test'), {
      kind: 'unavailable',
      why: 'new.test has no active DKIM key',
    });
    await addDomain(
      { db: temp.db, clock, keyring },
      { accountId: domain.row.account_id, name: 'new.test', trusted: true },
    );
    assert.equal((await keys.keysFor(null, 'new.test')).kind, 'ready');
  });

  it('never makes do with one key where the other cannot be opened', async () => {
    const sealed = domain.keys.map(({ private_key_sealed }) => private_key_sealed);
    const breakages: [sql: string, value: string, reason: string][] = [
      ['ed25519-sha256', sealed[0] ?? '', "another row's key"],
      ['rsa-sha256', 'v1.gone.AAAA', 'not a sealed text'],
      ['rsa-sha256', `v1.gone.${'A'.repeat(80)}`, 'a lost master key'],
      ['ed25519-sha256', keyring.seal(`dkim:${domain.keys[1]?.id ?? ''}`, 'no PEM'), 'no key inside'],
    ];
    for (const [algorithm, value, reason] of breakages) {
      await temp.db.commit.transact((tx) =>
        tx.run('UPDATE dkim_keys SET private_key_sealed = ? WHERE algorithm = ?', [value, algorithm]),
      );
      const answer = await keys.keysFor(null, 'acme.test');
      const why = answer.kind === 'unavailable' ? answer.why : 'ready';
      assert.match(why, /the DKIM key ph202601[re] of acme\.test cannot be opened/, reason);
    }
  });
});
