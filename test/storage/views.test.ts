import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import knexPackage, { type Knex } from 'knex';
import { dialectFor } from '../../src/storage/sql.ts';
import { renewViews, views, viewStatement, withoutViews } from '../../src/storage/views.ts';
import { startTestApp } from '../support/harness/app.ts';
import { isOnPostgres, urlOfFolder } from '../support/harness/postgres.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

describe('storage/views', () => {
  let temp: TempDatabase;
  let knex: Knex;
  beforeEach(async () => {
    temp = await openTempDatabase('sqlite');
    knex = knexPackage({
      client: 'sqlite3',
      connection: { filename: `${temp.folder}/posthorn.db` },
      useNullAsDefault: true,
    });
  });
  afterEach(async () => {
    await knex.destroy();
    await temp.close();
  });
  const made = async (): Promise<Record<string, string>> =>
    Object.fromEntries(
      ((await knex('sqlite_master').where({ type: 'view' })) as { name: string; sql: string }[]).map((row) => [
        row.name,
        row.sql,
      ]),
    );
  const wanted = Object.fromEntries(views.map((view) => [view.name, viewStatement(view, dialectFor('sqlite'))]));

  it('are all there in a new database, with their comments', async () => {
    assert.deepEqual(await made(), wanted);
    assert.match(wanted['v_messages'] ?? '', / AS from_address, -- sender$/m);
  });
  it('are made anew where they are missing or another version made them, and left alone otherwise', async () => {
    const version = async (): Promise<unknown> => (await knex.raw('PRAGMA schema_version')) as unknown;
    const before = await version();
    await renewViews(knex);
    assert.deepEqual(await version(), before);
    await knex.raw('DROP VIEW v_audit');
    await knex.raw('DROP VIEW v_lanes');
    await knex.raw('CREATE VIEW v_lanes AS SELECT 1 AS domain');
    await knex.raw('CREATE VIEW mine AS SELECT 1 AS one');
    await renewViews(knex);
    assert.deepEqual(await made(), { ...wanted, mine: 'CREATE VIEW mine AS SELECT 1 AS one' });
  });
  it('do not stand in the way of a migration that rebuilds a table, as they would', async () => {
    const rebuild = (): Promise<void> =>
      knex.transaction(async (tx) => {
        await tx.raw('CREATE TABLE messages_new AS SELECT * FROM messages');
        await tx.raw('DROP TABLE messages');
        await tx.raw('ALTER TABLE messages_new RENAME TO messages');
      });
    await assert.rejects(rebuild(), /error in view v_messages/);
    await withoutViews(knex, rebuild);
    assert.deepEqual(await made(), wanted);
    assert.deepEqual(await knex('v_messages'), []);
  });

  it('cannot be written to', async () => {
    await assert.rejects(knex('v_messages').insert({ id: 'x' }), /cannot modify v_messages because it is a view/);
  });
});

describe('the views of a running server', () => {
  it('show what happened, to sqlite3 -readonly and to psql', async function () {
    if (!isOnPostgres && spawnSync('sqlite3', ['--version']).status !== 0)
      this.skip('sqlite3 is not installed (apt-get install sqlite3)');
    const test = await startTestApp();
    const command = (sql: string): [string, string[]] =>
      isOnPostgres
        ? ['psql', [urlOfFolder(test.folder), '-qAtc', `SELECT json_agg(row_to_json(asked)) FROM (${sql}) AS asked`]]
        : ['sqlite3', ['-readonly', '-json', `${test.folder}/posthorn.db`, sql]];
    const ask = <Row>(sql: string): Row[] => {
      const { stdout, stderr } = spawnSync(...command(sql), { encoding: 'utf8' });
      assert.equal(stderr, '');
      return stdout.trim() === '' ? [] : (JSON.parse(stdout) as Row[]);
    };
    const { id } = await test.send({ to: 'bounced@simulator.posthorn.test', tags: ['first'] });
    await test.send({ to: 'ana@later.test', send_at: new Date(test.clock.now() + 60_000).toISOString() });
    await test.follow().of(id, 'bounced');
    await test.settled();
    const at = '2026-01-31T09:30:00.000Z';
    assert.deepEqual(
      ask(`SELECT id, account, created_at, status, tags, last_event FROM v_messages WHERE id = '${id}'`),
      [{ id, account: 'default', created_at: at, status: 'bounced', tags: '["first"]', last_event: 'bounced' }],
    );
    const [recipient] = ask<Record<string, unknown>>(`SELECT * FROM v_recipients WHERE message_id = '${id}'`);
    assert.equal(recipient?.['address'], 'bounced@simulator.posthorn.test');
    assert.deepEqual([recipient['attempts'], recipient['trying'], recipient['next_attempt_at']], [1, 0, null]);
    assert.deepEqual(ask('SELECT domain, waiting, due, oldest_due_at FROM v_lanes'), [
      { domain: 'later.test', waiting: 1, due: 1, oldest_due_at: '2026-01-31T09:31:00.000Z' },
    ]);
    const [attempt] = ask<Record<string, unknown>>(`SELECT * FROM v_attempts WHERE message_id = '${id}'`);
    assert.deepEqual([attempt?.['number'], attempt?.['outcome'], attempt?.['started_at']], [1, 'refused', at]);
    assert.deepEqual(
      ask<{ type: string }>(`SELECT type, at FROM v_events WHERE message_id = '${id}' ORDER BY sequence`),
      [
        { type: 'sent', at },
        { type: 'bounced', at },
      ],
    );
    const [line] = ask<Record<string, unknown>>("SELECT * FROM v_audit WHERE endpoint = '/v1/messages' LIMIT 1");
    assert.deepEqual([line?.['actor'], line?.['account'], line?.['status']], ['key:journey', 'default', 202]);
    await test.stop();
  });
});
