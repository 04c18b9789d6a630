import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { readPair, type PairInput } from '../../src/config/certificate-pair.ts';
import { makeSelfSigned } from '../../src/config/own-certificate.ts';
import { DAY_MS } from '../../src/base/time.ts';
import { expired, server } from '../support/harness/certificate.ts';

const read = (name: string): string =>
  readFileSync(path.join(import.meta.dirname, '../fixtures/tls/chain', name), 'utf8');
const [leaf, issuer, root, key] = [read('leaf.pem'), read('issuer.pem'), read('root.pem'), read('leaf.key')];
const now = Date.parse('2030-01-01T00:00:00Z');
const good: PairInput = { cert: leaf + issuer, key, names: ['mail.example.com'], now };
const own = makeSelfSigned('mail.example.com', now);

describe('config/certificate-pair', () => {
  for (const [why, input, warning] of [
    ['a chain as certbot writes it', good, null],
    ['one with its root', { ...good, cert: leaf + issuer + root }, null],
    [
      'text around the certificates, and the key beside them',
      { ...good, cert: `# mine\r\n${key}${leaf}\n${issuer}` },
      null,
    ],
    ['a name under a wildcard', { ...good, names: ['mail.posthorn.test'] }, null],
    ['the certificate alone', { ...good, cert: leaf }, /no intermediate certificate/],
    ['one signed by itself', { ...good, ...own }, /signed by itself/],
    ['an Ed25519 key', { ...good, cert: read('ed.pem') + issuer, key: read('ed.key') }, /Ed25519/],
    ['one that ends soon', { ...good, ...own, now: Date.parse('2039-12-20T00:00:00Z') }, /expires on 2040-01-01/],
  ] as const) {
    it(`takes ${why}`, () => {
      const reading = readPair(input);
      assert.equal(reading.kind, 'good', JSON.stringify(reading));
      if (warning === null) assert.deepEqual(reading.warnings, []);
      else assert.match(reading.warnings.join(), warning);
      // A pair that was written can be read again, and is the same.
      const again = readPair({ ...input, cert: reading.bundle, key: reading.bundle });
      assert.deepEqual(again, reading);
    });
  }

  for (const [why, input, says] of [
    ['nothing', { ...good, cert: '' }, /no certificate in PEM form/],
    ['half a certificate', { ...good, cert: leaf.slice(0, 300) }, /cannot be read/],
    ['nonsense between the lines', { ...good, cert: leaf.replace(/^MII.*$/m, '%%%%') }, /cannot be read/],
    ['a key in the place of the chain', { ...good, cert: key }, /no certificate in PEM form/],
    ['a chain in the place of the key', { ...good, key: leaf }, /no private key in PEM form/],
    ['a damaged key', { ...good, key: key.replace(/^M.*$/m, 'AAAA') }, /the key cannot be read/],
    ['a key under a passphrase', { ...good, key: read('locked.key') }, /under a passphrase/],
    ['the key of another', { ...good, key: server.key }, /does not belong/],
    ['the issuer first', { ...good, cert: issuer + leaf }, /is not the first of the file/],
    [
      'a chain with a gap',
      { ...good, cert: leaf + root },
      /certificate 1 of the file was not issued by the one after it/,
    ],
    ['a chain in the wrong order', { ...good, cert: leaf + root + issuer }, /certificate 1 of the file/],
    ['a collection of authorities', { ...good, cert: leaf + root.repeat(20) }, /has 11 certificates/],
    ['RSA of 1024 bits', { ...good, cert: read('weak.pem') + issuer, key: read('weak.key') }, /RSA key has 1024 bits/],
    ['an expired one', { ...good, ...expired, names: [] }, /expired on 2020-/],
    ['one of tomorrow', { ...good, ...own, now: now - 3 * DAY_MS }, /good only from 2029-12-31/],
    ['another name', { ...good, names: ['mail.other.test'] }, /not for mail\.other\.test, but for mail\.example\.com/],
  ] as const) {
    it(`refuses ${why}`, () => {
      const reading = readPair(input);
      assert.equal(reading.kind, 'bad');
      assert.match(reading.why, says);
      assert.notEqual(reading.cure, '');
      // No part of a key, which journals and mails of cron would keep.
      assert.doesNotMatch(reading.why + reading.cure, /BEGIN|MI[GIE][A-Za-z0-9+/]{8}/);
    });
  }
});
