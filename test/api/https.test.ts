import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { expired, server as certificate, testCa } from '../support/harness/certificate.ts';
import { startHarness, type Harness } from './harness.ts';

describe('the API over HTTPS', () => {
  let h: Harness;
  beforeEach(async () => {
    h = await startHarness({ settings: { tls: certificate } });
  });
  afterEach(() => h.stop());

  /** When the certificate that is shown ends. */
  const validTo = (): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connectTls({ port: h.port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
        resolve(socket.getPeerCertificate().valid_to);
        socket.destroy();
      }).on('error', reject);
    });

  it('answers as over HTTP, to who trusts the certificate', async () => {
    const answer = await h.send('POST', '/v1/messages', { ca: testCa, body: { to: 'ana' } });
    assert.deepEqual([answer.status, answer.json], [202, { to: 'ana', bytes: 12 }]);
    assert.equal(h.audits[0]?.ip, '127.0.0.1');
    const missing = await h.send('GET', '/v1/nothing', { ca: testCa });
    assert.deepEqual([missing.status, missing.error.code], [404, 'not_found']);
    await assert.rejects(h.send('GET', '/v1/messages', { ca: certificate.cert.slice(0, 0) }), /certificate/);
  });

  it('closes on who speaks something else, and goes on', async () => {
    assert.equal(await h.raw('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), '');
    assert.equal(
      await h.raw(Buffer.from([0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5])).then((text) => text.includes('HTTP')),
      false,
    );
    assert.equal((await h.send('GET', '/v1/messages', { ca: testCa })).status, 200);
  });

  it('refuses old TLS', async () => {
    const error = await new Promise<Error>((resolve) => {
      connectTls({
        port: h.port,
        host: '127.0.0.1',
        maxVersion: 'TLSv1.1',
        minVersion: 'TLSv1',
        rejectUnauthorized: false,
        ciphers: 'DEFAULT@SECLEVEL=0',
      }).on('error', resolve);
    });
    assert.match(error.message, /protocol version|no protocols/);
  });

  it('shows another certificate to new connections when it is given one', async () => {
    assert.match(await validTo(), / 2126 /);
    h.api.setCertificate(expired);
    assert.match(await validTo(), / 2020 /);
  });

  it('does not wait at a stop for a handshake or a request that never comes', async () => {
    const unused = connectTls({ port: h.port, host: '127.0.0.1', ca: testCa, servername: 'localhost' });
    await new Promise((resolve) => unused.once('secureConnect', resolve));
    const silent = connect(h.port, '127.0.0.1');
    const closed = new Promise((resolve) => silent.once('close', resolve));
    await new Promise((resolve) => silent.once('connect', resolve));
    await h.send('GET', '/v1/messages', { ca: testCa });
    await h.stop();
    await closed;
  });
});
