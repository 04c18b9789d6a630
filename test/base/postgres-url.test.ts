import assert from 'node:assert/strict';
import { isPostgresUrl, postgresUrlFault, readPostgresUrl } from '../../src/base/postgres-url.ts';

describe('base/postgres-url', () => {
  it('reads hosts, ports, the database and the way of encryption', () => {
    assert.deepEqual(
      readPostgresUrl('postgres://me%40x@db1,db2:5433,[::1]:5434/mail?sslmode=verify-full&sslrootcert=/ca.pem'),
      {
        hosts: [
          { host: 'db1', port: 5432 },
          { host: 'db2', port: 5433 },
          { host: '::1', port: 5434 },
        ],
        user: 'me@x',
        database: 'mail',
        sslMode: 'verify-full',
        rootCertificate: '/ca.pem',
      },
    );
    const { hosts, sslMode } = readPostgresUrl('postgresql://me@/mail?host=/run/pgsql');
    assert.deepEqual([hosts, sslMode], [[{ host: '/run/pgsql', port: 5432 }], 'prefer']);
  });

  const faults: Record<string, RegExp> = {
    'postgres://me:secret@db/mail': /storage\.passwordFile/,
    'postgres://me:se@cr/et@db/mail': /storage\.passwordFile/,
    'postgres://me:se/c?ret=1@db/mail': /storage\.passwordFile/,
    'postgres://db/mail': /a user/,
    'postgres://me@db/': /a database/,
    'postgres://me@db': /must be postgres:/,
    'postgres://me@/mail': /a host/,
    'postgres://me@db/mail?sslmode=maybe': /must be one of disable, prefer/,
    'postgres://me@db/mail?target_session_attrs=any': /is not known/,
    'mysql://me@db/mail': /must be postgres:/,
  };
  for (const [url, fault] of Object.entries(faults))
    it(`refuses ${url}`, () => {
      assert.match(postgresUrlFault(url) ?? '', fault);
    });

  it('knows its kind of URL', () => {
    assert.deepEqual(['postgres://a@b/c', 'postgresql://a@b/c', 'sqlite:/x'].map(isPostgresUrl), [true, true, false]);
  });
});
