import assert from 'node:assert/strict';
import { createHash, verify } from 'node:crypto';
import { createRequire } from 'node:module';
import { addAccount } from '../../src/accounts/account-store.ts';
import { openKeyring, type Keyring } from '../../src/base/keyring.ts';
import { createDkimSigners, type DkimSigners, type SignersAnswer } from '../../src/domains/dkim-signer.ts';
import { toDomainRecord, type DomainWithKeys } from '../../src/domains/domain-record.ts';
import { rotateDkim } from '../../src/domains/dkim-rotation.ts';
import { addDomain } from '../../src/domains/domain-store.ts';
import { relaxedBodyHash } from '../../src/mail/dkim/canonicalize.ts';
import { signHeaders, type DkimSigner } from '../../src/mail/dkim/sign.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

/** mailauth brings no types. */
type DkimVerify = (
  mail: Buffer,
  options: { resolver: (name: string) => Promise<string[][]>; curTime: Date },
) => Promise<{ results: { status: { result: string }; signingDomain: string; selector: string }[] }>;
const { dkimVerify } = createRequire(import.meta.url)('mailauth/lib/dkim/verify') as { dkimVerify: DkimVerify };

function ready(answer: SignersAnswer): readonly DkimSigner[] {
  if (answer.kind === 'unavailable') throw new Error(answer.why);
  return answer.signers;
}

describe('domains/dkim-signer', () => {
  let home: TempDatabase;
  let made: DomainWithKeys;
  let temp: TempDatabase;
  let clock: FakeClock;
  let keyring: Keyring;
  let domain: DomainWithKeys;
  let signers: DkimSigners;
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
    signers = createDkimSigners({ db: temp.db, clock, keyring });
  });
  afterEach(() => temp.close());

  it('signs so that another implementation verifies it with the records we publish', async () => {
    const head = 'From: a@acme.test\r\nTo: b@dest.test\r\nSubject: Hi\r\nDate: Sat, 31 Jan 2026 09:30:00 +0000\r\n';
    const body = 'Hello\r\n';
    const lines = await signHeaders({
      head,
      bodyHash: relaxedBodyHash(Buffer.from(body)),
      timestamp: Math.floor(clock.now() / 1000),
      signers: ready(await signers.signersFor(null, 'acme.test')),
    });
    const records = new Map(toDomainRecord(domain, 'mail.host.test').records.map(({ host, value }) => [host, value]));
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

  it('signs RSA in other threads and Ed25519 at once, many at a time', async () => {
    const [rsa, ed] = ready(await signers.signersFor(null, 'acme.test', 1));
    assert.deepEqual([rsa?.key.algorithm, ed?.key.algorithm], ['rsa-sha256', 'ed25519-sha256']);
    const datas = Array.from({ length: 50 }, (_, i) => Buffer.from(`mail ${String(i)}`));
    const signatures = await Promise.all(datas.map(async (data) => (await rsa?.sign(data)) ?? Buffer.alloc(0)));
    const [rsaKey, edKey] = domain.keys;
    datas.forEach((data, i) => {
      assert.ok(verify('sha256', data, rsaKey?.public_key ?? '', signatures[i] ?? Buffer.alloc(0)));
    });
    const digest = createHash('sha256').update('mail').digest();
    const signature = ed?.sign(digest);
    assert.ok(Buffer.isBuffer(signature) && verify(null, digest, edKey?.public_key ?? '', signature));
  });

  it('opens keys once, and again when they have changed', async () => {
    const first = await signers.signersFor(null, 'acme.test');
    clock.advance(60_000);
    assert.equal(await signers.signersFor(null, 'acme.test'), first);
    await rotateDkim(
      {
        db: temp.db,
        clock,
        keyring,
        changed: (name) => {
          signers.forget(name);
        },
      },
      ref,
      { atOnce: true },
    );
    const selectors = ready(await signers.signersFor(null, 'acme.test')).map(({ key }) => key.selector);
    assert.deepEqual(selectors, ['ph202601r2', 'ph202601e2']);
  });

  it('sees what another process changed within seconds', async () => {
    await signers.signersFor(null, 'acme.test');
    await rotateDkim({ db: temp.db, clock, keyring }, ref, { atOnce: true });
    clock.advance(5000);
    assert.equal(ready(await signers.signersFor(null, 'acme.test'))[0]?.key.selector, 'ph202601r2');
  });

  it('signs with active keys only', async () => {
    await temp.db.commit.transact((tx) =>
      tx.run(`UPDATE dkim_keys SET state = 'pending' WHERE algorithm = 'ed25519-sha256'`),
    );
    assert.deepEqual(
      ready(await signers.signersFor(null, 'acme.test')).map(({ key }) => key.algorithm),
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
      const answer = await signers.signersFor(account, 'gone.test');
      if (answer.kind === 'unavailable') return answer.why;
      const ed = answer.signers.find(({ key }) => key.algorithm === 'ed25519-sha256') ?? assert.fail();
      return Buffer.from(await ed.sign(Buffer.from('x'))).toString('hex');
    };
    assert.equal(await signature(null), await signature(ownerId));
    assert.notEqual(await signature(lost.row.account_id), await signature(ownerId));
    assert.equal(await signature('acc_of_a_stranger'), 'gone.test has no active DKIM key');
  });

  it('has nothing for a domain without keys, and is not stuck with that', async () => {
    assert.deepEqual(await signers.signersFor(null, 'new.test'), {
      kind: 'unavailable',
      why: 'new.test has no active DKIM key',
    });
    await addDomain(
      { db: temp.db, clock, keyring },
      { accountId: domain.row.account_id, name: 'new.test', trusted: true },
    );
    assert.equal((await signers.signersFor(null, 'new.test')).kind, 'ready');
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
      const answer = await signers.signersFor(null, 'acme.test');
      const why = answer.kind === 'unavailable' ? answer.why : 'ready';
      assert.match(why, /the DKIM key ph202601[re] of acme\.test cannot be opened/, reason);
    }
  });
});
