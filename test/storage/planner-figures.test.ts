import assert from 'node:assert/strict';
import { freshenFigures } from '../../src/storage/planner-figures.ts';

/** A database of this many pages whose tables SQLite would look at; what is run is noted, a transaction a line. */
async function ranOn(pages: number, stale: readonly string[]): Promise<string[]> {
  const ran: string[] = [];
  const answers: Record<string, unknown[]> = {
    'PRAGMA optimize(-1)': stale.map((optimize) => ({ optimize })),
    'PRAGMA page_count': [{ page_count: pages }],
  };
  await freshenFigures({ all: async <Row>(sql: string) => (answers[sql] ?? []) as Row[] }, async (work) => {
    const statements: string[] = [];
    await work({
      run: async (sql, values = []) => {
        statements.push([sql, ...values].join(' '));
      },
    });
    ran.push(statements.join('; '));
  });
  return ran;
}

describe('storage/planner-figures', () => {
  it('are made table by table, while the file is small', async () => {
    assert.deepEqual(await ranOn(1000, ['ANALYZE "main"."messages"', 'ANALYZE "main"."events"']), [
      'PRAGMA analysis_limit = 400; ANALYZE "messages"',
      'PRAGMA analysis_limit = 400; ANALYZE "events"',
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
});
