import assert from 'node:assert/strict';
import path from 'node:path';
import { readCertificate } from '../../src/config/certificate.ts';
import { ConfigError, readSettings } from '../../src/config/load.ts';
import { server } from '../support/harness/certificate.ts';

const file = (name: string): string => path.join(import.meta.dirname, '../fixtures/tls', name);
const around = { cwd: '/srv', privileged: false, terminal: false, hostname: 'mail.example.com' };

describe('config/certificate', () => {
  it('reads the pair', () => {
    assert.deepEqual(readCertificate({ certFile: file('server.pem'), keyFile: file('server.key') }), server);
  });

  const bad: [certFile: string, keyFile: string, line: RegExp, why: string][] = [
    ['none.pem', 'server.key', /^tls\.certFile: expected a readable file: ENOENT/, 'no such file'],
    ['server.pem', '.', /^tls\.keyFile: expected a readable file: EISDIR/, 'a folder'],
    ['ca.pem', 'server.key', /^tls\.keyFile: expected the key of the certificate/, 'a key of another certificate'],
    ['server.key', 'server.key', /^tls\.keyFile: expected/, 'no certificate in the file'],
  ];
  for (const [certFile, keyFile, line, why] of bad) {
    it(`says what is wrong: ${why}`, () => {
      assert.throws(
        () => readCertificate({ certFile: file(certFile), keyFile: file(keyFile) }),
        (error) => error instanceof ConfigError && line.test(error.mistakes.join()),
      );
    });
  }

  for (const [name, line] of [
    ['ca.pem', /ca\.pem: expected a certificate and its key, as `posthorn tls install` writes them/],
    ['.', /tls: expected a file that the user of the service can read: EISDIR$/],
  ] as const)
    it(`names the installed file, which no setting names: ${name}`, () => {
      const place = path.resolve(file(name));
      assert.throws(
        () => readCertificate({ certFile: place, keyFile: place, isInstalled: true }),
        (error) =>
          error instanceof ConfigError && line.test(error.mistakes.join()) && !/tls\.\w+File/.test(error.message),
      );
    });

  it('is asked for where the API shall speak HTTPS', () => {
    const without = readSettings({ http: { tls: true } }, around);
    assert.deepEqual(without.kind === 'bad' && without.mistakes, [
      'http.tls: expected false, or tls.certFile and tls.keyFile given, found true',
    ]);
    const given = readSettings({ http: { tls: true }, tls: { certFile: 'c.pem', keyFile: 'k.pem' } }, around);
    assert.equal(given.kind === 'ok' && given.config.http.publicUrl, 'https://127.0.0.1:8025');
  });
});
