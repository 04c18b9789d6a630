import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import fc from 'fast-check';
import type { PublishedKey } from '../../src/domains/dkim-key.ts';
import {
  compareRecord,
  isSameOrganization,
  wantedRecords,
  type Comparison,
  type DnsRecord,
  type RecordPurpose,
} from '../../src/domains/dns-records.ts';

const publicPem = ({ publicKey }: { publicKey: KeyObject }): string =>
  publicKey.export({ type: 'spki', format: 'pem' }).toString();
const rsaPublic = publicPem(generateKeyPairSync('rsa', { modulusLength: 2048 }));
const edPublic = publicPem(generateKeyPairSync('ed25519'));
const otherPublic = publicPem(generateKeyPairSync('rsa', { modulusLength: 2048 }));
const keyOf = (selector: string, state: PublishedKey['state'], publicKey = rsaPublic): PublishedKey => ({
  selector,
  algorithm: publicKey === edPublic ? 'ed25519-sha256' : 'rsa-sha256',
  public_key: publicKey,
  state,
});

const records = wantedRecords(
  { name: 'acme.test', returnPath: 'rp.acme.test', keys: [keyOf('r', 'pending'), keyOf('e', 'pending', edPublic)] },
  'mail.host.test',
);
const record = (purpose: RecordPurpose): DnsRecord => {
  const found = records.find((each) => each.purpose === purpose);
  assert.ok(found);
  return found;
};

