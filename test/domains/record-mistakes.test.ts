import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import {
  formsOf,
  shortName,
  wantedRecords,
  type DnsRecord,
  type RecordPurpose,
} from '../../src/domains/dns-records.ts';
import { checkRecord, cureOf, type Mistake, type Seen } from '../../src/domains/record-mistakes.ts';

const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const public_key = publicKey.export({ type: 'spki', format: 'pem' }).toString();
const records = wantedRecords(
  {
    name: 'acme.test',
    returnPath: 'rp.acme.test',
    keys: [{ selector: 'r', algorithm: 'rsa-sha256', public_key, state: 'active' }],
  },
  'mail.host.test',
  'track.host.test',
);
const record = (purpose: RecordPurpose): DnsRecord => {
  const found = records.find((each) => each.purpose === purpose);
  assert.ok(found);
  return found;
};
const dkim = record('dkim').value;

type Row = [purpose: RecordPurpose, seen: Seen, mistake: Mistake | undefined, cure: RegExp];
const rows: Row[] = [
  ['dkim', { values: [] }, undefined, /^Publish: r\._domainkey\.acme\.test\. 3600 IN TXT "v=DKIM1[^"]*" "[^"]*"$/],
  [
    'dkim',
    { values: [], doubledAt: 'r._domainkey.acme.test.acme.test' },
    'doubled_name',
    /is at r\._domainkey\.acme\.test\.acme\.test.*Rename it to r\._domainkey there/,
  ],
  ['dkim', { values: [dkim.slice(0, 255)] }, 'cut_off', /two quoted strings/],
  ['dkim', { values: [`"${dkim.slice(0, 255)}`] }, 'cut_off', /two quoted strings/],
  ['dkim', { values: [`"${dkim.slice(0, 255)}" "${dkim.slice(255)}"`] }, 'quoted', /Quotation marks/],
  ['dkim', { values: [dkim.replaceAll(';', String.raw`\;`)] }, 'quoted', /backslashes/],
  ['dkim', { values: [`${dkim.slice(0, 5)} ${dkim.slice(5)}`] }, 'spaces', /in one line/],
  [
    'dkim',
    { values: [dkim, 'v=DKIM1; p='] },
    'several',
    /only one of its 2 TXT records.*Keep this one.*v=DKIM1; k=rsa/,
  ],
  [
    'dkim',
    { values: [dkim.slice(255), dkim.slice(0, 255)] },
    'several',
    /publish one record of two quoted strings: r\._domainkey\.acme\.test\. 3600 IN TXT "v=DKIM1[^"]*" "[^"]*"$/,
  ],
  ['dkim', { values: ['v=spf1 -all'] }, 'other_value', /Another key or text.*Replace it by/],
  ['dkim', { values: [], alias: 'old.test' }, 'alias', /alias \(CNAME\) of old\.test.*Delete the CNAME/],
  ['spf', { values: ['"v=spf1 a:mail.host.test ~all"'] }, 'quoted', /without them/],
  ['spf', { values: ['\u201cv=spf1 a:mail.host.test ~all\u201d'] }, 'quoted', /without them/],
  ['spf', { values: [' v=spf1 a:mail.host.test\n~all'] }, 'spaces', /in one line/],
  [
    'spf',
    { values: ['v=spf1 -all', 'other', 'v=spf1 a:mail.host.test ~all'] },
    'several',
    /only one of its 2 SPF.*Keep this one and delete the other: v=spf1 a:mail\.host\.test ~all$/,
  ],
  [
    'spf',
    { values: ['v=spf1 -all', 'v=spf1 mx:a.test -all'] },
    'several',
    /Delete them and publish one record: rp\.acme\.test\. 3600 IN TXT "v=spf1 a:mail/,
  ],
  [
    'spf',
    { values: ['v=spf1 include:_spf.other.test -all'] },
    'other_value',
    /Add a:mail\.host\.test .*before its "all": v=spf1 include:_spf\.other\.test a:mail\.host\.test -all$/,
  ],
  ['spf', { values: ['v=spf1 ip4:192.0.2.1'] }, 'other_value', /v=spf1 ip4:192\.0\.2\.1 a:mail\.host\.test ~all$/],
  [
    'dmarc',
    { values: [record('dmarc').value, 'v=DMARC1; p=reject'] },
    'several',
    /only one of its 2 DMARC.*delete the other: v=DMARC1; p=reject$/,
  ],
  ['dmarc', { values: ['"v=DMARC1; p=none"'] }, 'quoted', /without them/],
  ['dmarc', { values: ['v=DMARC1; p=maybe'] }, 'other_value', /p=none, p=quarantine or p=reject/],
  ['return_path', { values: ['10 mail.host.test.acme.test'] }, 'doubled_target', /Write mail\.host\.test\. with/],
  ['return_path', { values: ['10 192.0.2.7'] }, 'other_value', /needs a name, not an address/],
  ['return_path', { values: ['5 other.test', '10 mail.host.test'] }, 'other_value', /Bounces go to other\.test/],
  ['return_path', { values: [], doubledAt: 'rp.acme.test.acme.test' }, 'doubled_name', /Rename it to rp there/],
  ['return_path', { values: [] }, undefined, /^Publish: rp\.acme\.test\. 3600 IN MX 10 mail\.host\.test\.$/],
  ['tracking', { values: ['track.host.test.acme.test'] }, 'doubled_target', /Write track\.host\.test\. with/],
  ['tracking', { values: [], doubledAt: 'track.acme.test.acme.test' }, 'doubled_name', /Rename it to track there/],
  ['tracking', { values: ['192.0.2.9'] }, 'other_value', /leads elsewhere/],
];

