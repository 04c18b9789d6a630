/** The kinds of `sslmode` against a real PostgreSQL with a certificate of the test CA. */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openDatabase } from '../../../src/storage/database.ts';
import { server as certificate, testCa } from '../../support/harness/certificate.ts';
import { freePort } from '../../support/harness/peer.ts';
import { PostgresServer } from '../../support/harness/postgres-server.ts';
import { postgresPrograms } from '../../support/harness/postgres.ts';

describe('storage/postgres: sslmode', () => {
  let root: string;
  let port: number;
  let server: PostgresServer;

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    root = mkdtempSync(path.join(tmpdir(), 'ph-tls-'));
    chmodSync(root, 0o755);
    port = await freePort();
    const settings = [
      'ssl=on',
      'ssl_cert_file=own.pem',
      'ssl_key_file=own.key',
      'listen_addresses=127.0.0.1,127.0.0.2',
      'fsync=off',
    ];
    server = new PostgresServer(path.join(root, 'server'), settings, port);
    server.initialize();
    server.addFile('own.pem', certificate.cert);
    server.addFile('own.key', certificate.key);
    await server.start();
    await server.query('CREATE DATABASE tls');
    writeFileSync(path.join(root, 'ca.pem'), testCa);
  });
  after(async () => {
    if (postgresPrograms() === null) return;
    await server.stopAtOnce();
    rmSync(root, { recursive: true, force: true });
  });

  const url = (host: string, query: string): string => `postgres://posthorn@${host}:${String(port)}/tls?${query}`;
  const withCa = (): string => `&sslrootcert=${path.join(root, 'ca.pem')}`;

  /** Opens the database; returns whether all its connections are encrypted. */
  async function isEncrypted(query: string, host = '127.0.0.1'): Promise<boolean> {
    const db = await openDatabase({ url: url(host, query) });
    try {
      await db.reader('settings').count();
      const [row] = await db.prepared.all<{ plain: number; all: number }>(
        `SELECT COUNT(*) FILTER (WHERE NOT s.ssl) AS plain, COUNT(*) AS all FROM pg_stat_ssl s JOIN pg_stat_activity a ON a.pid = s.pid
         WHERE a.application_name = 'posthorn'`,
      );
      assert.ok((row?.all ?? 0) >= 6);
      assert.ok(row?.plain === 0 || row?.plain === row?.all, 'some connections are encrypted and some are not');
      return row?.plain === 0;
    } finally {
      await db.close();
    }
  }

  it('encrypts unless it is switched off, and looks at the certificate only where that is asked for', async () => {
    assert.equal(await isEncrypted('sslmode=disable'), false);
    assert.equal(await isEncrypted('sslmode=prefer'), true);
    assert.equal(await isEncrypted('sslmode=require'), true);
    assert.equal(await isEncrypted(`sslmode=verify-ca${withCa()}`), true);
    assert.equal(await isEncrypted(`sslmode=verify-full${withCa()}`, 'localhost'), true);
  });

  it('refuses a certificate of an authority that it does not know, and one for another name', async () => {
    await assert.rejects(openDatabase({ url: url('127.0.0.1', 'sslmode=verify-ca') }), { why: 'unreachable' });
    await assert.rejects(openDatabase({ url: url('localhost', 'sslmode=verify-full') }), { why: 'unreachable' });
    // 127.0.0.2 is this machine as well, and not among the names of the certificate.
    await assert.rejects(openDatabase({ url: url('127.0.0.2', `sslmode=verify-full${withCa()}`) }), {
      why: 'unreachable',
    });
  });
});
