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
});
