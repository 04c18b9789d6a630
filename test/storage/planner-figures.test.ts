import assert from 'node:assert/strict';
import type { Connection, Value } from '../../src/storage/connection.ts';
import { textFor } from '../../src/storage/sql.ts';
import { forgetSmallFigures, freshenFigures } from '../../src/storage/planner-figures.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

/** A database of this many pages whose tables SQLite would look at; what is run is noted, a transaction a line. */
async function ranOn(pages: number, stale: readonly string[]): Promise<string[]> {
  const ran: string[] = [];
  const answers: Record<string, unknown[]> = {
    'PRAGMA optimize(-1)': stale.map((optimize) => ({ optimize })),
    'PRAGMA page_count': [{ page_count: pages }],
    "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'": [{}],
  };
  await freshenFigures({ all: async <Row>(sql: string) => (answers[sql] ?? []) as Row[] }, async (work) => {
    const statements: string[] = [];
    await work({
      run: async (sql, values = []) => {
        statements.push([textFor('sqlite', sql), ...values].join(' '));
      },
    });
    ran.push(statements.join('; '));
  });
  return ran;
}

const forgetSmall =
  'DELETE FROM sqlite_stat1 WHERE tbl IN (SELECT tbl FROM sqlite_stat1 GROUP BY tbl HAVING MAX(CAST(stat AS INTEGER)) < ?) 1000';

describe('storage/planner-figures', () => {
  it('are made table by table, while the file is small', async () => {
    assert.deepEqual(await ranOn(1000, ['ANALYZE "main"."messages"', 'ANALYZE "main"."events"']), [
      `PRAGMA analysis_limit = 400; ANALYZE "messages"; ${forgetSmall}; ANALYZE sqlite_schema`,
      `PRAGMA analysis_limit = 400; ANALYZE "events"; ${forgetSmall}; ANALYZE sqlite_schema`,
    ]);
  });

  it('are forgotten where they are stale and the file is large: counting would keep others from writing', async () => {
    assert.deepEqual(await ranOn(1_000_000, ['ANALYZE "main"."messages"']), [
      'DELETE FROM sqlite_stat1 WHERE tbl = ? messages; ANALYZE sqlite_schema',
    ]);
  });

  it('stay as they are where nothing is stale, and run nothing that SQLite did not mean', async () => {
    assert.deepEqual(await ranOn(1000, []), []);
    assert.deepEqual(await ranOn(1000, ['ANALYZE "aux"."x"', 'VACUUM', 'ANALYZE "main"."a"; DROP TABLE b']), []);
  });

  it('on a large file that was never counted there is nothing to forget; counted once, they are forgotten', async () => {
    const temp = await openTempDatabase('sqlite');
    try {
      const { db } = temp;
      await addAccounts(db, 1);
      const run = (work: (tx: Pick<Connection, 'run'>) => Promise<void>): Promise<void> => db.commit.transact(work);
      const figures = (): Promise<unknown[]> =>
        db.prepared.all("SELECT name FROM sqlite_schema WHERE name = 'sqlite_stat1'");
      await freshenFigures(staleAccounts(db.prepared), run, 0);
      assert.deepEqual(await figures(), []);
      await addAccounts(db, 1000);
      await freshenFigures(staleAccounts(db.prepared), run);
      assert.equal((await db.prepared.all("SELECT tbl FROM sqlite_stat1 WHERE tbl = 'accounts'")).length > 0, true);
      await freshenFigures(staleAccounts(db.prepared), run, 0);
      assert.deepEqual(await db.prepared.all("SELECT tbl FROM sqlite_stat1 WHERE tbl = 'accounts'"), []);
    } finally {
      await temp.close();
    }
  });

  it('of a small table are not kept: a list of values would be looked for by reading all of it, however much it grows', async () => {
    const temp = await openTempDatabase('sqlite');
    try {
      const { db } = temp;
      await addAccounts(db, 11);
      const planOf = async (): Promise<string> => {
        const steps = await db.commit.transact((tx) =>
          tx.all<{ detail: string }>(
            "EXPLAIN QUERY PLAN SELECT a.* FROM json_each('[]') w JOIN accounts a ON a.id = w.value",
          ),
        );
        return steps.map(({ detail }) => detail).join('; ');
      };
      const run = (work: (tx: Pick<Connection, 'run'>) => Promise<void>): Promise<void> => db.commit.transact(work);
      await freshenFigures(staleAccounts(db.prepared), run);
      assert.deepEqual(await db.prepared.all('SELECT tbl FROM sqlite_stat1'), []);
      assert.match(await planOf(), /SEARCH a USING INDEX/);
      // As an earlier release left it.
      await run((tx) => tx.run('ANALYZE accounts'));
      assert.match(await planOf(), /SCAN a\b/);
      await db.commit.transact(forgetSmallFigures);
      assert.deepEqual(await db.prepared.all('SELECT tbl FROM sqlite_stat1'), []);
      assert.match(await planOf(), /SEARCH a USING INDEX/);
    } finally {
      await temp.close();
    }
  });

  const addAccounts = (db: TempDatabase['db'], count: number): Promise<unknown> =>
    db.commit.transact((tx) =>
      tx.run(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
         INSERT INTO accounts (id, name, plan, created_at, paused) SELECT 'acc_' || hex(randomblob(8)), 'a' || hex(randomblob(8)), 'x', 1, 0 FROM n`,
        [count],
      ),
    );

  /** The database itself, but for what SQLite finds stale: it would want more rows first. */
  const staleAccounts = (connection: Pick<Connection, 'all'>): Pick<Connection, 'all'> => ({
    all: async <Row>(sql: string, values?: readonly Value[]) =>
      sql === 'PRAGMA optimize(-1)'
        ? ([{ optimize: 'ANALYZE "main"."accounts"' }] as Row[])
        : connection.all<Row>(sql, values),
  });
});
