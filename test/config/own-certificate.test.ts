import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { OWN_CERT_FILE, ownCertificate } from '../../src/config/own-certificate.ts';
import { server } from '../support/certificate.ts';

const NOW = Date.UTC(2026, 0, 1);

describe('config/own-certificate', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-cert-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });
  const nameOf = (cert: string): string | undefined => new X509Certificate(cert).subjectAltName;

  it('is made once, for the name of the machine', () => {
    const first = ownCertificate(folder, 'mail.example.com', NOW);
    assert.equal(nameOf(first.cert), 'DNS:mail.example.com');
    assert.deepEqual(ownCertificate(folder, 'mail.example.com', NOW + 1), first);
  });

  it('of a machine without a domain stays as well', () => {
    assert.deepEqual(ownCertificate(folder, 'vm', NOW), ownCertificate(folder, 'vm', NOW));
  });

  it('is made anew where the machine got its name after the first start', () => {
    ownCertificate(folder, 'vm', NOW);
    const renamed = ownCertificate(folder, 'mail.example.com', NOW);
    assert.equal(nameOf(renamed.cert), 'DNS:mail.example.com');
    assert.deepEqual(ownCertificate(folder, 'mail.example.com', NOW), renamed);
  });

  it('is left alone where somebody has put another in its place', () => {
    ownCertificate(folder, 'vm', NOW);
    writeFileSync(path.join(folder, OWN_CERT_FILE), server.cert);
    assert.equal(ownCertificate(folder, 'mail.example.com', NOW).cert, server.cert);
  });
});
