import assert from 'node:assert/strict';
import { loadConfig } from '../../../src/config/load.ts';
import { database, storeProbes } from '../../../src/operator/doctor/store.ts';
import { examineFrom } from '../../../src/operator/doctor/doctor.ts';
import { verdictsOf, type Probes } from '../../../src/operator/doctor/probes.ts';
import { openReader } from '../../../src/storage/database.ts';
import { connect, durable, sqliteFile } from '../../../src/storage/database.ts';
import { markMoved } from '../../../src/storage/mark.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../../support/harness/postgres.ts';
import { openTempDatabase } from '../../support/harness/temp-database.ts';

const sound = {
  version: '17.2',
  fsync: 'on',
  isEncrypted: true,
  standbys: 0,
  synchronousStandbys: '',
  oldestSnapshotMs: 0,
};

const look = (url: string, facts: Partial<typeof sound> = {}, trouble: string | null = null) =>
  verdictsOf(
    database({
      config: { storage: { url } },
      store: { kind: 'store', postgres: () => Promise.resolve({ ...sound, ...facts }) },
      server: { kind: 'server', writeTrouble: () => trouble },
    } as unknown as Probes),
  );

describe('operator/doctor: the database', () => {
  const remote = 'postgres://me@db.example/mail?sslmode=verify-full';
  const faults: [what: string, url: string, facts: Partial<typeof sound>, status: string, why: RegExp][] = [
    ['goes unencrypted', remote, { isEncrypted: false }, 'warning', /unencrypted/],
    ['may be another server', 'postgres://me@db.example/mail', {}, 'warning', /certificate .* is not looked at/],
    ['loses commits', remote, { fsync: 'off' }, 'failed', /fsync is off/],
    ['has asynchronous standbys', remote, { standbys: 1 }, 'warning', /failover may lose/],
    [
      'waits for a standby',
      remote,
      { synchronousStandbys: 'b' },
      'failed',
      /^no standby is connected, and commits wait/,
    ],
    ['has an old transaction', remote, { oldestSnapshotMs: 7_300_000 }, 'warning', /open for 2 h/],
  ];
  for (const [what, url, facts, status, why] of faults)
    it(`finds that it ${what}`, async () => {
      const found = await look(url, facts);
      assert.equal(found.length, 1);
      assert.equal(found[0]?.status, status);
      assert.match(found[0].why, why);
      assert.ok(found[0].cure);
    });

  for (const url of [remote, 'sqlite:/var/lib/posthorn/posthorn.db'])
    it(`finds that ${url.split(':')[0] ?? ''} takes no writes`, async () => {
      const [found, ...others] = await look(url, {}, 'could not extend file: No space left on device');
      assert.deepEqual([found?.status, others], ['failed', []]);
      assert.match(found?.why ?? '', /takes no writes, so new mail is refused: .*No space left/);
    });

  it('is content with a sound one, and with one on this machine', async () => {
    assert.deepEqual(await look(remote), [{ status: 'ok', why: 'PostgreSQL 17.2', cure: null }]);
    const [local] = await look('postgres://me@/mail?host=/run/pgsql', { isEncrypted: false });
    assert.equal(local?.status, 'ok');
    assert.equal((await look('sqlite:/x'))[0]?.status, 'ok');
    const synchronous = await look(remote, { standbys: 1, synchronousStandbys: 'ANY 1 (b, c)' });
    assert.equal(synchronous[0]?.status, 'ok');
  });

  it('finds that a file was moved', async () => {
    const { folder, url, close } = await openTempDatabase('sqlite');
    const file = connect(sqliteFile(url), 1, durable);
    await markMoved(file, { url: 'postgres://me@db/mail', at: 0 });
    await file.destroy();
    const env = { POSTHORN_DATA_DIR: folder, POSTHORN_STORAGE__URL: url };
    const around = { cwd: folder, privileged: false, terminal: false, hostname: 'mail.example.net' };
    const found = await examineFrom(loadConfig({ ...around, env }).config, { checks: ['database'] });
    await close();
    assert.equal(found.length, 1);
    assert.equal(found[0]?.status, 'failed');
    assert.match(found[0].why, /was moved to postgres:/);
    assert.match(found[0].cure ?? '', /Set storage\.url to the database/);
  });

  it('finds that PostgreSQL is away, and does not ask for a start of the server', async () => {
    const { folder, close } = await openTempDatabase('sqlite');
    const env = { POSTHORN_DATA_DIR: folder, POSTHORN_STORAGE__URL: `postgres://me@/mail?host=${folder}` };
    const around = { cwd: folder, privileged: false, terminal: false, hostname: 'mail.example.net' };
    const [found] = await examineFrom(loadConfig({ ...around, env }).config, { checks: ['database'] });
    await close();
    assert.equal(found?.status, 'failed');
    assert.match(found.why, /^the database cannot be reached: .*ENOENT/);
    assert.match(found.cure ?? '', /Is the database running where `storage\.url` says/);
  });

  it('reads the facts from a real one', async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    const { reader, close } = await openReader({ url: urlOf(folder, await makeDatabase()) });
    const { version, ...facts } = await storeProbes({ reader }).postgres();
    await close();
    assert.match(version, /^\d+/);
    assert.ok(facts.oldestSnapshotMs < 60_000);
    assert.deepEqual(
      { ...facts, oldestSnapshotMs: 0 },
      { fsync: 'off', isEncrypted: false, standbys: 0, synchronousStandbys: '', oldestSnapshotMs: 0 },
    );
  });
});
