/** Everything is moved from SQLite to PostgreSQL and back, or nothing is. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { moveStorage, type Moved } from '../../../src/backup/move.ts';
import { openKeyring } from '../../../src/base/keyring.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { takeConnection } from '../../../src/storage/connection.ts';
import { openCopySource } from '../../../src/storage/copy.ts';
import { DatabaseRefusal } from '../../../src/storage/database-refusal.ts';
import { connect, durable, openDatabase, openReader } from '../../../src/storage/database.ts';
import { lockFolder } from '../../../src/storage/folder-lock.ts';
import { fillFrom } from '../../../src/storage/move/fill.ts';
import { openPostgresSource, openPostgresTarget, openSnapshot } from '../../../src/storage/move/postgres.ts';
import { createSqliteTarget, openSqliteSource } from '../../../src/storage/move/sqlite.ts';
import { tablesIn } from '../../../src/storage/move/tables.ts';
import { OWN_TABLES } from '../../../src/storage/postgres/own-tables.ts';
import { isParted, PART } from '../../../src/storage/postgres/parts.ts';
import { tables, type TableName } from '../../../src/storage/tables.ts';
import { ran } from '../../cli/ran.ts';
import { newFolder } from '../../support/harness/app.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../../support/harness/postgres.ts';
import { fillWithHardRows } from './hard-rows.ts';

describe('storage/move', () => {
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
  const quiet = (): void => undefined;
  const move = (from: string, to: string, dataDir = folder): Promise<Moved> =>
    moveStorage({ clock: systemClock }, { from: { url: from }, to: { url: to }, dataDir, progress: quiet });

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

  /** Runs statements on a file without the program. */
  async function onFile(url: string, use: (db: Awaited<ReturnType<typeof takeConnection>>) => Promise<unknown>) {
    const knex = connect(fileOf(url), 1, durable);
    const db = await takeConnection(knex);
    try {
      await use(db);
    } finally {
      await db.close();
      await knex.destroy();
    }
  }

  async function hardFile(options: { withNul?: boolean } = {}): Promise<string> {
    const url = newFile();
    await (await openDatabase({ url })).close();
    await onFile(url, (db) => fillWithHardRows(db, options));
    return url;
  }

  /** A file with one account. */
  async function smallFile(): Promise<string> {
    const url = newFile();
    const db = await openDatabase({ url });
    await db.commit.transact((tx) => tx.run("INSERT INTO settings (name, value) VALUES ('epoch', '7')"));
    await db.close();
    return url;
  }

  it('knows every table and column of the declarations, and PostgreSQL has the same and no others', async () => {
    const url = newFile();
    await (await openDatabase({ url })).close();
    const base = await newBase();
    const db = await openDatabase({ url: base });
    const rows = await db.prepared.all<{ table_name: string; column_name: string }>(
      `SELECT c.table_name, c.column_name FROM information_schema.columns AS c
       JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
       WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'`,
    );
    await db.close();
    await onFile(url, async (file) => {
      const found = await tablesIn(file);
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
    });
    const others = new Set(rows.map((row) => row.table_name).filter((name) => !(name in tables)));
    for (const name of ['migrations', 'migrations_lock', ...OWN_TABLES]) others.delete(name);
    assert.deepEqual([...others], [], 'a table of PostgreSQL alone that a move leaves out');
  });

  it('SQLite to PostgreSQL and back: every row of every table, with hard values, has the same digest', async () => {
    const [first, base, second] = [await hardFile(), await newBase(), newFile()];
    const there = await moved(first, base);
    const back = await moved(base, second);
    assert.deepEqual(back.copied.tables, there.copied.tables);
    assert.ok(there.copied.tables.every(({ rows }) => rows >= 8));
    assert.ok(there.copied.replaced > 0, 'a NUL cannot be stored there, and this is said');
    assert.equal(back.copied.replaced, 0);
    assert.deepEqual(back.books, there.books);
    await onFile(second, async (db) => {
      const [row] = await db.all<{ html: string }>("SELECT html FROM contents WHERE id = 'plain'");
      assert.equal(row?.html.length, 2_400_000);
      const ids = await db.all<{ id: string; raw: string }>('SELECT id, hex(raw) AS raw FROM contents ORDER BY id');
      assert.ok(ids.some(({ id }) => id === 'a NUL \uFFFD inside'));
      assert.ok(ids.some(({ raw }) => raw === 'FF00FF'));
      assert.deepEqual(await db.all('PRAGMA integrity_check'), [{ integrity_check: 'ok' }]);
      assert.deepEqual(await db.all('PRAGMA foreign_key_check'), []);
      assert.deepEqual(
        await db.all<{ ms: number }>('SELECT ms FROM audit ORDER BY ms').then((all) => all.map(({ ms }) => ms)),
        [-1e-9, 0, 0, 5e-324, 0.1, 0.1, 1 / 3, 1 / 3, 1.7976931348623157e308].sort((a, b) => a - b),
      );
    });
  });

  it('leaves the target as the program makes it: indexes, views, numbers that go on, the next epoch', async () => {
    const [first, base, second] = [await hardFile({ withNul: false }), await newBase(), newFile()];
    const indexes = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%' ORDER BY name";
    let before: unknown[] = [];
    await onFile(first, async (db) => (before = await db.all(indexes)));
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
    const postgresIndexes =
      "SELECT indexname, replace(indexdef, 'public.', '') AS indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename <> 'storage_move' ORDER BY indexname";
    assert.deepEqual(await db.prepared.all(postgresIndexes), await fresh.prepared.all(postgresIndexes));
    await fresh.close();
    await db.close();
    await moved(base, second);
    await onFile(second, async (file) => {
      assert.deepEqual(await file.all(indexes), before);
      const given = await file.all<{ name: string; seq: number }>(
        'SELECT name, seq FROM sqlite_sequence ORDER BY name',
      );
      assert.equal(given.find(({ name }) => name === 'events')?.seq, 72);
      assert.deepEqual(await file.all('PRAGMA auto_vacuum'), [{ auto_vacuum: 2 }]);
    });
    await (await openDatabase({ url: second })).close();
  });

  it('sums that PostgreSQL keeps in parts come back whole', async () => {
    const [first, base, second] = [await smallFile(), await newBase(), newFile()];
    await onFile(first, (db) => db.run("INSERT INTO counters VALUES ('a', '2026-01-31', 'none', 'queued', 5)"));
    await moved(first, base);
    const db = await openDatabase({ url: base });
    await db.commit.insert({
      counters: [{ account_id: 'a', day: '2026-01-31', from_status: 'none', to_status: 'queued', n: 2 }],
    });
    assert.equal((await db.prepared.all('SELECT n FROM counters')).length, 2, 'two parts');
    await db.close();
    await moved(base, second);
    await onFile(second, async (file) => assert.deepEqual(await file.all('SELECT n FROM counters'), [{ n: 7 }]));
  });

  it('a moved database is not opened any more, and says where it went', async () => {
    const [first, base, second] = [await smallFile(), await newBase(), newFile()];
    await moved(first, base);
    await assert.rejects(openDatabase({ url: first }), (error: Error) => {
      assert.match(
        error.message,
        /^the database was moved to postgres:\/\/.* on \d{4}-\d\d-\d\d: set storage\.url to that$/,
      );
      return true;
    });
    await assert.rejects(openReader({ url: first }), /was moved to postgres/);
    await assert.rejects(openCopySource(fileOf(first)), /was moved to postgres/);
    await moved(base, second);
    await assert.rejects(openDatabase({ url: base }), /was moved to sqlite:/);
    await assert.rejects(openReader({ url: base }), /was moved to sqlite:/);
    await assert.rejects(openSnapshot({ url: base }), /was moved to sqlite:/);
    // A second move from there would make a second copy that goes on.
    await refused(first, await newBase(), 'marked', /was moved to postgres/);
    await (await openDatabase({ url: second })).close();
  });

  for (const killAt of ['copying', 'comparing'])
    it(`killed while ${killAt}, it leaves the source as it was and a target that nothing opens, and can be begun again`, async () => {
      const [first, base, second] = [await hardFile(), await newBase(), newFile()];
      for (const [from, to] of [
        [first, base],
        [base, second],
      ] as const) {
        const child = spawnSync(
          process.execPath,
          [
            ...['--import', './test/support/harness/as-esm.mjs', '--import', 'tsx'],
            path.join(import.meta.dirname, 'moving.ts'),
            JSON.stringify({ from, to, dataDir: folder, killAt }),
          ],
          { encoding: 'utf8' },
        );
        assert.equal(child.signal, 'SIGKILL', child.stderr);
        await (await openDatabase({ url: from })).close();
        if (to === base) await assert.rejects(openDatabase({ url: to }), /is not complete: repeat the command/);
        else assert.ok(!existsSync(fileOf(to)));
        await moved(from, to);
        await (await openDatabase({ url: to })).close();
      }
    });

  it('says that the connection was lost, and can be begun again', async () => {
    const [first, base, second] = [await hardFile(), await newBase(), newFile()];
    const cluster = await startedCluster();
    for (const [from, to] of [
      [first, base],
      [base, second],
    ] as const) {
      const crashes: Promise<void>[] = [];
      const progress = (_: string, done: number, of: number): void => {
        if (done > of / 2 && crashes.length === 0) crashes.push(cluster.crash());
      };
      await assert.rejects(
        moveStorage({ clock: systemClock }, { from: { url: from }, to: { url: to }, dataDir: folder, progress }),
        (error) => error instanceof DatabaseRefusal && error.why === 'unreachable',
      );
      await Promise.all(crashes);
      await moved(from, to);
    }
    await (await openDatabase({ url: second })).close();
  });

  it('broken off before its last step, it is completed by the same command, and by no other', async () => {
    const at = systemClock.now();
    const [first, base, second] = [await smallFile(), await newBase(), newFile()];
    const source = await openSqliteSource(fileOf(first));
    const target = await openPostgresTarget({ url: base });
    await target.begin({ id: 'one', url: first, at });
    await fillFrom(source, target, quiet);
    await source.markMoved({ id: 'one', url: base, at });
    await Promise.all([source.close(), target.close()]);
    await assert.rejects(openDatabase({ url: base }), /is not complete/);
    await refused(first, await newBase(), 'marked', /was moved to/);
    assert.deepEqual(await move(first, base), { kind: 'completed' });
    await (await openDatabase({ url: base })).close();

    const back = await openPostgresSource({ url: base });
    const file = await createSqliteTarget(fileOf(second), back.steps);
    await file.begin({ id: 'two', url: base, at });
    await fillFrom(back, file, quiet);
    await back.markMoved({ id: 'two', url: second, at });
    await Promise.all([back.close(), file.close()]);
    assert.ok(!existsSync(fileOf(second)));
    assert.deepEqual(await move(base, second), { kind: 'completed' });
    await (await openDatabase({ url: second })).close();
  });

  describe('is refused, with nothing changed,', () => {
    it('between databases of the same kind', async () => {
      await refused(await smallFile(), newFile(), 'same_engine', /same kind/);
      await refused(await newBase(), await newBase(), 'same_engine', /same kind/);
    });

    it('where there is no database', async () => {
      await refused(newFile(), await newBase(), 'no_database', /there is no database/);
      await refused(await newBase(), newFile(), 'schema', /lacks 001-schema/);
      const elsewhere = await move(await smallFile(), await newBase(), path.join(folder, 'none'));
      assert.ok(elsewhere.kind === 'refused', JSON.stringify(elsewhere));
      assert.match(elsewhere.text, /there is no data folder/);
    });

    it('into a target that has rows', async () => {
      const [first, base] = [await smallFile(), await newBase()];
      await moved(await smallFile(), base);
      await refused(first, base, 'not_empty', /has rows already \(settings\)/);
      await refused(base, first, 'not_empty', /already exists/);
      await (await openDatabase({ url: first })).close();
      await (await openDatabase({ url: base })).close();
    });

    it('while a server or a command uses one side', async () => {
      const [first, base] = [await smallFile(), await newBase()];
      const lock = await lockFolder(folder);
      await refused(first, base, 'in_use', /a server is running/);
      await lock?.release();
      await onFile(first, async (writer) => {
        await writer.run('BEGIN IMMEDIATE');
        await refused(first, base, 'in_use', /another program writes to/);
      });
      const db = await openDatabase({ url: base });
      await assert.rejects(move(first, base), /another server or command/);
      await assert.rejects(move(base, newFile()), /another server or command/);
      await db.close();
    });

    it('with the schema of another version', async () => {
      const [first, base] = [await smallFile(), await newBase()];
      await onFile(first, (db) =>
        db.run("UPDATE migrations SET name = '999-later' WHERE name = '005-exports-and-views'"),
      );
      await refused(first, base, 'schema', /another version \(999-later\)/);
      await onFile(first, (db) => db.run("DELETE FROM migrations WHERE name = '999-later'"));
      await refused(first, base, 'schema', /lacks 005-exports-and-views: run posthorn migrate first/);
    });

    const values: readonly (readonly [string, string, RegExp])[] = [
      ['bytes in a text', "INSERT INTO settings (name, value) VALUES ('x', x'00')", /settings has 1 values/],
      [
        'a fraction in an integer',
        "INSERT INTO list_checks VALUES ('1', 'l', 'clear', 1.5)",
        /list_checks has 1 values/,
      ],
      [
        'an integer beyond 2^53',
        "INSERT INTO list_checks VALUES ('1', 'l', 'clear', 9007199254740993)",
        /list_checks\.at has the value/,
      ],
      ['a table of somebody else', 'CREATE TABLE mine (id TEXT PRIMARY KEY)', /mine is none of Posthorn/],
    ];
    for (const [what, sql, text] of values)
      it(`with ${what}`, async () => {
        const [first, base] = [await smallFile(), await newBase()];
        await onFile(first, (db) => db.run(sql));
        const result = await move(first, base);
        assert.ok(result.kind === 'refused', JSON.stringify(result));
        assert.match(result.text, text);
        await assert.rejects(openDatabase({ url: base }), /is not complete/);
        await (await openDatabase({ url: first })).close();
      });
  });

  it('posthorn storage move: JSON, lines, exit codes', async () => {
    const [first, base] = [await smallFile(), await newBase()];
    openKeyring(folder);
    const env = { POSTHORN_DATA_DIR: folder, POSTHORN_STORAGE__URL: first };
    assert.equal((await ran(['storage', 'move'], env)).code, 64);
    for (const wrong of [
      'posthorn.db',
      'postgres://user:secret@host/db',
      'postgres://host/db',
      'mysql://a@b/c',
      'sqlite:',
    ])
      assert.equal((await ran(['storage', 'move', '--to', wrong], env)).code, 65, wrong);
    assert.equal((await ran(['storage', 'move', '--to', newFile()], env)).code, 64);
    const noFile = await ran(['storage', 'move', '--to', base, '--password-file', '/none/password'], env);
    assert.deepEqual([noFile.code, noFile.notes.includes('there is no file /none/password')], [66, true]);
    const { code, out, notes } = await ran(['storage', 'move', '--to', base, '--json'], env);
    assert.equal(code, 0, notes);
    const result = JSON.parse(out) as { ok: boolean; rows: number; tables: { table: string; rows: number }[] };
    assert.ok(result.ok);
    // With the row of the audit about the move that was refused.
    const filled = result.tables.filter(({ rows }) => rows > 0);
    assert.deepEqual(filled.map(({ table }) => table).sort(), ['audit', 'request_details', 'settings']);
    assert.equal(
      result.rows,
      filled.reduce((sum, { rows }) => sum + rows, 0),
    );
    assert.deepEqual(result.tables.map(({ table }) => table).sort(), Object.keys(tables).sort());
    const again = await ran(['storage', 'move', '--to', base], env);
    assert.equal(again.code, 78);
    assert.match(again.notes, /was moved to postgres/);
    const noFolder = await ran(['storage', 'move', '--to', 'sqlite:/proc/none/x.db'], {
      ...env,
      POSTHORN_STORAGE__URL: base,
    });
    assert.deepEqual([noFolder.code, noFolder.notes.includes('cannot be made')], [77, true], noFolder.notes);
    const target = newFile();
    const back = await ran(['storage', 'move', '--to', target], { ...env, POSTHORN_STORAGE__URL: base });
    assert.equal(back.code, 0, back.notes);
    assert.match(
      back.out,
      /^settings: 1 row, [0-9a-f]{64}\nmoved \d+ rows in \d+ s; counts, digests and books are equal/m,
    );
    // Each move is a line of the audit where the rows went.
    const audit = await ran(['audit', '--server', '--json'], { ...env, POSTHORN_STORAGE__URL: target });
    assert.equal(
      audit.out.match(/"moved the database to (postgres|sqlite):[^" ]*"/g)?.length,
      2,
      audit.out + audit.notes,
    );
  });
});
