import assert from 'node:assert/strict';
import { addAccount } from '../../src/accounts/account-store.ts';
import { openKeyring } from '../../src/base/keyring.ts';
import { createDomainDirectory } from '../../src/domains/domain-directory.ts';
import { lostChecks, toDomainRecord, type DomainWithKeys } from '../../src/domains/domain-record.ts';
import { rotateDkim } from '../../src/domains/dkim-rotation.ts';
import { addDomain } from '../../src/domains/domain-store.ts';
import { verifyDomain, type VerifyDeps } from '../../src/domains/verify.ts';
import { notesOn } from '../../src/domains/lost-records.ts';
import type { DomainRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';
import type { Zones } from '../support/fakes/zones.ts';

const HOUR = 60 * 60 * 1000;
const hostname = 'mail.host.test';

/** DNS as it is once the owner has published all that was asked for. */
function published(domain: DomainWithKeys): Zones {
  const zones: Record<string, string[]> = {};
  for (const { host, type, value } of toDomainRecord(domain, hostname).records)
    (zones[`${host} ${type}`] ??= []).push(value);
  return zones;
}

describe('domains/verify', () => {
  let made: DomainWithKeys;
  let temp: TempDatabase;
  let clock: FakeClock;
  let resolver: FakeResolver;
  let domain: DomainWithKeys;
  let changed: string[];
  const ref = { accountId: null, nameOrId: 'acme.test' };
  const deps = (): VerifyDeps & { keyring: ReturnType<typeof openKeyring> } => ({
    db: temp.db,
    clock,
    resolver,
    hostname,
    graceMs: 0,
    keyring: openKeyring(temp.folder),
    changed: (name) => void changed.push(name),
  });
  const check = async (): Promise<DomainRow['status']> => (await verifyDomain(deps(), ref)).row.status;
  const found = (of: DomainWithKeys): string[] =>
    toDomainRecord(of, hostname).records.map(({ purpose, status }) => `${purpose} ${status}`);

  // Made once for all tests: an RSA key costs more than all else that they do.
  before(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    const { id: accountId } = await addAccount({ db: temp.db, clock }, { name: 'a', plan: 'starter' });
    made = await addDomain({ db: temp.db, clock, keyring: openKeyring(temp.folder) }, { accountId, name: 'acme.test' });
    await temp.close();
  });
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    resolver = new FakeResolver();
    changed = [];
    const { id } = await addAccount({ db: temp.db, clock }, { name: 'a', plan: 'starter' });
    domain = { row: { ...made.row, account_id: id }, keys: made.keys };
    await temp.db.commit.insert({ domains: [domain.row], dkim_keys: domain.keys });
  });
  afterEach(() => temp.close());

  it('verifies a domain whose records are there, and lets its keys sign', async () => {
    resolver.zones = published(domain);
    clock.advance(1000);
    const verified = await verifyDomain(deps(), ref);
    assert.deepEqual(
      [verified.row.status, verified.row.verified_at, verified.row.checked_at],
      ['verified', clock.now(), clock.now()],
    );
    assert.deepEqual(
      verified.keys.map(({ state, active_at }) => [state, active_at]),
      [
        ['active', clock.now()],
        ['active', clock.now()],
      ],
    );
    for (const { status, found: text, value, checked_at } of toDomainRecord(verified, hostname).records) {
      assert.deepEqual([status, text, checked_at], ['ok', value, '2026-01-31T09:30:01.000Z']);
    }
    assert.deepEqual(changed, ['acme.test']);
    clock.advance(1000);
    assert.equal((await verifyDomain(deps(), ref)).row.verified_at, verified.row.verified_at, 'the first time counts');
  });

  it('asks for consent to reports once a check has seen that they are sent to a host of ours elsewhere', async () => {
    resolver.zones = {
      ...published(domain),
      '_dmarc.acme.test TXT': [`v=DMARC1; p=none; rua=mailto:dmarc@${hostname}`],
    };
    const consentOf = (of: DomainWithKeys): string[] => found(of).filter((one) => one.startsWith('dmarc_consent'));
    assert.deepEqual(consentOf(domain), []);
    assert.deepEqual(consentOf(await verifyDomain(deps(), ref)), ['dmarc_consent missing']);
    assert.equal(await check(), 'verified', 'it is not required');
    resolver.zones = { ...resolver.zones, [`acme.test._report._dmarc.${hostname} TXT`]: ['v=DMARC1;'] };
    assert.deepEqual(consentOf(await verifyDomain(deps(), ref)), ['dmarc_consent ok']);
  });

  it('is content with what is required; what is not there does not sign', async () => {
    resolver.zones = published(domain);
    delete resolver.zones['ph202601e._domainkey.acme.test TXT'];
    delete resolver.zones['_dmarc.acme.test TXT'];
    const verified = await verifyDomain(deps(), ref);
    assert.equal(verified.row.status, 'verified');
    assert.deepEqual(
      verified.keys.map(({ state }) => state),
      ['active', 'pending'],
    );
    assert.deepEqual(found(verified), ['dkim ok', 'dkim missing', 'return_path ok', 'spf ok', 'dmarc missing']);
  });

  for (const key of ['ph202601r._domainkey.acme.test TXT', 'rp.acme.test MX', 'rp.acme.test TXT']) {
    it(`needs ${key}`, async () => {
      resolver.zones = { ...published(domain), [key]: [] };
      assert.equal(await check(), 'pending');
      resolver.zones = published(domain);
      assert.equal(await check(), 'verified');
      resolver.zones[key] = [];
      assert.equal(await check(), 'failed');
    });
  }

  describe('the tracking host', () => {
    const target = 'mail.web.test';
    const addresses = { [`${target} A`]: ['192.0.2.1', '192.0.2.2'], [`${target} AAAA`]: ['2001:db8::1'] };
    for (const [zones, status, text, why] of [
      [{ 'track.acme.test CNAME': [target] }, 'ok', target, 'an alias'],
      [
        { 'track.acme.test CNAME': ['cdn.acme.test'], 'cdn.acme.test CNAME': [target] },
        'ok',
        target,
        'an alias of an alias',
      ],
      [{ 'track.acme.test A': ['192.0.2.2'] }, 'ok', target, 'one of our addresses'],
      [{ 'track.acme.test AAAA': ['2001:db8::1'] }, 'ok', target, 'an address of ours over IPv6 alone'],
      [
        { 'track.acme.test CNAME': ['web.other.test'], 'web.other.test A': ['198.51.100.1'] },
        'wrong',
        'web.other.test',
        'an alias of another',
      ],
      [
        { 'track.acme.test A': ['192.0.2.1', '198.51.100.1'] },
        'wrong',
        '192.0.2.1, 198.51.100.1',
        'an address of another among ours',
      ],
      [
        { 'track.acme.test CNAME': ['mail.web.test.acme.test'] },
        'wrong',
        'mail.web.test.acme.test',
        'an alias whose target has the domain added',
      ],
      [{ 'track.acme.test.acme.test CNAME': [target] }, 'missing', null, 'the domain twice in its name'],
      [{}, 'missing', null, 'nothing'],
      [{ 'track.acme.test A': 'SERVFAIL' }, 'missing', null, 'trouble, from which nothing follows'],
    ] as const) {
      it(`is ${status} with ${why}, and never required`, async () => {
        resolver.zones = { ...published(domain), ...addresses, ...zones };
        const checked = await verifyDomain({ ...deps(), trackingTarget: target }, ref);
        assert.equal(checked.row.status, 'verified');
        const record = toDomainRecord(checked, hostname, target).records.find(({ purpose }) => purpose === 'tracking');
        assert.deepEqual(
          [record?.type, record?.host, record?.value, record?.required, record?.status, record?.found],
          ['CNAME', 'track.acme.test', target, false, status, text],
        );
        const found = await createDomainDirectory({ db: temp.db, clock }).find('acme.test');
        assert.equal(found?.tracking_host, status === 'ok' ? 'track.acme.test' : null);
      });
    }

    it('stays as it is where DNS does not say which addresses are ours', async () => {
      const hostAfter = async (zones: Zones): Promise<string | null | undefined> => {
        resolver.zones = { ...published(domain), ...addresses, 'track.acme.test A': ['192.0.2.2'], ...zones };
        await verifyDomain({ ...deps(), trackingTarget: target }, ref);
        return (await createDomainDirectory({ db: temp.db, clock }).find('acme.test'))?.tracking_host;
      };
      for (const zones of [{}, { [`${target} A`]: 'SERVFAIL' }, { [`${target} A`]: 'TIMEOUT', [`${target} AAAA`]: [] }])
        assert.equal(await hostAfter(zones as Zones), 'track.acme.test', JSON.stringify(zones));
      assert.equal(await hostAfter({ [`${target} A`]: ['192.0.2.3'] }), null);
    });
  });

  it('shows what is wrong', async () => {
    resolver.zones = { ...published(domain), 'rp.acme.test TXT': ['v=spf1 -all'] };
    const { records } = toDomainRecord(await verifyDomain(deps(), ref), hostname);
    const spf = records.find(({ purpose }) => purpose === 'spf');
    assert.deepEqual([spf?.status, spf?.found], ['wrong', 'v=spf1 -all']);
  });

  it('names the mistake in the record, also one that only another name shows', async () => {
    const whole = published(domain);
    const name = Object.keys(whole).find((key) => key.includes('r._domainkey')) ?? '';
    resolver.zones = {
      ...whole,
      [name]: [],
      [name.replace(' TXT', '.acme.test TXT')]: whole[name] ?? [],
      'rp.acme.test TXT': ['"v=spf1 a:mail.host.test ~all"'],
    };
    const record = toDomainRecord(await verifyDomain(deps(), ref), hostname);
    assert.deepEqual(
      record.records.filter(({ mistake }) => mistake !== null).map(({ status, mistake }) => [status, mistake]),
      [
        ['missing', 'doubled_name'],
        ['wrong', 'quoted'],
      ],
    );
    assert.match(record.records[0]?.cure ?? '', /domainkey\.acme\.test\.acme\.test/);
  });

  it('concludes nothing from trouble at a name where only a mistake would be', async () => {
    const whole = published(domain);
    const name = Object.keys(whole).find((key) => key.includes('r._domainkey')) ?? '';
    resolver.zones = { ...whole, [name]: [], [name.replace(' TXT', '.acme.test TXT')]: 'SERVFAIL' };
    const record = toDomainRecord(await verifyDomain(deps(), ref), hostname);
    assert.deepEqual([record.records[0]?.status, record.records[0]?.mistake], ['missing', null]);
    assert.match(record.records[0]?.cure ?? '', /^Publish: /);
  });

  it('concludes nothing from DNS trouble', async () => {
    resolver.zones = published(domain);
    const before = await verifyDomain(deps(), ref);
    const names = Object.keys(resolver.zones);
    clock.advance(80 * HOUR);
    for (const fault of ['SERVFAIL', 'TIMEOUT', 'REFUSED'] as const) {
      resolver.zones = Object.fromEntries(names.map((name) => [name, fault]));
      const after = await verifyDomain(deps(), ref);
      assert.deepEqual([after.row.status, after.row.records_json], ['verified', before.row.records_json], fault);
    }
  });

  it('leaves a domain as it is where one required record is in trouble and another is gone', async () => {
    resolver.zones = published(domain);
    await check();
    resolver.zones = { ...published(domain), 'rp.acme.test MX': 'SERVFAIL', 'rp.acme.test TXT': [] };
    assert.equal(await check(), 'verified');
  });

  it('takes a CNAME of the return path to our host', async () => {
    resolver.zones = {
      ...published(domain),
      'rp.acme.test CNAME': [hostname],
      [`${hostname} A`]: ['192.0.2.1'],
      [`${hostname} TXT`]: ['v=spf1 a:mail.host.test -all'],
    };
    delete resolver.zones['rp.acme.test MX'];
    delete resolver.zones['rp.acme.test TXT'];
    assert.equal(await check(), 'verified');
    resolver.zones['rp.acme.test CNAME'] = ['elsewhere.test'];
    resolver.zones['elsewhere.test A'] = ['192.0.2.2'];
    assert.equal(await check(), 'failed');
  });

  it('finds the DMARC record of the domain above', async () => {
    const { row } = domain;
    const below = await addDomain(deps(), { accountId: row.account_id, name: 'news.acme.test' });
    resolver.zones = { ...published(below), '_dmarc.acme.test TXT': ['v=DMARC1; p=reject'] };
    delete resolver.zones['_dmarc.news.acme.test TXT'];
    const verified = await verifyDomain(deps(), { accountId: null, nameOrId: 'news.acme.test' });
    assert.equal(found(verified).at(-1), 'dmarc ok');
  });

  it('lacks nothing where the record of the key before was replaced by that of the next', async () => {
    resolver.zones = published(domain);
    await check();
    const rotated = await rotateDkim(deps(), ref);
    const before = domain.keys.map(({ selector }) => `${selector}._domainkey.acme.test TXT`);
    resolver.zones = Object.fromEntries(Object.entries(published(rotated)).filter(([name]) => !before.includes(name)));
    const { row, keys } = await verifyDomain(deps(), ref);
    assert.deepEqual(
      keys.map(({ state }) => state),
      ['retiring', 'retiring', 'active', 'active'],
    );
    assert.deepEqual([row.status, row.failing_since, lostChecks(row)], ['verified', null, []]);
  });

  it('rotates: the next key signs when DNS shows it, and the one before retires', async () => {
    resolver.zones = published(domain);
    await check();
    const rotated = await rotateDkim(deps(), ref);
    assert.equal(await check(), 'verified', 'a pending key is not required');
    resolver.zones = published(rotated);
    const after = await verifyDomain(deps(), ref);
    assert.deepEqual(
      after.keys.map(({ state }) => state),
      ['retiring', 'retiring', 'active', 'active'],
    );
    assert.equal(after.row.status, 'verified');
    resolver.zones = published({ ...after, keys: after.keys.slice(2) });
    assert.equal(await check(), 'verified', 'a retiring key is not required');
  });

  describe('that loses a record', () => {
    const lines: { level: string; [field: string]: unknown }[] = [];
    const log = {
      info: (fields: object) => void lines.push({ level: 'info', ...fields }),
      warn: (fields: object) => void lines.push({ level: 'warn', ...fields }),
    };
    const checked = async (): Promise<DomainWithKeys> => verifyDomain({ ...deps(), graceMs: 72 * HOUR, log }, ref);
    beforeEach(async () => {
      resolver.zones = published(domain);
      await checked();
      resolver.zones['rp.acme.test TXT'] = [];
      lines.length = 0;
    });

    it('stays verified with the end of its countdown in the record, and tells operators once', async () => {
      const since = clock.now();
      const record = toDomainRecord(await checked(), hostname);
      assert.deepEqual(
        [record.status, record.failing_since, record.refused_at],
        ['verified', new Date(since).toISOString(), new Date(since + 72 * HOUR).toISOString()],
      );
      clock.advance(HOUR);
      assert.equal(toDomainRecord(await checked(), hostname).refused_at, record.refused_at);
      assert.deepEqual(lines, [
        {
          level: 'warn',
          event: 'domain_failing',
          domain: 'acme.test',
          account_id: domain.row.account_id,
          lost: 'the SPF record at rp.acme.test is missing',
          until: record.refused_at,
        },
      ]);
    });

    it('may be sent from until a check after the countdown; then its refusal says why', async () => {
      const directory = createDomainDirectory({ db: temp.db, clock });
      const { account_id: account } = domain.row;
      const look = async () => {
        directory.forget('acme.test');
        return [await directory.isVerified(account, 'acme.test'), await directory.whyRefused(account, 'acme.test')];
      };
      for (let hours = 0; hours < 72; hours += 6) {
        await checked();
        clock.advance(6 * HOUR);
        assert.deepEqual(await look(), [true, null]);
      }
      await checked();
      assert.deepEqual(await look(), [
        false,
        `mail from acme.test is refused since ${new Date(clock.now()).toISOString()}, because the SPF record at rp.acme.test is missing`,
      ]);
      assert.equal(await directory.whyRefused('acc_other', 'acme.test'), null, 'told to nobody else');
      assert.deepEqual(lines.at(-1), {
        level: 'warn',
        event: 'domain_status',
        domain: 'acme.test',
        account_id: account,
        before: 'verified',
        status: 'failed',
        lost: 'the SPF record at rp.acme.test is missing',
      });
      resolver.zones = published(domain);
      const back = toDomainRecord(await checked(), hostname);
      assert.deepEqual([back.status, back.failing_since, back.refused_at], ['verified', null, null]);
      assert.deepEqual([lines.at(-1)?.level, lines.at(-1)?.['status']], ['info', 'verified']);
    });

    it('is well again in the record as soon as all is found', async () => {
      await checked();
      resolver.zones = published(domain);
      const record = toDomainRecord(await checked(), hostname);
      assert.deepEqual([record.status, record.failing_since, record.refused_at], ['verified', null, null]);
      assert.deepEqual(
        lines.map(({ event }) => event),
        ['domain_failing', 'domain_recovered'],
      );
    });

    it('does not begin a countdown twice where two checks meet', async () => {
      await Promise.all([checked(), checked()]);
      assert.equal(lines.length, 1);
    });

    it('has a record without an answer that is older than its check', async () => {
      const before = clock.now();
      resolver.zones = { ...published(domain), 'rp.acme.test TXT': 'SERVFAIL' };
      clock.advance(HOUR);
      const record = toDomainRecord(await checked(), hostname);
      assert.deepEqual(
        [record.status, record.failing_since, record.checked_at],
        ['verified', null, new Date(clock.now()).toISOString()],
      );
      const spf = record.records.find(({ purpose }) => purpose === 'spf');
      assert.equal(spf?.checked_at, new Date(before).toISOString());
      assert.deepEqual(notesOn(record, clock.now()), [
        'DNS did not answer for the SPF record at rp.acme.test. That changes nothing: check again later.',
      ]);
    });
  });

  it('a rotation during a check: no key retires before another signs in its place', async () => {
    resolver.zones = published(domain);
    await check();
    const rotated = await rotateDkim(deps(), ref);
    const isNextEd25519 = ({ host }: { host: string }): boolean => host.startsWith('ph202601e2.');
    const { records } = toDomainRecord(rotated, hostname);
    const without: Record<string, string[]> = {};
    for (const record of records.filter((one) => !isNextEd25519(one)))
      (without[`${record.host} ${record.type}`] ??= []).push(record.value);
    resolver.zones = without;
    await check();
    resolver.zones = published(rotated);
    const { txt } = resolver;
    let rotating: Promise<unknown> | null = null;
    resolver.txt = async (...asked) => {
      rotating ??= rotateDkim(deps(), ref);
      await rotating;
      return txt.apply(resolver, asked);
    };
    const { keys } = await verifyDomain(deps(), ref);
    const signing = keys.filter(({ state }) => state === 'active').map(({ algorithm }) => algorithm);
    assert.deepEqual(signing.sort(), ['ed25519-sha256', 'rsa-sha256']);
  });
});
