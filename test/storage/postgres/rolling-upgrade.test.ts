/** A new version starts while servers of the one before run: which migrations it takes beside them. */
import assert from 'node:assert/strict';
import { migrations, UnsupportedSchema, type Migration } from '../../../src/storage/migrate.ts';
import { openDatabase, type Database } from '../../../src/storage/database.ts';
import {
  addressOf,
  connectTo,
  createPostgresConnection,
  type PostgresConnection,
} from '../../../src/storage/postgres/connection.ts';
import { prepareSchema } from '../../../src/storage/postgres/open.ts';
import { NODE_TABLES } from '../../../src/storage/postgres/own-tables.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../../support/harness/postgres.ts';

describe('storage/postgres: a rolling upgrade', () => {
  const column: Migration = {
    name: '900-column',
    up: (knex) => knex.raw("ALTER TABLE settings ADD COLUMN note TEXT NOT NULL DEFAULT ''"),
  };
  const noColumn: Migration = {
    name: '901-no-column',
    contracts: true,
    up: (knex) => knex.raw('ALTER TABLE settings DROP COLUMN note'),
  };
  let url: string;
  let connection: PostgresConnection;
  let old: Database | null = null;

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    url = urlOf(folder, await makeDatabase());
    connection = createPostgresConnection(() => connectTo(addressOf({ url }), { setUp: [] }), { reconnects: true });
  });
  after(async () => {
    if (postgresPrograms() === null) return;
    await old?.close();
    await connection.close();
  });

  const upgrade = (...further: Migration[]): Promise<string[]> =>
    prepareSchema(addressOf({ url }), connection, { list: [...migrations, ...further] });
  const write = async (db: Database, name: string): Promise<void> => {
    await db.commit.insert({ settings: [{ name, value: '1' }] });
  };

  it('takes a step that expands while an older server runs, which works on', async () => {
    old = await openDatabase({ url, node: { name: 'old', version: '1.0', facts: '{}' } });
    await write(old, 'before');
    assert.deepEqual(await upgrade(column), ['900-column']);
    await write(old, 'after');
    assert.deepEqual(
      await connection.all("SELECT name, note FROM settings WHERE name IN ('before', 'after') ORDER BY 1"),
      [
        { name: 'after', note: '' },
        { name: 'before', note: '' },
      ],
    );
  });

  it('refuses a step that contracts, names the servers to end, and takes no step', async () => {
    const further: Migration = { name: '902-further', up: (knex) => knex.raw('CREATE TABLE further (id TEXT)') };
    await assert.rejects(upgrade(column, noColumn, further), (error: Error) => {
      assert.ok(error instanceof UnsupportedSchema);
      assert.match(error.message, /needs 901-no-column.*end old \(1\.0\) first \(posthorn nodes list\)/);
      return true;
    });
    assert.deepEqual(await connection.all("SELECT to_regclass('further') AS further"), [{ further: null }]);
    assert.deepEqual(await connection.all("SELECT COUNT(note) AS notes FROM settings WHERE name = 'before'"), [
      { notes: 1 },
    ]);
  });

  it('takes it when the older servers have ended', async () => {
    await old?.close();
    old = null;
    assert.deepEqual(await upgrade(column, noColumn), ['901-no-column']);
  });

  it('lets no older server start on the newer schema', async () => {
    await assert.rejects(
      openDatabase({ url, node: { name: 'old', version: '1.0', facts: '{}' } }),
      /was changed by a later version \(900-column, 901-no-column\)/,
    );
  });

  it('keeps the rows of tables that a step replaces, and of those that lose columns', async () => {
    const { folder } = await startedCluster();
    const address = addressOf({ url: urlOf(folder, await makeDatabase()) });
    const db = createPostgresConnection(() => connectTo(address, { setUp: [] }), { reconnects: true });
    try {
      const before = migrations.findIndex(({ name }) => name === '016-nodes-by-signs-of-life');
      for (const sql of NODE_TABLES) await db.run(sql);
      await prepareSchema(address, db, { list: migrations.slice(0, before) });
      for (const sql of [
        ...['machine', 'pid', 'process'].map((column) => `ALTER TABLE nodes ADD COLUMN ${column} TEXT`),
        "INSERT INTO nodes (epoch, name, version, facts, is_command, pid) VALUES (7, 'a', '1', '{}', true, '42')",
        `INSERT INTO warm_up (source, site, day, stage, sent, blocked, deferred, complained)
         SELECT 'out' || n, 'mx' || n || '.test', '2026-11-0' || n, n, 5000000000 + n, 1, 2, 3 FROM generate_series(1, 3) AS n`,
        "INSERT INTO accounts (id, name, plan, created_at) VALUES ('acc', 'A', 'unlimited', 1)",
        ...['NULL', '9'].map(
          (found, n) =>
            `INSERT INTO domains (id, account_id, name, status, trusted, return_path, records_json, created_at, failing_since, refused_at, found_again_at)
             VALUES ('dom${String(n)}', 'acc', 'd${String(n)}.test', 'verified', 0, '', '[]', 1, 5, 6, ${found})`,
        ),
      ])
        await db.run(sql);
      assert.deepEqual(
        await prepareSchema(address, db, { list: [...migrations] }),
        migrations.slice(before).map(({ name }) => name),
      );
      assert.deepEqual(await db.all('SELECT * FROM limit_counts WHERE stage = 2'), [
        {
          ...{ rule: '~warm-up', subject: 'out2 mx2.test', span: '2026-11-02', stage: 2 },
          ...{ sent: 5_000_000_002, blocked: 1, deferred: 2, complained: 3 },
        },
      ]);
      assert.deepEqual(await db.all('SELECT COUNT(*) AS n FROM limit_counts'), [{ n: 3 }]);
      assert.deepEqual(await db.all('SELECT id, failing_since, refused_at FROM domains ORDER BY id'), [
        { id: 'dom0', failing_since: 5, refused_at: 6 },
        { id: 'dom1', failing_since: null, refused_at: null },
      ]);
      assert.deepEqual(await db.all('SELECT epoch, name FROM nodes'), [{ epoch: 7, name: 'a' }]);
    } finally {
      await db.close();
    }
  });
});
