import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import knexPackage, { type Knex } from 'knex';
import { createCommitter, type Work } from '../../src/storage/commit.ts';
import { takeConnection, type Connection, type Value } from '../../src/storage/connection.ts';
import { statement, textFor } from '../../src/storage/sql.ts';
import { scriptView, sqliteTransaction } from '../../src/storage/sqlite-transaction.ts';

const addLines = statement(
  ({ unfold }) => `INSERT INTO line (number, text) SELECT l.* FROM ${unfold('l', { number: 'integer', text: 'text' })}`,
);
const addBytes = statement(() => 'INSERT INTO file (name, bytes) VALUES (?, ?)');
const changeLines = statement(
  ({ unfold }) =>
    `UPDATE line SET text = l.text FROM ${unfold('l', { number: 'integer', text: 'text' })} WHERE line.number = l.number`,
);
const usual = [addLines, addBytes, changeLines];

type Step = readonly [sql: string | typeof addLines, values?: readonly Value[]];

describe('storage/sqlite-transaction', () => {
  let connection: Connection;
  let ran: string[];
  let end: () => Promise<void>;

  beforeEach(async () => {
    const knex = knexPackage({
      client: 'sqlite3',
      connection: { filename: ':memory:' },
      useNullAsDefault: true,
      pool: { min: 1, max: 1 },
    });
    await knex.raw('CREATE TABLE line (number INTEGER PRIMARY KEY, text TEXT)');
    await knex.raw('CREATE TABLE file (name TEXT, bytes BLOB)');
    const direct = await takeConnection(knex);
    for (const sql of scriptView(usual).split(/;\n(?=CREATE)/)) await direct.run(sql);
    ran = [];
    connection = {
      ...direct,
      run(sql, values) {
        ran.push(textFor('sqlite', sql).split(' ', 3).join(' '));
        return direct.run(sql, values);
      },
    };
    end = async () => {
      await direct.close();
      await knex.destroy();
    };
  });
  afterEach(() => end());

  /** Does the steps of each unit, one after the other. */
  const steps: Work<readonly Step[], undefined> = {
    name: 'steps',
    async run(tx, inputs) {
      for (const [sql, values] of inputs.flat()) await tx.run(sql, values);
      return inputs.map(() => undefined);
    },
  };
  const lines = async (): Promise<string> => {
    const rows = await connection.all<{ text: string }>('SELECT text FROM line ORDER BY number');
    return rows.map(({ text }) => text).join(' ');
  };
  const row = (number: number, text: string): Value[] => [JSON.stringify([[number, text]])];

  it('runs the usual statements as one, in their order', async () => {
    const { submit } = createCommitter(sqliteTransaction(connection, usual));
    await submit(steps, [
      [addLines, row(1, 'a')],
      [addBytes, ['x', Buffer.from([0, 255])]],
      [changeLines, row(1, 'b')],
      [addLines, row(2, 'c')],
      [changeLines, row(1, 'd')],
    ]);
    assert.deepEqual(ran, ['INSERT INTO script']);
    assert.equal(await lines(), 'd c');
    const [file] = await connection.all<{ bytes: Buffer }>('SELECT bytes FROM file');
    assert.deepEqual(file?.bytes, Buffer.from([0, 255]));
  });

  it('runs them before a statement that came after them, in one transaction', async () => {
    const { submit } = createCommitter(sqliteTransaction(connection, usual));
    await submit(steps, [
      [addLines, row(1, 'a')],
      ["UPDATE line SET text = text || 'b'"],
      [addLines, row(2, 'c')],
      ["UPDATE line SET text = text || 'd'"],
    ]);
    assert.deepEqual(ran, [
      'BEGIN IMMEDIATE',
      'INSERT INTO script',
      'UPDATE line SET',
      'INSERT INTO script',
      'UPDATE line SET',
      'COMMIT',
    ]);
    assert.equal(await lines(), 'abd cd');
  });

  it('shows a transaction what it has written', async () => {
    const { transact } = createCommitter(sqliteTransaction(connection, usual));
    const seen = await transact(async (tx) => {
      await tx.run(addLines, row(1, 'a'));
      return tx.all('SELECT text FROM line');
    });
    assert.deepEqual(seen, [{ text: 'a' }]);
  });

  it('keeps nothing of a group that fails, and then writes each unit that does not', async () => {
    const { submit } = createCommitter(sqliteTransaction(connection, usual));
    const units: readonly Step[][] = [
      [[addLines, row(1, 'a')]],
      [
        [addLines, row(2, 'b')],
        [addLines, row(1, 'again')],
      ],
      [[addLines, row(3, 'c')]],
      [[addLines, row(4, 'd')], ['no SQL']],
    ];
    const results = await Promise.allSettled(units.map((unit) => submit(steps, unit)));
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled', 'rejected'],
    );
    assert.equal(await lines(), 'a c');
  });

  it('writes many, and large ones, in more than one statement of one transaction', async () => {
    const { submit } = createCommitter(sqliteTransaction(connection, usual));
    const many = Array.from({ length: 100 }, (_, number): Step => [addLines, row(number, 'x')]);
    const large = Array.from({ length: 12 }, (): Step => [addBytes, ['', Buffer.alloc(200_000)]]);
    await submit(steps, [...many, ...large, [addBytes, ['', Buffer.alloc(2_000_000)]]]);
    assert.deepEqual([ran[0], ran.at(-1)], ['BEGIN IMMEDIATE', 'COMMIT']);
    assert.equal(ran.filter((sql) => sql === 'INSERT INTO file').length, 1);
    const [all] = await connection.all('SELECT count(*) AS files, (SELECT count(*) FROM line) AS lines FROM file');
    assert.deepEqual(all, { files: 13, lines: 100 });
  });

  it('bug: after a lock of another program the next statement was not committed, as the one that had waited still ran', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-test-'));
    const open = (): Knex =>
      knexPackage({
        client: 'sqlite3',
        connection: { filename: path.join(folder, 'lines.db') },
        useNullAsDefault: true,
        pool: { min: 1, max: 1 },
      });
    const [own, other] = [open(), open()];
    await own.raw('PRAGMA journal_mode = WAL');
    await own.raw('PRAGMA busy_timeout = 0');
    await own.raw('CREATE TABLE line (number INTEGER PRIMARY KEY, text TEXT)');
    await own.raw('CREATE TABLE file (name TEXT, bytes BLOB)');
    const writer = await takeConnection(own);
    for (const sql of scriptView(usual).split(/;\n(?=CREATE)/)) await writer.run(sql);
    const { submit } = createCommitter(sqliteTransaction(writer, usual));
    await other.raw('BEGIN IMMEDIATE');
    await assert.rejects(submit(steps, [[addLines, row(1, 'a')]]), /SQLITE_BUSY/);
    await other.raw('ROLLBACK');
    const five = Array.from({ length: 5 }, (_, number): Step => [addLines, row(number, 'x')]);
    await submit(steps, five);
    assert.deepEqual(await other('line').count({ n: '*' }), [{ n: 5 }]);
    await submit(steps, [["UPDATE line SET text = 'y'"], [addLines, row(5, 'x')]]);
    assert.deepEqual(await other('line').count({ n: '*' }), [{ n: 6 }]);
    await writer.close();
    await Promise.all([own.destroy(), other.destroy()]);
    rmSync(folder, { recursive: true });
  });

  it('writes nothing at all for a group without statements', async () => {
    const { submit } = createCommitter(sqliteTransaction(connection, usual));
    await submit(steps, []);
    assert.deepEqual(ran, []);
  });
});
