/** Each page is found by the whole key of its table: by a part of it, every page would read those before it again. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { takeConnection, type Connection } from '../../../src/storage/connection.ts';
import { connect, openDatabase } from '../../../src/storage/database.ts';
import { pagesOf } from '../../../src/storage/move/pages.ts';
import { openPostgresSource } from '../../../src/storage/move/postgres.ts';
import { tablesIn, type CopiedTable } from '../../../src/storage/move/tables.ts';
import { newFolder } from '../../support/harness/app.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../../support/harness/postgres.ts';

/** A connection that gives the first page's rows and notes what is asked for the next. */
function noting(engine: Connection['engine'], table: CopiedTable, asked: string[]): Connection {
  return {
    engine,
    all<Row>(sql: unknown): Promise<Row[]> {
      const text = String(sql);
      asked.push(text);
      if (text.includes('AS wrong FROM (')) return Promise.resolve([{ n: 1000, bytes: 1, wrong: 0 }] as Row[]);
      if (text.includes('json_group_array')) return Promise.resolve([{ rows: '[]' }] as Row[]);
      return Promise.resolve([Object.fromEntries(table.key.map((column) => [`end_${column}`, 1]))] as Row[]);
    },
    run: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}

async function statementsOf(engine: Connection['engine'], table: CopiedTable): Promise<string[]> {
  const asked: string[] = [];
  const pages = pagesOf(noting(engine, table, asked), table);
  await pages.next();
  await pages.next();
  await pages.next();
  return asked.filter((sql) => sql.includes(' > ('));
}

describe('storage/move/pages', () => {
  let folder: string;
  let tables: CopiedTable[];
  let file: Connection;
  let close: () => Promise<void>;
  before(async () => {
    folder = newFolder();
    const name = path.join(folder, 'posthorn.db');
    await (await openDatabase({ url: `sqlite:${name}` })).close();
    const knex = connect(name, 1, []);
    file = await takeConnection(knex);
    tables = await tablesIn(file);
    close = async () => {
      await file.close();
      await knex.destroy();
    };
  });
  after(async () => {
    await close();
    rmSync(folder, { recursive: true });
  });

  it('are found by the whole key on SQLite', async () => {
    for (const table of tables)
      for (const sql of await statementsOf('sqlite', table)) {
        const plan = await file.all<{ detail: string }>(
          `EXPLAIN QUERY PLAN ${sql}`,
          [...sql.matchAll(/\?/g)].map(() => 1),
        );
        const details = plan.map(({ detail }) => detail).join('\n');
        const whole =
          table.key.length > 1
            ? `((${table.key.join(',')})>(${table.key.map(() => '?').join(',')}))`
            : `(${table.key[0] ?? ''}>?)`;
        assert.ok(
          details.includes(whole) || details.includes('USING INTEGER PRIMARY KEY (rowid>?)'),
          `${table.name}: ${details}`,
        );
        assert.doesNotMatch(details, /TEMP B-TREE/, `${table.name}: ${sql}\n${details}`);
      }
  });

  it('are found by the whole key on PostgreSQL', async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const url = urlOf((await startedCluster()).folder, await makeDatabase());
    await (await openDatabase({ url })).close();
    const source = await openPostgresSource({ url });
    try {
      for (const table of tables)
        for (const sql of await statementsOf('postgres', table)) {
          const plan = await source.db.all<Record<string, string>>(
            `EXPLAIN ${sql}`,
            [...sql.matchAll(/\?/g)].map(() => 1),
          );
          const details = plan.map((row) => Object.values(row).join()).join('\n');
          assert.match(details, /Index Cond: \((?:ROW\(|\"?\w+\"? > )/, `${table.name}: ${details}`);
          assert.doesNotMatch(details, /Sort|Seq Scan|Filter/, `${table.name}: ${details}`);
        }
    } finally {
      await source.close();
    }
  });
});
