/** The queries in docs/database.md give the same on SQLite and on PostgreSQL, and psql shows them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { moveStorage } from '../../src/backup/move.ts';
import { systemClock } from '../../src/base/clock.ts';
import { openStill } from '../../src/storage/database.ts';
import { openReader } from '../../src/storage/database.ts';
import { newFolder, startTestApp } from '../support/harness/app.ts';
import { isOnPostgres, makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';

const manual = readFileSync(path.resolve(import.meta.dirname, '../../docs/database.md'), 'utf8');
const queries = [...manual.matchAll(/^sqlite3 .*?"(SELECT [^"]+)"$/gm)].map(([, sql = '']) => sql);

describe('docs/database.md on both engines', () => {
  before(function () {
    if (isOnPostgres) return this.skip('this compares both engines by itself');
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
  });

  it('has example queries that give the same rows on both', async () => {
    assert.ok(queries.length >= 4);
    const folder = newFolder();
    const app = await startTestApp({ folder });
    const { id } = await app.send({ to: 'bounced@simulator.posthorn.test' });
    await app.send({ to: 'ana@later.test', send_at: new Date(app.clock.now() + 60_000).toISOString() });
    await app.follow().of(id, 'bounced');
    await app.settled();
    await app.stop();
    const { folder: sockets } = await startedCluster();
    const base = await makeDatabase();
    const url = urlOf(sockets, base);
    const file = path.join(folder, 'posthorn.db');
    const moved = await moveStorage(
      { clock: systemClock },
      { from: { url: `sqlite:${file}` }, to: { url }, dataDir: folder, progress: () => undefined },
    );
    assert.equal(moved.kind, 'moved', JSON.stringify(moved));
    const [still, there] = [openStill(file), await openReader({ url })];
    try {
      for (const query of queries) {
        const sql = query.replace('$MESSAGE_ID', id);
        const expected = await still.raw<object[]>(sql);
        assert.ok(expected.length > 0, sql);
        const inOrder = (rows: object[]): string[] => rows.map((row) => JSON.stringify(row)).sort();
        assert.deepEqual(inOrder(await there.reader.raw<object[]>(sql)), inOrder(expected), sql);
        const shown = spawnSync(
          path.join(postgresPrograms() ?? '', 'psql'),
          ['-h', sockets, '-U', 'posthorn', '-At', '-v', 'ON_ERROR_STOP=1', '-c', sql, base],
          { encoding: 'utf8' },
        );
        assert.equal(shown.stderr, '');
        assert.equal(shown.stdout.trim().split('\n').length, expected.length, sql);
      }
    } finally {
      await still.destroy();
      await there.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
