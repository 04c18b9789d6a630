/** Everything is moved from SQLite to PostgreSQL, or nothing is. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import path from 'node:path';
import type { Knex } from 'knex';
import { createBackup } from '../../src/backup/create.ts';
import { moveStorage, type Moved } from '../../src/backup/move.ts';
import { systemClock } from '../../src/base/clock.ts';
import { openKeyring } from '../../src/base/keyring.ts';
import { tablesIn } from '../../src/storage/postgres/fill.ts';
import { DatabaseRefusal } from '../../src/storage/mark.ts';
import { connect, durable, openDatabase, openReader } from '../../src/storage/database.ts';
import { lockFolder } from '../../src/storage/folder-lock.ts';
import { addressOf } from '../../src/storage/postgres/connection.ts';
import { createPool } from '../../src/storage/postgres/open.ts';
import { OWN_TABLES, isParted, PART } from '../../src/storage/postgres/own-tables.ts';
import { tables, type TableName } from '../../src/storage/tables.ts';
import { ran } from '../cli/ran.ts';
import { newFolder } from '../support/harness/app.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';
import { fillWithHardRows } from './hard-rows.ts';

describe('backup/move', () => {
  let folder: string;
  let count = 0;

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    await startedCluster();
  });
  beforeEach(() => {
    folder = newFolder();
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  const newFile = (): string => `sqlite:${path.join(folder, `file-${String(++count)}.db`)}`;
  const fileOf = (url: string): string => url.slice('sqlite:'.length);
  const newBase = async (): Promise<string> => urlOf((await startedCluster()).folder, await makeDatabase());
  const move = (from: string, to: string, dataDir = folder): Promise<Moved> =>
    moveStorage({ clock: systemClock }, { from: { url: from }, to: { url: to }, dataDir, progress: () => undefined });

  async function moved(from: string, to: string) {
    const result = await move(from, to);
    assert.ok(result.kind === 'moved', JSON.stringify(result));
    return result;
  }

  async function refused(from: string, to: string, why: string, text: RegExp): Promise<void> {
    const result = await move(from, to);
    assert.ok(result.kind === 'refused', JSON.stringify(result));
    assert.equal(result.why, why);
    assert.match(result.text, text);
  }

  /** Runs statements on a database without the program. */
  async function on<Result>(url: string, use: (db: Knex) => Promise<Result>): Promise<Result> {
    const knex = url.startsWith('sqlite:') ? connect(fileOf(url), 1, durable) : createPool(addressOf({ url }), 1, []);
    try {
      return await use(knex);
    } finally {
      await knex.destroy();
    }
  }

  async function hardFile(options: { withNul?: boolean } = {}): Promise<string> {
    const url = newFile();
    await (await openDatabase({ url })).close();
    await on(url, (db) => fillWithHardRows(db, options));
    return url;
  }

  /** A file with one row. */
  async function smallFile(): Promise<string> {
    const url = newFile();
    const db = await openDatabase({ url });
    await db.commit.transact((tx) => tx.run("INSERT INTO settings (name, value) VALUES ('epoch', '7')"));
    await db.close();
    return url;
  }

  it('knows every table and column of the declarations, and PostgreSQL has the same and no others', async () => {
    const [url, base] = [newFile(), await newBase()];
    await (await openDatabase({ url })).close();
    const db = await openDatabase({ url: base });
    const rows = await db.prepared.all<{ table_name: string; column_name: string }>(
      `SELECT c.table_name, c.column_name FROM information_schema.columns AS c
       JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
       WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'`,
    );
    await db.close();
    const found = await on(url, tablesIn);
    assert.deepEqual(found.map(({ name }) => name).sort(), Object.keys(tables).sort());
    for (const [name, { columns }] of Object.entries(tables)) {
      const there = found.find((one) => one.name === name)?.columns ?? [];
      for (const [column, { kind }] of Object.entries(columns))
        assert.equal(there.find((one) => one.name === column)?.kind, kind, `${name}.${column}`);
      assert.deepEqual(
        rows
          .filter((row) => row.table_name === name)
          .map((row) => row.column_name)
          .sort(),
        [...there.map((one) => one.name), ...(isParted(name as TableName) ? [PART] : [])].sort(),
        name,
      );
    }
    const others = new Set(rows.map((row) => row.table_name).filter((name) => !(name in tables)));
    for (const name of ['migrations', 'migrations_lock', ...OWN_TABLES]) others.delete(name);
    assert.deepEqual([...others], [], 'a table of PostgreSQL alone that a move leaves out');
  });

  it('copies every row of every table, with hard values', async () => {
    const [first, base] = [await hardFile(), await newBase()];
    const { filled } = await moved(first, base);
    assert.ok(filled.tables.every(({ rows }) => rows >= 8));
    assert.ok(filled.replaced > 0, 'a NUL cannot be stored there, and this is said');
    const [before, after] = [
      await on(first, (db) => rowsIn(db, found(first))),
      await on(base, (db) => rowsIn(db, found(first))),
    ];
    for (const [name, rows] of Object.entries(before)) assert.deepEqual(after[name], rows, name);
  });

  const withoutNul = (value: unknown): unknown =>
    typeof value === 'string' ? value.replaceAll('\0', '\uFFFD') : value;
  const found = (url: string) => on(url, tablesIn);
  /** The rows of each table as texts, in one order. */
  async function rowsIn(db: Knex, known: ReturnType<typeof found>): Promise<Record<string, string[]>> {
    const all: Record<string, string[]> = {};
    for (const { name, columns } of await known) {
      const names = columns.map((column) => column.name);
      const rows: Record<string, unknown>[] = await db(name).select(names);
      all[name] = rows.map((row) => JSON.stringify(names.map((column) => withoutNul(row[column])))).sort();
    }
    return all;
  }

  it('reads large tables page by page, by the whole key', async () => {
    const first = newFile();
    const db = await openDatabase({ url: first });
    const rows = Array.from({ length: 3500 }, (_, n) => ({
      account_id: `a${String(n % 3)}`,
      name: 'n',
      value: `v${String(n % 7)}`,
      message_id: `m${String(n)}`,
    }));
    await db.commit.insert({ message_metadata: rows });
    await db.close();
    const base = await newBase();
    await moved(first, base);
    assert.deepEqual(await on(base, (there) => there('message_metadata').countDistinct({ n: ['message_id'] })), [
      { n: 3500 },
    ]);
    const plan = await on(first, (there) =>
      there.raw<{ detail: string }[]>(
        'EXPLAIN QUERY PLAN SELECT name FROM message_metadata WHERE (account_id, name, value, message_id) > (+CAST(? AS TEXT), +CAST(? AS TEXT), +CAST(? AS TEXT), +CAST(? AS TEXT)) ORDER BY account_id, name, value, message_id LIMIT ?',
        ['a', 'n', 'v', 'm', 1000],
      ),
    );
    assert.match(plan[0]?.detail ?? '', /\(\(account_id,name,value,message_id\)>\(\?,\?,\?,\?\)\)/);
  });

  it('leaves the target as the program makes it: indexes, views, numbers that go on', async () => {
    const [first, base] = [await hardFile({ withNul: false }), await newBase()];
    await moved(first, base);
    const db = await openDatabase({ url: base });
    const next = await db.commit.transact((tx) =>
      tx.all<{ sequence: number }>(
        `INSERT INTO events (id, account_id, type, at, test, message_id, delivery_id, status, machine, detail_json)
         VALUES ('new', 'a', 'sent', 1, 0, 'm', 'd', 'queued', 0, '{}') RETURNING sequence`,
      ),
    );
    assert.equal(next[0]?.sequence, 72, 'the number of a row that is gone is not given again');
    const fresh = await openDatabase({ url: await newBase() });
    const indexes =
      "SELECT indexname, replace(indexdef, 'public.', '') AS indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY indexname";
    assert.deepEqual(await db.prepared.all(indexes), await fresh.prepared.all(indexes));
    await fresh.close();
    await db.close();
  });

  it('a moved database is not opened any more, and says where it went', async () => {
    const [first, base] = [await smallFile(), await newBase()];
    await moved(first, base);
    await assert.rejects(
      openDatabase({ url: first }),
      /^DatabaseRefusal: the database was moved to postgres:\/\/.* on \d{4}-\d\d-\d\d: set storage\.url to that$/,
    );
    await assert.rejects(openReader({ url: first }), /was moved to postgres/);
    const options = { dataDir: folder, dir: path.join(folder, 'b'), minFreeBytes: 0, keep: 1, passphrase: null };
    await assert.rejects(
      createBackup(
        { clock: systemClock, version: '1' },
        { ...options, kind: 'posthorn' as const, storage: { url: first } },
      ),
      /was moved to postgres/,
    );
    // A second move from there would make a second copy that goes on.
    await refused(first, await newBase(), 'marked', /was moved to postgres/);
    await refused(first, base, 'marked', /was moved to postgres/);
  });

  it('killed in the middle, it leaves the source as it was and nothing in the target, and can be begun again', async () => {
    const [from, to] = [await hardFile(), await newBase()];
    const child = spawnSync(
      process.execPath,
      [
        ...['--import', './test/support/harness/as-esm.mjs', '--import', 'tsx'],
        path.join(import.meta.dirname, 'moving.ts'),
        JSON.stringify({ from, to, dataDir: folder }),
      ],
      { encoding: 'utf8' },
    );
    assert.equal(child.signal, 'SIGKILL', child.stderr);
    await (await openDatabase({ url: from })).close();
    await moved(from, to);
    await (await openDatabase({ url: to })).close();
  });

  it('says that the connection was lost, and can be begun again', async () => {
    const [from, to] = [await hardFile(), await newBase()];
    const cluster = await startedCluster();
    const crashes: Promise<void>[] = [];
    const progress = (done: number, of: number): void => {
      if (done > of / 2 && crashes.length === 0) crashes.push(cluster.crash());
    };
    await assert.rejects(
      moveStorage({ clock: systemClock }, { from: { url: from }, to: { url: to }, dataDir: folder, progress }),
      (error) => error instanceof DatabaseRefusal && error.why === 'unreachable',
    );
    await Promise.all(crashes);
    await moved(from, to);
  });

  describe('is refused, with nothing changed,', () => {
    it('if there is no database', async () => {
      await refused(newFile(), await newBase(), 'no_database', /there is no database/);
      const elsewhere = await move(await smallFile(), await newBase(), path.join(folder, 'none'));
      assert.ok(elsewhere.kind === 'refused', JSON.stringify(elsewhere));
      assert.match(elsewhere.text, /there is no data folder/);
    });

    it('into a target that has rows', async () => {
      const [first, base] = [await smallFile(), await newBase()];
      await moved(await smallFile(), base);
      await refused(first, base, 'not_empty', /has rows already \(settings\)/);
      await (await openDatabase({ url: first })).close();
      await (await openDatabase({ url: base })).close();
    });

    it('while a server or a command uses one side', async () => {
      const [first, base] = [await smallFile(), await newBase()];
      const lock = await lockFolder(folder);
      await refused(first, base, 'in_use', /a server is running/);
      await lock?.release();
      await on(first, async (writer) => {
        await writer.raw('BEGIN IMMEDIATE');
        await refused(first, base, 'in_use', /another program writes to/);
      });
      const db = await openDatabase({ url: base });
      await assert.rejects(move(first, base), /another server or command/);
      await db.close();
    });

    it('with the schema of another version', async () => {
      const [first, base] = [await smallFile(), await newBase()];
      await on(first, (db) => db('migrations').where({ name: '005-exports-and-views' }).update({ name: '999-later' }));
      await refused(first, base, 'schema', /a later version \(999-later\)/);
      await on(first, (db) => db('migrations').where({ name: '999-later' }).delete());
      await refused(first, base, 'schema', /lacks 005-exports-and-views: run posthorn migrate first/);
    });

    const values: readonly (readonly [string, string, RegExp])[] = [
      ['bytes in a text', "INSERT INTO settings (name, value) VALUES ('x', x'00')", /^settings\.value has a value/],
      ['a fraction in an integer', "INSERT INTO list_checks VALUES ('1', 'l', 'clear', 1.5)", /^list_checks\.at has/],
      [
        'an integer beyond 2^53',
        "INSERT INTO list_checks VALUES ('1', 'l', 'clear', 9007199254740993)",
        /^list_checks\.at has a value .* beyond 2\^53/,
      ],
      ['a table of somebody else', 'CREATE TABLE mine (id TEXT PRIMARY KEY)', /mine is none of Posthorn/],
    ];
    for (const [what, sql, text] of values)
      it(`with ${what}`, async () => {
        const [first, base] = [await smallFile(), await newBase()];
        await on(first, (db) => db.raw(sql));
        await refused(first, base, 'data', text);
        await moved(await smallFile(), base);
        await (await openDatabase({ url: first })).close();
      });
  });

  it('posthorn storage move: JSON, lines, exit codes', async () => {
    const [first, base] = [await smallFile(), await newBase()];
    openKeyring(folder);
    const env = { POSTHORN_DATA_DIR: folder, POSTHORN_STORAGE__URL: first };
    assert.equal((await ran(['storage', 'move'], env)).code, 64);
    for (const wrong of ['posthorn.db', 'postgres://user:secret@host/db', 'postgres://host/db', 'mysql://a@b/c', first])
      assert.equal((await ran(['storage', 'move', '--to', wrong], env)).code, 65, wrong);
    const noFile = await ran(['storage', 'move', '--to', base, '--password-file', '/none/password'], env);
    assert.deepEqual([noFile.code, noFile.notes.includes('there is no file /none/password')], [66, true]);
    const { code, out, notes } = await ran(['storage', 'move', '--to', base, '--json'], env);
    assert.equal(code, 0, notes);
    const result = JSON.parse(out) as { ok: boolean; rows: number; tables: { table: string; rows: number }[] };
    assert.deepEqual([result.ok, result.rows], [true, 1]);
    assert.deepEqual(result.tables.map(({ table }) => table).sort(), Object.keys(tables).sort());
    const again = await ran(['storage', 'move', '--to', base], env);
    assert.equal(again.code, 78);
    assert.match(again.notes, /was moved to postgres/);
    const back = await ran(['storage', 'move', '--to', base], { ...env, POSTHORN_STORAGE__URL: base });
    assert.deepEqual([back.code, back.notes.includes('a PostgreSQL database already')], [64, true], back.notes);
    const told = await ran(['storage', 'move', '--to', await newBase()], {
      ...env,
      POSTHORN_STORAGE__URL: await smallFile(),
    });
    assert.match(told.out, /^settings: 1 row\nmoved 1 rows in \d+ s; rows and books are equal/m);
    // The move is a line of the audit where the rows went.
    const audit = await ran(['audit', '--server', '--json'], { ...env, POSTHORN_STORAGE__URL: base });
    assert.match(audit.out, /"moved the database to postgres:[^" ]*"/, audit.notes);
  });

  it('posthorn backup says that PostgreSQL has its own', async () => {
    const env = { POSTHORN_DATA_DIR: folder, POSTHORN_STORAGE__URL: await newBase() };
    for (const args of [['create'], ['verify', 'x'], ['restore', 'x']]) {
      const { code, out, notes } = await ran(['backup', ...args, '--json'], env);
      assert.deepEqual([code, notes.includes('pg_dump and pg_restore')], [64, true], notes);
      assert.equal((JSON.parse(out) as { why: string }).why, 'postgres');
    }
  });
});
