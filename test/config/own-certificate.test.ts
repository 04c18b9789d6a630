import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createSecureContext } from 'node:tls';
import { OWN_CERT_FILE, ownCertificate, makeSelfSigned } from '../../src/config/own-certificate.ts';
import { server } from '../support/harness/certificate.ts';

const NOW = Date.UTC(2026, 0, 1);

/** For mail.own.test and smtp.own.test, good until 2126. */
const TWO_NAMES = `-----BEGIN CERTIFICATE-----
MIIBrzCCAVagAwIBAgIUc1jUrpnYx1HYT14GOz1Gd01yPSIwCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNbWFpbC5vd24udGVzdDAgFw0yNjExMjEyMTM3MzJaGA8yMTI2
MTAyODIxMzczMlowGDEWMBQGA1UEAwwNbWFpbC5vd24udGVzdDBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABAYuh6+Crcf2UGUVppJo8LRRc4IY6B1Tl7sTN+l0FxPg
emFAm4dhDFvD6CGo3VXIjq9RQM3sC1EGjaOmVQgLGYSjfDB6MB0GA1UdDgQWBBQA
5lJhpZVb2fUtyck2YYp1vh93FjAfBgNVHSMEGDAWgBQA5lJhpZVb2fUtyck2YYp1
vh93FjAPBgNVHRMBAf8EBTADAQH/MCcGA1UdEQQgMB6CDW1haWwub3duLnRlc3SC
DXNtdHAub3duLnRlc3QwCgYIKoZIzj0EAwIDRwAwRAIga10d4HueDXuobRrF2CfL
6kh96Ec9uOubRHhAOX8T0tgCIFlq1x8Kw8orvNbuCZKJbLkKKAEVpk3YV604rPPp
GQN3
-----END CERTIFICATE-----
`;

describe('config/own-certificate', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-cert-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });
  const own = (...args: Parameters<typeof ownCertificate>): ReturnType<typeof ownCertificate>['certificate'] =>
    ownCertificate(...args).certificate;
  const nameOf = (cert: string): string | undefined => new X509Certificate(cert).subjectAltName;

  it('is made once, for the name of the machine', () => {
    const first = own(folder, 'mail.example.com', NOW);
    assert.equal(nameOf(first.cert), 'DNS:mail.example.com');
    assert.deepEqual(own(folder, 'mail.example.com', NOW + 1), first);
  });

  it('of a machine without a domain stays as well', () => {
    assert.deepEqual(own(folder, 'vm', NOW), own(folder, 'vm', NOW));
  });

  it('is made anew where the machine got its name after the first start', () => {
    own(folder, 'vm', NOW);
    const renamed = own(folder, 'mail.example.com', NOW);
    assert.equal(nameOf(renamed.cert), 'DNS:mail.example.com');
    assert.deepEqual(own(folder, 'mail.example.com', NOW), renamed);
  });

  it('is made anew where it has ended, as one of a machine that began without the time', () => {
    const early = own(folder, 'mail.example.com', Date.UTC(1970, 0, 2));
    const now = own(folder, 'mail.example.com', NOW);
    assert.notEqual(now.cert, early.cert);
    assert.ok(Date.parse(new X509Certificate(now.cert).validTo) > NOW);
    assert.deepEqual(own(folder, 'mail.example.com', Date.UTC(1970, 0, 2)), now, 'a clock that is behind');
  });

  it('is left alone where it is somebody’s own, though signed by itself', () => {
    own(folder, 'vm', NOW);
    writeFileSync(path.join(folder, OWN_CERT_FILE), TWO_NAMES);
    assert.equal(own(folder, 'mail.example.com', NOW).cert, TWO_NAMES);
  });

  it('is left alone where somebody has put another in its place', () => {
    own(folder, 'vm', NOW);
    writeFileSync(path.join(folder, OWN_CERT_FILE), server.cert);
    assert.equal(own(folder, 'mail.example.com', NOW).cert, server.cert);
  });

  const half = (text: string): string => text.slice(0, text.length / 2);
  for (const [what, name, broken] of [
    ['certificate is empty', OWN_CERT_FILE, (): string => ''],
    ['certificate was cut off', OWN_CERT_FILE, half],
    ['key is empty', 'self-signed-key.pem', (): string => ''],
    ['key was cut off', 'self-signed-key.pem', half],
    ['key is that of another one', 'self-signed-key.pem', (): string => makeSelfSigned('mail.example.com', NOW).key],
  ] as const)
    it(`is made again where the ${what}, as after a power cut`, () => {
      own(folder, 'mail.example.com', NOW);
      const file = path.join(folder, name);
      writeFileSync(file, broken(readFileSync(file, 'utf8')));
      const again = ownCertificate(folder, 'mail.example.com', NOW);
      assert.ok(again.broken?.startsWith(`${file} is not `), String(again.broken));
      createSecureContext(again.certificate);
      assert.deepEqual(ownCertificate(folder, 'mail.example.com', NOW), { ...again, broken: null });
      assert.deepEqual(readdirSync(folder).sort(), [OWN_CERT_FILE, 'self-signed-key.pem']);
    });
});
