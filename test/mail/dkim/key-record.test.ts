import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { dkimRecord, parseKeyRecord } from '../../../src/mail/dkim/key-record.ts';

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey;
const ed25519 = generateKeyPairSync('ed25519').publicKey;
const p = dkimRecord(rsa).split('p=')[1] ?? '';
const e = dkimRecord(ed25519).split('p=')[1] ?? '';

describe('mail/dkim/key-record', () => {
  for (const key of [rsa, ed25519]) {
    it(`reads back what it writes: ${String(key.asymmetricKeyType)}`, () => {
      const parsed = parseKeyRecord(dkimRecord(key));
      assert.ok(parsed.kind === 'ok');
      assert.equal(parsed.record.keyType, key.asymmetricKeyType);
      assert.ok(parsed.record.publicKey?.equals(key));
      assert.equal(parsed.record.testing, false);
      assert.equal(dkimRecord(key.export({ type: 'spki', format: 'pem' }).toString()), dkimRecord(key), 'PEM too');
    });
  }

  it('writes no record for another key', () => {
    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
    for (const key of [other, other.export({ type: 'spki', format: 'pem' }).toString()])
      assert.throws(() => dkimRecord(key), /no DKIM key type/);
    for (const text of ['', 'key', '-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----'])
      assert.throws(() => dkimRecord(text));
  });

  it('writes the same record for an RSA key in the PEM of PKCS #1', () => {
    assert.equal(dkimRecord(rsa.export({ type: 'pkcs1', format: 'pem' }).toString()), dkimRecord(rsa));
  });

  /** [record, reason] */
  const good: readonly (readonly [string, string])[] = [
    [`p=${p}`, 'all but p= may be missing'],
    [` v=DKIM1 ;k=rsa;  p=${p} ; `, 'white space and a last semicolon'],
    [`v=DKIM1; k=rsa; p=${p.slice(0, 100)} ${p.slice(100)}`, 'white space inside the key'],
    [`v=DKIM1; h=sha1:sha256; s=email; t=s; n=a note; x=unknown; p=${p}`, 'other tags'],
    [`v=DKIM1; s=*; p=${p}`, 'for every service'],
    [`k=ed25519; p=${e}`, 'Ed25519'],
    [`p=${rsa.export({ type: 'pkcs1', format: 'der' }).toString('base64')}`, 'a bare RSA key'],
  ];
  for (const [record, reason] of good) {
    it(`takes: ${reason}`, () => {
      const parsed = parseKeyRecord(record);
      assert.ok(parsed.kind === 'ok', parsed.kind === 'bad' ? parsed.why : '');
      assert.ok(parsed.record.publicKey?.equals(parsed.record.keyType === 'rsa' ? rsa : ed25519));
    });
  }

  it('knows a revoked key and one under test', () => {
    const revoked = parseKeyRecord('v=DKIM1; p=');
    assert.ok(revoked.kind === 'ok' && revoked.record.publicKey === null);
    const testing = parseKeyRecord(`v=DKIM1; t=y:s; p=${p}`);
    assert.ok(testing.kind === 'ok' && testing.record.testing);
  });

  /** [record, reason] */
  const refused: readonly (readonly [string, string])[] = [
    ['', 'nothing'],
    ['v=spf1 -all', 'another kind of record'],
    ['v=DKIM1', 'no key'],
    [`v=DKIM2; p=${p}`, 'another version'],
    [`k=rsa; v=DKIM1; p=${p}`, 'the version not first'],
    [`v=DKIM1; p=${p}; p=${p}`, 'a tag twice'],
    [`v=DKIM1; k=dsa; p=${p}`, 'another kind of key'],
    [`v=DKIM1; h=sha1; p=${p}`, 'only sha1'],
    [`v=DKIM1; s=other; p=${p}`, 'another service'],
    [`v=DKIM1; k=ed25519; p=${p}`, 'an RSA key as Ed25519'],
    [`v=DKIM1; k=rsa; p=${e}`, 'an Ed25519 key as RSA'],
    [`v=DKIM1; p=${p.slice(0, 40)}`, 'a key cut off'],
    ['v=DKIM1; p=***', 'no base64'],
    [`v=DKIM1;; p=${p}`, 'an empty tag'],
    [`v=DKIM1; p=${p}${' '.repeat(5000)}`, 'too long'],
  ];
  for (const [record, reason] of refused) {
    it(`refuses: ${reason}`, () => {
      assert.equal(parseKeyRecord(record).kind, 'bad');
    });
  }

  it('never throws', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.string().map((text) => `p=${text}`),
        ),
        (text) => void parseKeyRecord(text),
      ),
    );
  });
});
