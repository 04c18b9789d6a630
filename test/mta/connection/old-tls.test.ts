/** Servers with old TLS, played by GnuTLS: OpenSSL cannot do without secure renegotiation (RFC 5746). */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import path from 'node:path';
import { once } from 'node:events';
import { systemClock } from '../../../src/base/clock.ts';
import { createTlsClient, handshake, type Handshake, type Hello } from '../../../src/mta/connection/tls.ts';
import { canConnect, freePort, missing, stoppedWithUs, until } from '../../support/harness/peer.ts';
import { opportunistic } from './helpers.ts';

const certificates = path.join(import.meta.dirname, '../../fixtures/tls');

const rows: [what: string, priority: string, reached: Record<Hello, string | null>][] = [
  [
    'TLS 1.2 without RFC 5746',
    'NORMAL:-VERS-ALL:+VERS-TLS1.2:%DISABLE_SAFE_RENEGOTIATION',
    { full: null, reduced: null, legacy: 'TLSv1.2' },
  ],
  [
    'TLS 1.0 without RFC 5746',
    'LEGACY:-VERS-ALL:+VERS-TLS1.0:%DISABLE_SAFE_RENEGOTIATION',
    { full: null, reduced: null, legacy: 'TLSv1' },
  ],
  ['TLS of today', 'NORMAL', { full: 'TLSv1.3', reduced: 'TLSv1.2', legacy: 'TLSv1.2' }],
];

describe('mta/connection/tls with GnuTLS', () => {
  before(function () {
    const absent = missing('gnutls-serv');
    if (absent.length === 0) return;
    this.skip('gnutls-serv is not installed (apt-get install gnutls-bin)');
  });

  for (const [what, priority, reached] of rows)
    it(what, async () => {
      const port = await freePort();
      const files = [
        '--x509keyfile',
        path.join(certificates, 'server.key'),
        '--x509certfile',
        path.join(certificates, 'server.pem'),
      ];
      const child = spawn('gnutls-serv', ['--echo', '-q', '--priority', priority, ...files, '-p', String(port)], {
        stdio: 'ignore',
      });
      const ended = once(child, 'close');
      const stop = stoppedWithUs(() => child.kill('SIGKILL'));
      try {
        await until(() => canConnect(port), 'gnutls-serv');
        for (const [hello, expected] of Object.entries(reached) as [Hello, string | null][]) {
          const made = await shaken(port, hello);
          assert.equal(made.kind === 'secured' ? made.result.protocol : null, expected, hello);
          if (made.kind === 'secured') made.socket.destroy();
          else assert.equal(made.isCut, false, 'a fault of TLS');
        }
      } finally {
        stop();
        await ended;
      }
    });
});

async function shaken(port: number, hello: Hello): Promise<Handshake> {
  const raw = connect(port, '127.0.0.1');
  await once(raw, 'connect');
  const target = { host: 'mx1.dest.test', port, need: opportunistic, hello, timeoutMs: 120_000 };
  return handshake({ clock: systemClock, tls: createTlsClient() }, raw, target);
}