describe('domains/record-mistakes', () => {
  for (const [purpose, seen, mistake, cure] of rows) {
    it(`${purpose}: ${mistake ?? 'nothing there'} (${(seen.alias ?? seen.doubledAt ?? seen.values.join(' | ')).slice(0, 40)})`, () => {
      const checked = checkRecord(record(purpose), seen);
      assert.equal(checked.mistake, mistake);
      assert.match(cureOf(record(purpose), checked) ?? '', cure);
    });
  }

  it('finds no mistake in what is right, and has no cure for it', () => {
    for (const each of records) {
      const checked = checkRecord(each, { values: [each.value], alias: 'provider.test' });
      assert.deepEqual([checked.status, checked.mistake, cureOf(each, checked)], ['ok', undefined, null]);
    }
  });

  it('counts a value with quotation marks as wrong, not as missing', () => {
    assert.equal(checkRecord(record('spf'), { values: ['"v=spf1 a:mail.host.test ~all"'] }).status, 'wrong');
  });

  it('never throws and always has a cure, whatever DNS says', () => {
    const values = fc.array(fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom(...records.map((r) => r.value))), {
      maxLength: 4,
    });
    fc.assert(
      fc.property(fc.constantFrom(...records), values, (each, found) => {
        const checked = checkRecord(each, { values: found });
        assert.equal(cureOf(each, checked) === null, checked.status === 'ok');
      }),
    );
  });
});

describe('domains/record-forms', () => {
  it('splits a long value into strings that DNS can hold, and they join to the value', () => {
    const { quoted } = formsOf(record('dkim'));
    const strings = [...(quoted ?? '').matchAll(/"([^"]*)"/g)].map(([, text]) => text ?? '');
    assert.deepEqual(
      strings.map((text) => text.length <= 255),
      [true, true],
    );
    assert.equal(strings.join(''), dkim);
  });

  it('writes the number and the host of an MX record apart', () => {
    assert.deepEqual(formsOf(record('return_path')), {
      name: 'rp',
      quoted: null,
      zone_line: 'rp.acme.test. 3600 IN MX 10 mail.host.test.',
      priority: 10,
      target: 'mail.host.test',
    });
    const { target, priority, zone_line } = formsOf(record('tracking'));
    assert.deepEqual(
      [target, priority, zone_line],
      ['track.host.test', null, 'track.acme.test. 3600 IN CNAME track.host.test.'],
    );
  });

  for (const [host, name] of [
    ['r._domainkey.acme.test', 'r._domainkey'],
    ['rp.news.acme.co.uk', 'rp.news'],
    ['acme.test', '@'],
    ['localhost', 'localhost'],
  ] as const) {
    it(`${host} is ${name} in a web form`, () => {
      assert.equal(shortName(host), name);
    });
  }
});