describe('domains/dns-records', () => {
  it('asks for what makes DKIM, SPF and DMARC pass and bounces arrive', () => {
    const short = records.map(({ purpose, type, host, value, required }) => [
      purpose,
      type,
      host,
      value.slice(0, 60),
      required,
    ]);
    const p = (publicKey: string): string => publicKey.split('\n').slice(1, -2).join('');
    assert.deepEqual(short, [
      ['dkim', 'TXT', 'r._domainkey.acme.test', `v=DKIM1; k=rsa; p=${p(rsaPublic)}`.slice(0, 60), true],
      ['dkim', 'TXT', 'e._domainkey.acme.test', `v=DKIM1; k=ed25519; p=${p(edPublic).slice(16)}`.slice(0, 60), false],
      ['return_path', 'MX', 'rp.acme.test', '10 mail.host.test', true],
      ['spf', 'TXT', 'rp.acme.test', 'v=spf1 a:mail.host.test ~all', true],
      ['dmarc', 'TXT', '_dmarc.acme.test', 'v=DMARC1; p=none; rua=mailto:dmarc@rp.acme.test', false],
    ]);
  });

  it('is content with itself', () => {
    for (const each of records)
      assert.deepEqual(compareRecord(each, [each.value]), { status: 'ok', found: each.value }, each.purpose);
  });

  it('requires the RSA key that signs or is to sign first, not the next nor the last', () => {
    const required = (...states: PublishedKey['state'][]): boolean[] =>
      wantedRecords(
        { name: 'a.test', returnPath: 'rp.a.test', keys: states.map((state, i) => keyOf(String(i), state)) },
        'm.test',
      )
        .filter(({ purpose }) => purpose === 'dkim')
        .map((each) => each.required);
    assert.deepEqual(required('pending'), [true]);
    assert.deepEqual(required('active', 'pending'), [true, false]);
    assert.deepEqual(required('retiring', 'active'), [false, true]);
  });

  const dkim = record('dkim').value;
  const p = dkim.slice(dkim.indexOf('p=') + 2);
  const rows: [purpose: RecordPurpose, answers: string[], status: Comparison['status'], reason: string][] = [
    ['dkim', [], 'missing', 'nothing there'],
    ['dkim', [`k=rsa;p=${p}`], 'ok', 'v= may be left out'],
    ['dkim', [`v=DKIM1;p=${p};`], 'ok', 'rsa is the default'],
    [
      'dkim',
      [`v=DKIM1; h=sha256; s=email; t=s; n=note; k=rsa; p=${p.slice(0, 50)} ${p.slice(50)}`],
      'ok',
      'other tags, white space in p=',
    ],
    ['dkim', [`v=DKIM1; h=sha1; p=${p}`], 'wrong', 'does not allow our hash'],
    ['dkim', ['v=DKIM1; p='], 'wrong', 'revoked'],
    ['dkim', [`v=DKIM1; k=rsa; p=${p.slice(0, -8)}`], 'wrong', 'cut off, as some panels do'],
    ['dkim', [`"${dkim}"`], 'wrong', 'pasted with quotes'],
    ['dkim', [dkim, 'v=spf1 -all'], 'wrong', 'two records give receivers an undefined result'],
    ['dkim', ['\0\u{1F48C}'.repeat(1000)], 'wrong', 'garbage'],
    ['spf', [], 'missing', 'nothing there'],
    ['spf', ['google-site-verification=x'], 'missing', 'other texts do not count'],
    ['spf', ['google-site-verification=x', 'v=spf1 a:mail.host.test -all'], 'ok', 'among other texts; a stricter end'],
    ['spf', ['V=SPF1 include:_spf.other.test +A:Mail.Host.Test ?all'], 'ok', 'other terms, case, an explicit plus'],
    ['spf', ['v=spf1 mx ~all'], 'ok', 'our host is the MX of the return path'],
    ['spf', ['v=spf1 +all'], 'ok', 'everybody passes, we too'],
    ['spf', ['v=spf1'], 'wrong', 'nobody passes'],
    ['spf', ['v=spf1 -all'], 'wrong', 'nobody passes'],
    ['spf', ['v=spf1 -all a:mail.host.test'], 'wrong', 'nothing counts behind all'],
    ['spf', ['v=spf1 ~a:mail.host.test ~all'], 'wrong', 'a softfail is no pass'],
    ['spf', ['v=spf1 a:mail.host.test.evil.test ~all'], 'wrong', 'another host'],
    ['spf', ['v=spf1 a:mail.host.test ~all', 'v=spf1 -all'], 'wrong', 'two records are an error'],
    ['spf', ['v=spf10 a:mail.host.test'], 'missing', 'another version'],
    ['return_path', [], 'missing', 'nothing there'],
    ['return_path', ['0 mail.host.test'], 'ok', 'any preference'],
    ['return_path', ['10 MAIL.host.test.'], 'ok', 'case and final dot'],
    ['return_path', ['20 backup.other.test', '10 mail.host.test'], 'ok', 'a worse one beside'],
    ['return_path', ['10 other.test', '10 mail.host.test'], 'ok', 'one of the best'],
    ['return_path', ['5 other.test', '10 mail.host.test'], 'wrong', 'bounces go elsewhere'],
    ['return_path', ['0 .'], 'wrong', 'the null MX'],
    ['return_path', ['mail.host.test'], 'wrong', 'no preference'],
    ['dmarc', [], 'missing', 'nothing there'],
    ['dmarc', ['v=DMARC1; p=reject; sp=none; adkim=s; aspf=s'], 'ok', "a stricter policy is the owner's choice"],
    ['dmarc', ['v=DMARC1;p=quarantine'], 'ok', 'without spaces'],
    ['dmarc', ['v=DMARC1'], 'wrong', 'no policy'],
    ['dmarc', ['v=DMARC1; p=maybe'], 'wrong', 'no such policy'],
    ['dmarc', ['v=DMARC1; p=none', 'v=DMARC1; p=reject'], 'wrong', 'two records are none'],
    ['dmarc', ['v=DMARC2; p=none'], 'missing', 'another version'],
  ];
  for (const [purpose, answers, status, reason] of rows) {
    it(`${purpose} ${status}: ${reason}`, () => {
      assert.equal(compareRecord(record(purpose), answers).status, status);
    });
  }

  it('asks for the consent of our hosts in another organization to the reports that the record sends them', () => {
    const consents = (name: string, returnPath: string, dmarc?: string): string[] =>
      wantedRecords({ name, returnPath, keys: [], ...(dmarc === undefined ? {} : { dmarc }) }, 'mail.host.test')
        .filter(({ purpose }) => purpose === 'dmarc_consent')
        .map(({ type, host, value, required }) => `${host} ${type} ${value}${required ? ' required' : ''}`);
    assert.deepEqual(consents('acme.test', 'rp.acme.test'), [], 'the proposed record needs none');
    assert.deepEqual(
      consents('acme.test', 'rp.bounces.test'),
      ['acme.test._report._dmarc.rp.bounces.test TXT v=DMARC1'],
      'except where the return path is elsewhere',
    );
    const own = 'v=DMARC1; p=none; rua=mailto:me@other.test, mailto:dmarc@mail.host.test!10m,mailto:dmarc@rp.acme.test';
    assert.deepEqual(
      consents('acme.test', 'rp.acme.test', own),
      ['acme.test._report._dmarc.mail.host.test TXT v=DMARC1'],
      'nothing is asked of hosts that are not ours',
    );
    assert.deepEqual(consents('acme.test', 'rp.bounces.test', 'v=DMARC1; p=none'), [], 'no reports are asked for');
  });

  it('takes names below one registered domain for one organization', () => {
    assert.ok(isSameOrganization('shop.acme.co.uk', 'rp.acme.co.uk'));
    assert.ok(isSameOrganization('acme.test', 'rp.acme.test'));
    assert.ok(!isSameOrganization('a.co.uk', 'b.co.uk'));
    assert.ok(!isSameOrganization('a.github.io', 'b.github.io'));
    assert.ok(!isSameOrganization('acme.test', 'host.test'));
  });

  it('knows its own key from another', () => {
    const other = wantedRecords(
      { name: 'a.test', returnPath: 'rp.a.test', keys: [keyOf('r', 'active', otherPublic)] },
      'm.test',
    )[0];
    assert.equal(compareRecord(record('dkim'), [other?.value ?? '']).status, 'wrong');
  });

  it('shows what was found, cut to a length that can be shown', () => {
    assert.deepEqual(compareRecord(record('spf'), ['other', 'v=spf1 -all']), { status: 'wrong', found: 'v=spf1 -all' });
    assert.equal(compareRecord(record('dkim'), ['x'.repeat(60_000)]).found?.length, 1000);
  });

  it('never throws, whatever DNS says', () => {
    const answers = fc.array(
      fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom(...records.map(({ value }) => value))),
      { maxLength: 5 },
    );
    fc.assert(
      fc.property(fc.constantFrom(...records), answers, (each, found) => {
        assert.ok(['ok', 'missing', 'wrong'].includes(compareRecord(each, found).status));
      }),
    );
  });
});
