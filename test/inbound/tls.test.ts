/** The certificate of the SMTP listeners: made at the first start, kept, or the one that is named; taken over when it is renewed. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import tls from 'node:tls';
import { newFolder, startTestApp, type TestApp } from '../support/harness/app.ts';
import { server, stsServer } from '../support/harness/certificate.ts';
import { smtpClient } from '../support/harness/smtp-client.ts';

/** The fingerprint of what the listener shows; with `starttls` after that command. */
async function shown(port: number, starttls = false): Promise<string> {
  if (!starttls) {
    const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
    await new Promise((resolve) => socket.once('secureConnect', resolve));
    const { fingerprint256 } = socket.getPeerCertificate();
    socket.destroy();
    return fingerprint256;
  }
  const client = smtpClient(port);
  await client.reply();
  await client.say('EHLO a.test');
  await client.say('STARTTLS');
  const fingerprint = await client.startTls();
  client.end();
  return fingerprint;
}

const fingerprintOf = ({ cert }: { cert: string }): string => new X509Certificate(cert).fingerprint256;

describe('the certificate of the SMTP listeners', () => {
  let app: TestApp;
  let folder: string;
  beforeEach(() => {
    folder = newFolder();
  });
  afterEach(async () => {
    await app.stop();
    rmSync(folder, { recursive: true });
  });

  const everywhere = async (): Promise<string[]> => {
    const { mx, submission, submissions } = app.app.ports;
    return [await shown(mx ?? 0, true), await shown(submission ?? 0, true), await shown(submissions ?? 0)];
  };

  it('is made at the first start, for our name, with a key that no other user can read, and kept', async () => {
    app = await startTestApp({ folder });
    const first = await everywhere();
    assert.equal(new Set(first).size, 1);
    assert.ok(existsSync(path.join(folder, 'self-signed-cert.pem')));
    assert.equal(statSync(path.join(folder, 'self-signed-key.pem')).mode & 0o777, 0o600);
    await app.stop();
    app = await startTestApp({ folder });
    assert.deepEqual(await everywhere(), first);
  });

  it('is taken over when its files change, and kept where they become unusable', async () => {
    mkdirSync(path.join(folder, 'tls'));
    const [certFile, keyFile] = [path.join(folder, 'tls/cert.pem'), path.join(folder, 'tls/key.pem')];
    const write = ({ cert, key }: { cert: string; key: string }): void => {
      writeFileSync(certFile, cert);
      writeFileSync(keyFile, key);
    };
    write(server);
    app = await startTestApp({ folder, settings: { tls: { certFile, keyFile } } });
    const all = (one: { cert: string }): string[] => Array.from({ length: 3 }, () => fingerprintOf(one));
    assert.deepEqual(await everywhere(), all(server));
    app.clock.advance(60_000);
    assert.equal(app.logged.filter(({ event }) => event === 'certificate_renewed').length, 0, 'nothing has changed');
    write(stsServer);
    app.clock.advance(60_000);
    assert.deepEqual(await everywhere(), all(stsServer));
    copyFileSync(certFile, keyFile);
    for (let minutes = 0; minutes < 3; minutes++) app.clock.advance(60_000);
    assert.deepEqual(await everywhere(), all(stsServer));
    assert.equal(app.logged.filter(({ event }) => event === 'certificate_unusable').length, 1);
    write(server);
    app.app.reload(app.config);
    assert.deepEqual(await everywhere(), all(server), 'at once where it is asked for (SIGHUP)');
  });
});
