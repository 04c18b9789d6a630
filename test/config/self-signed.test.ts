import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { makeSelfSigned } from '../../src/config/own-certificate.ts';

describe('base/self-signed', () => {
  const NOW = Date.parse('2026-01-31T09:30:00Z');

  it('makes a certificate that TLS takes and that names the host', () => {
    const { cert, key } = makeSelfSigned('mail.example.com', NOW);
    createSecureContext({ cert, key });
    const read = new X509Certificate(cert);
    assert.equal(read.subject, 'CN=mail.example.com');
    assert.equal(read.checkHost('mail.example.com'), 'mail.example.com');
    assert.equal(read.checkHost('other.example.com'), undefined);
    assert.ok(read.verify(read.publicKey), 'signed by its own key');
    assert.equal(read.ca, false);
    assert.ok(Date.parse(read.validFrom) < NOW);
    assert.equal(new Date(read.validTo).getUTCFullYear(), 2036);
  });

  it('writes dates after 2049 as well', () => {
    const { cert } = makeSelfSigned('mail.example.com', Date.parse('2045-06-01T00:00:00Z'));
    assert.equal(new Date(new X509Certificate(cert).validTo).getUTCFullYear(), 2055);
  });

  it('makes another key and number each time', () => {
    const [one, two] = [makeSelfSigned('a.test', NOW), makeSelfSigned('a.test', NOW)];
    assert.notEqual(one.key, two.key);
    assert.notEqual(new X509Certificate(one.cert).serialNumber, new X509Certificate(two.cert).serialNumber);
  });

  it('holds names of any length that DNS allows', () => {
    const host = `${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.test`;
    assert.equal(new X509Certificate(makeSelfSigned(host, NOW).cert).checkHost(host), host);
  });
});
