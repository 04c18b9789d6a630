/** A whole database on PostgreSQL: its tables are those of the declarations, and it takes what SQLite takes. */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { openDatabase, openReader, type Database } from '../../../src/storage/database.ts';
import { DatabaseRefusal } from '../../../src/storage/mark.ts';
import type { Declared } from '../../../src/storage/table.ts';
import { tables } from '../../../src/storage/tables.ts';
import { views } from '../../../src/storage/views.ts';
import { asPostgres, makeDatabase, postgresPrograms, startedCluster, urlOf } from '../../support/harness/postgres.ts';

const PGBOUNCER = '/usr/sbin/pgbouncer';

describe('storage/postgres/open', () => {
  let db: Database;
  let url: string;

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    url = urlOf(folder, await makeDatabase());
    db = await openDatabase({ url });
  });
  after(async () => {
    if (postgresPrograms() !== null) await db.close();
  });

  it('has every table with its columns, numbers as bigint and texts compared byte by byte', async () => {
    const rows = await db.prepared.all<{
      table_name: string;
      column_name: string;
      data_type: string;
      is_nullable: number;
    }>(
      `SELECT table_name, column_name, data_type, CASE is_nullable WHEN 'YES' THEN 1 ELSE 0 END AS is_nullable
       FROM information_schema.columns WHERE table_schema = current_schema()`,
    );
    const types = { text: 'text', integer: 'bigint', real: 'double precision', bytes: 'bytea' };
    for (const [name, { columns }] of Object.entries(tables))
      for (const [column, { kind, isNullable }] of Object.entries<Declared[string]>(columns)) {
        const found = rows.find((row) => row.table_name === name && row.column_name === column);
        assert.ok(found, `${name}.${column} is missing`);
        assert.equal(found.data_type, types[kind], `${name}.${column}`);
        assert.ok(!isNullable || found.is_nullable === 1, `${name}.${column} must take null`);
      }
    const [row] = await db.prepared.all<{ n: number }>(
      `SELECT COUNT(*) AS n FROM information_schema.columns WHERE table_schema = current_schema()
         AND data_type = 'text' AND table_name NOT LIKE 'v\\_%' AND table_name NOT LIKE 'migrations%' AND collation_name IS DISTINCT FROM 'C'`,
    );
    assert.equal(row?.n, 0);
  });

  it('has the events of an account and type in the order of their numbers, also in a database that was made before', async () => {
    const { folder } = await startedCluster();
    const older = urlOf(folder, await makeDatabase());
    await (await openDatabase({ url: older })).close();
    const client = new pg.Client({ connectionString: older });
    await client.connect();
    await client.query('DROP INDEX events_by_account');
    await client.query('CREATE INDEX events_by_account ON events (account_id, test, type)');
    for (let opened = 0; opened < 2; opened++) {
      await (await openDatabase({ url: older })).close();
      const { rows } = await client.query<{ def: string }>(
        "SELECT indexdef AS def FROM pg_indexes WHERE indexname = 'events_by_account'",
      );
      assert.deepEqual(
        rows.map(({ def }) => /\(.*\)/.exec(def)?.[0]),
        ['(account_id, test, type, sequence)'],
      );
    }
    await client.end();
  });

  it('has the views, which can be read', async () => {
    for (const { name } of views) assert.deepEqual(await db.reader.raw(`SELECT * FROM ${name}`), []);
  });

  it('says what is missing to a reader, and lets it write nothing', async () => {
    const { reader, waiting, close } = await openReader({ url });
    assert.deepEqual(waiting, []);
    await assert.rejects(reader('settings').insert({ name: 'x', value: '1' }), /read-only transaction/);
    await close();
  });

  it('keeps its sessions, and the limits that it sets itself, whatever an administrator has set for those of others', async () => {
    const { folder } = await startedCluster();
    const name = await makeDatabase();
    const client = new pg.Client({ connectionString: urlOf(folder, name) });
    await client.connect();
    const limits = ['idle_session', 'idle_in_transaction_session', 'lock', 'statement'].map((one) => `${one}_timeout`);
    for (const limit of limits) await client.query(`ALTER DATABASE ${name} SET ${limit} = '700ms'`);
    await client.query(`ALTER DATABASE ${name} SET default_transaction_isolation = 'serializable'`);
    await client.end();
    const limited = await openDatabase({ url: urlOf(folder, name) });
    const settings = `SELECT name, setting FROM pg_settings WHERE name LIKE '%\\_timeout' AND name = ANY ('{${limits.join()}}')
      OR name = 'transaction_isolation'`;
    const read = async (rows: Promise<unknown>): Promise<unknown> =>
      Object.fromEntries(((await rows) as { name: string; setting: string }[]).map((row) => [row.name, row.setting]));
    const own = { idle_session_timeout: '0', idle_in_transaction_session_timeout: '0', lock_timeout: '0' };
    const reading = {
      ...own,
      lock_timeout: '3000',
      statement_timeout: '30000',
      transaction_isolation: 'repeatable read',
    };
    assert.deepEqual(await read(limited.prepared.all(settings)), reading);
    assert.deepEqual(await read(limited.reader.raw(settings)), reading);
    const writing = { ...own, statement_timeout: '0', idle_in_transaction_session_timeout: '5000' };
    assert.deepEqual(await limited.commit.transact((tx) => read(tx.all(settings))), {
      ...writing,
      transaction_isolation: 'serializable',
    });
    await limited.close();
  });

  it('says which setting is missing where the server asks for a password and there is none', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'ph-asking-'));
    // AuthenticationSASL with one mechanism.
    const question = Buffer.from('R\0\0\0\0\0\0\0\nSCRAM-SHA-256\0\0', 'latin1');
    question.writeInt32BE(question.length - 1, 1);
    // AuthenticationSASLContinue, whose contents the driver does not come to.
    const more = Buffer.from('R\0\0\0\0\0\0\0\vr=x,s=eA==,i=4096', 'latin1');
    more.writeInt32BE(more.length - 1, 1);
    const clients: net.Socket[] = [];
    const asking = net.createServer((client) => {
      clients.push(client);
      client.on('error', () => undefined);
      client.once('data', () => {
        client.write(question);
        client.once('data', () => client.write(more));
      });
    });
    await new Promise<void>((resolve) => asking.listen(path.join(folder, '.s.PGSQL.5432'), resolve));
    const refusal = {
      name: 'DatabaseRefusal',
      why: 'unsuitable',
      message: /^storage\.password: the database asks for one/,
    };
    await assert.rejects(openDatabase({ url: urlOf(folder, 'x') }), refusal);
    for (const client of clients) client.destroy();
    await new Promise((resolve) => asking.close(resolve));
    rmSync(folder, { recursive: true });
  });

  it('says which right its user lacks', async () => {
    const { folder } = await startedCluster();
    const name = await makeDatabase();
    const client = new pg.Client({ connectionString: urlOf(folder, name) });
    await client.connect();
    await client.query('CREATE ROLE stranger LOGIN');
    const refusal = async (): Promise<unknown> =>
      openDatabase({ url: `postgres://stranger@/${name}?host=${folder}` }).then(
        (opened) => opened.close(),
        (error: unknown) =>
          error instanceof DatabaseRefusal
            ? [error.why, /lacks a right in the database: ([^;]*);/.exec(error.message)?.[1]]
            : error,
      );
    assert.deepEqual(await refusal(), ['unsuitable', 'permission denied for schema public']);
    await client.query(`ALTER DATABASE ${name} SET search_path = nowhere`);
    assert.deepEqual(await refusal(), ['unsuitable', 'no schema has been selected to create in']);
    await client.query(`ALTER DATABASE ${name} RESET search_path`);
    // As a restore by another user leaves them.
    await (await openDatabase({ url: urlOf(folder, name) })).close();
    await client.query('GRANT CREATE ON SCHEMA public TO stranger');
    assert.deepEqual(await refusal(), ['unsuitable', 'permission denied for table event_turn']);
    await client.query(`DROP OWNED BY stranger`);
    await client.query(`DROP ROLE stranger`);
    await client.end();
  });

  it('says that it gets too few connections', async () => {
    const { folder } = await startedCluster();
    const name = await makeDatabase();
    const client = new pg.Client({ connectionString: urlOf(folder, name) });
    await client.connect();
    await client.query('CREATE ROLE few LOGIN CONNECTION LIMIT 3');
    await client.query(`ALTER DATABASE ${name} OWNER TO few`);
    await assert.rejects(openDatabase({ url: `postgres://few@/${name}?host=${folder}` }), {
      name: 'DatabaseRefusal',
      why: 'unreachable',
      message: 'the database cannot be reached: too many connections for role "few"',
    });
    await client.end();
  });

  it('stores a text with a NUL and one with half a character, with marks in their place', async () => {
    await db.commit.insert({ settings: [{ name: 'odd\ud800', value: 'a\0b' }] });
    const [row] = (await db.reader('settings').where('value', 'like', 'a%b')) as unknown[];
    assert.deepEqual(row, { name: 'odd\ufffd', value: 'a\ufffdb' });
    assert.deepEqual(await db.reader('settings').where({ name: 'a\0' }), []);
  });

  it('undoes a group of which one unit fails, and writes the others', async () => {
    const one = db.commit.insert({ settings: [{ name: 'once', value: '1' }] });
    const others = [1, 2].map((n) => db.commit.insert({ settings: [{ name: 'twice', value: String(n) }] }));
    const last = db.commit.insert({ settings: [{ name: 'last', value: '1' }] });
    const ended = await Promise.allSettled([one, ...others, last]);
    assert.deepEqual(
      ended.map(({ status }) => status),
      ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
    );
    const rows = (await db.reader('settings').whereIn('name', ['once', 'twice', 'last']).orderBy('name')) as unknown[];
    assert.deepEqual(rows, [
      { name: 'last', value: '1' },
      { name: 'once', value: '1' },
      { name: 'twice', value: '1' },
    ]);
  });

  it('says the cause of a failed transaction, not that later statements were refused', async () => {
    await assert.rejects(
      db.commit.transact(async (tx) => {
        await Promise.all([tx.run('SELECT 1 / 0'), tx.run('SELECT 1'), tx.run('SELECT 2')]);
      }),
      /division by zero/,
    );
  });

  it('is not opened where commits are not durable', async () => {
    const { folder } = await startedCluster();
    const name = await makeDatabase();
    await db.commit.transact((tx) => tx.run('SELECT 1'));
    const made = await openDatabase({ url: urlOf(folder, name) });
    await made.commit.transact((tx) => tx.run(`ALTER DATABASE ${name} SET synchronous_commit = off`));
    await made.close();
    await assert.rejects(openDatabase({ url: urlOf(folder, name) }), /synchronous_commit is off/);
  });

  describe('through PgBouncer', () => {
    let own = '';
    let bouncer: ChildProcess | null = null;
    let hosts: string;

    before(async function () {
      if (!existsSync(PGBOUNCER)) return this.skip('PgBouncer is not installed (apt-get install pgbouncer)');
      hosts = (await startedCluster()).folder;
      own = mkdtempSync(path.join(tmpdir(), 'ph-pooler-'));
      chmodSync(own, 0o777);
    });
    afterEach(async () => {
      if (bouncer === null) return;
      const ended = once(bouncer, 'exit');
      bouncer.kill('SIGTERM');
      await ended;
      bouncer = null;
    });
    after(() => {
      if (own !== '') rmSync(own, { recursive: true });
    });

    /** Starts it with the pool mode and so many sessions; returns the URL of a new database behind it. */
    async function pooled(mode: string, sessions: number): Promise<string> {
      const file = path.join(own, 'pgbouncer.ini');
      const settings = { pool_mode: mode, default_pool_size: sessions, auth_type: 'any', unix_socket_dir: own };
      const lines = Object.entries(settings).map(([name, value]) => `${name} = ${String(value)}`);
      const target = `* = host=${hosts} user=posthorn`;
      writeFileSync(file, ['[databases]', target, '[pgbouncer]', 'listen_port = 5432', ...lines, ''].join('\n'));
      const [command, args] = asPostgres(PGBOUNCER, ['-q', file]);
      bouncer = spawn(command, args, { stdio: 'ignore' });
      const socket = path.join(own, '.s.PGSQL.5432');
      while (!existsSync(socket)) await new Promise((resolve) => setTimeout(resolve, 20));
      return urlOf(own, await makeDatabase());
    }

    it('is opened where each client has a session of its own', async () => {
      const opened = await openDatabase({ url: await pooled('session', 12) });
      await opened.commit.transact((tx) => tx.run("INSERT INTO settings (name, value) VALUES ('x', '1')"));
      assert.deepEqual(await opened.prepared.all("SELECT value FROM settings WHERE name = 'x'"), [{ value: '1' }]);
      await opened.close();
    });

    for (const mode of ['transaction', 'statement'])
      it(`is not opened where clients share sessions (${mode})`, async () => {
        const url = await pooled(mode, 12);
        const refusal = { why: 'unsuitable', message: /to several clients: set pool_mode = session/ };
        await assert.rejects(openDatabase({ url }), refusal);
        await assert.rejects(openReader({ url }), refusal);
      });
  });

  it('gives no number of an event again where a lost connection leads to a standby that lacks the last ones', async () => {
    const { folder } = await startedCluster();
    const lagging = urlOf(folder, await makeDatabase());
    const opened = await openDatabase({ url: lagging });
    const client = new pg.Client({ connectionString: lagging });
    await client.connect();
    const sequence = "pg_get_serial_sequence('events', 'sequence')";
    await client.query(`SELECT setval(${sequence}, 7)`);
    await client.query(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
    await opened.commit.transact((tx) => tx.run('SELECT 1'));
    const { rows } = await client.query<{ last: string }>(`SELECT pg_sequence_last_value(${sequence}) AS last`);
    assert.deepEqual(rows, [{ last: '50000' }]);
    await client.end();
    await opened.close();
  });

  it('says that it cannot be reached', async () => {
    await assert.rejects(openDatabase({ url: urlOf('/nowhere', 'x') }), {
      why: 'unreachable',
      message: /^the database cannot be reached: .*ENOENT/,
    });
    await assert.rejects(openDatabase({ url: 'postgres://me@/x?host=/nowhere,/elsewhere' }), {
      why: 'unreachable',
      message: /no server of storage\.url takes writes: \/nowhere: .*; \/elsewhere: /,
    });
  });
});
