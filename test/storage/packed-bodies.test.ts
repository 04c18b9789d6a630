/** Bodies that earlier builds stored as deltas come back as they were sent. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import path from 'node:path';
import type { Knex } from 'knex';
import { contentOf } from '../../src/messages/store/message-store.ts';
import { connect, durable } from '../../src/storage/database.ts';
import { migrate, migrations } from '../../src/storage/migrate.ts';
import { addressOf } from '../../src/storage/postgres/connection.ts';
import { createPool } from '../../src/storage/postgres/open.ts';
import { newFolder } from '../support/harness/app.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../support/harness/postgres.ts';

describe('migrations/009-packed-bodies', () => {
  async function bodiesAfter(knex: Knex): Promise<unknown[]> {
    const at = migrations.findIndex(({ name }) => name === '009-packed-bodies');
    await migrate(knex, { list: migrations.slice(0, at) });
    await knex('content_bases').insert({ id: 'base', html: '<p>Dear </p>', text: null });
    const row = { account_id: 'a', auto_text: 0, attachment_count: 0, created_at: 1 };
    const deltas = Array.from({ length: 250 }, (_, n) => ({
      ...row,
      id: `c${String(n).padStart(3, '0')}`,
      html: JSON.stringify([0, 8, `Ann ${String(n)}`, 8, 4]),
      text: null,
      base_id: 'base',
    }));
    await knex.batchInsert('contents', deltas, 50);
    await knex('contents').insert({ ...row, id: 'plain', html: '<p>as it is</p>', text: 'x', base_id: null });
    await migrate(knex);
    const read = async (id: string) => {
      const { html, text } = (await contentOf(knex, id)) ?? {};
      return [html, text];
    };
    return [await read('c000'), await read('c249'), await read('plain'), await knex.schema.hasTable('content_bases')];
  }
  const expected = [['<p>Dear Ann 0</p>', null], ['<p>Dear Ann 249</p>', null], ['<p>as it is</p>', 'x'], false];

  it('on SQLite', async () => {
    const folder = newFolder();
    const knex = connect(path.join(folder, 'posthorn.db'), 1, durable);
    assert.deepEqual(await bodiesAfter(knex), expected);
    await knex.destroy();
    rmSync(folder, { recursive: true });
  });

  it('on PostgreSQL', async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const knex = createPool(addressOf({ url: urlOf((await startedCluster()).folder, await makeDatabase()) }), 1, []);
    assert.deepEqual(await bodiesAfter(knex), expected);
    await knex.destroy();
  });
});
