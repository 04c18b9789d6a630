/** PostgreSQL writes names that are not quoted in lower case: a column that is read as `messageId` has to be quoted. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { openTempDatabase } from '../support/harness/temp-database.ts';

const src = path.resolve(import.meta.dirname, '../../src');

describe('storage: names of columns', () => {
  it('are as written where they are quoted', async () => {
    const temp = await openTempDatabase();
    assert.deepEqual(await temp.db.prepared.all('SELECT 1 AS "messageId"'), [{ messageId: 1 }]);
    await temp.close();
  });

  it('bug: on PostgreSQL the sweep read neither account nor message of mail that was too old', () => {
    const bare = readdirSync(src, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .flatMap((name) =>
        [...readFileSync(path.join(src, name), 'utf8').matchAll(/\bAS [a-z]+[A-Z]\w*/g)].map(([found]) => [
          name,
          found,
        ]),
      );
    assert.deepEqual(bare, []);
  });
});
