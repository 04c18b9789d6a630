/**
 * A server's database moves to PostgreSQL, and from there by pg_dump and pg_restore, as docs/backup.md says, to another one: the queue goes on,
 * keys and event numbers stay, nothing is sent twice.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { moveStorage } from '../../src/backup/move.ts';
import { newFolder, startTestApp, TestClock, zonesFor, type TestApp } from '../support/harness/app.ts';
import { isOnPostgres, makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';

const HOUR = 3_600_000;

describe('journey: storage move', () => {
  let server: FakeMailServer;
  /** Empty if the test is skipped. */
  let folder = '';
  const clock = new TestClock();

  before(async function () {
    if (isOnPostgres) return this.skip('this begins with a file by itself');
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    server = await startMailServer();
    folder = newFolder();
  });
  after(async () => {
    if (folder === '') return;
    await server.close();
    rmSync(folder, { recursive: true });
  });

  const start = (url: string): Promise<TestApp> =>
    startTestApp({
      folder,
      clock,
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { storage: { url } },
    });
  const faultsOf = async (app: TestApp) => (await app.operator.call('books', {})).faults;

  it('with mail that waits, and on by pg_dump, taken while the server runs', async () => {
    const file = `sqlite:${path.join(folder, 'posthorn.db')}`;
    const { folder: sockets } = await startedCluster();
    const [base, other] = [await makeDatabase(), await makeDatabase()];
    const [baseUrl, otherUrl] = [urlOf(sockets, base), urlOf(sockets, other)];
    const run = (program: string, ...args: string[]): Buffer =>
      execFileSync(path.join(postgresPrograms() ?? '', program), ['-h', sockets, '-U', 'posthorn', ...args]);
    const sendAt = (hours: number) => ({ send_at: new Date(clock.now() + hours * HOUR).toISOString() });

    const first = await start(file);
    const sent: string[] = [];
    for (const more of [{}, sendAt(1), sendAt(3)]) sent.push((await first.send({ to: 'bo@dest.test', ...more })).id);
    await first.follow().of(sent[0] ?? '', 'delivered');
    await first.stop();

    const moved = await moveStorage(
      { clock },
      { from: { url: file }, to: { url: baseUrl }, dataDir: folder, progress: () => undefined },
    );
    assert.equal(moved.kind, 'moved', JSON.stringify(moved));
    await assert.rejects(start(file), /was moved to postgres/);
    const second = await start(baseUrl);
    clock.advance(HOUR);
    await second.follow().of(sent[1] ?? '', 'delivered');
    assert.equal((await second.message(sent[0] ?? '')).status, 'delivered');
    sent.push((await second.send({ to: 'new@dest.test' })).id);
    await second.follow().of(sent[3] ?? '', 'delivered');
    assert.deepEqual(await faultsOf(second), []);
    await second.settled();
    const dump = path.join(folder, 'posthorn.dump');
    run('pg_dump', '--format=custom', `--file=${dump}`, base);
    await second.stop();

    run('pg_restore', '--no-owner', '--exit-on-error', `--dbname=${other}`, dump);
    const third = await start(otherUrl);
    clock.advance(3 * HOUR);
    const events = await third
      .follow()
      .until((all) => all.some(({ type, data }) => type === 'delivered' && data.message_id === sent[2]));
    const numbers = events.map(({ sequence }) => sequence);
    assert.deepEqual(
      numbers,
      [...new Set(numbers)].sort((a, b) => a - b),
    );
    assert.deepEqual(
      events
        .filter(({ type }) => type === 'delivered')
        .map(({ data }) => data.message_id)
        .sort(),
      [...sent].sort(),
    );
    assert.deepEqual(await faultsOf(third), []);
    await third.stop();
    assert.equal(server.sessions.flatMap(({ mails }) => mails).length, 4, 'each mail arrived once');
  });
});
