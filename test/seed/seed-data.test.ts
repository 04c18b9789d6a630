import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openKeyring } from '../../src/base/keyring.ts';
import { balance } from '../../src/messages/store/books.ts';
import { openDatabase } from '../../src/storage/database.ts';
import { deliveryStatuses } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { startTestApp, type SeenMessage } from '../support/harness/app.ts';
import { seedData, type Seeded } from './seed-data.ts';

const MESSAGES = 1500;

describe('seed', () => {
  let folder: string;
  let seeded: Seeded;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'posthorn-seed-'));
    const db = await openDatabase({ url: `sqlite:${path.join(folder, 'posthorn.db')}` });
    const deps = { db, clock: new FakeClock(), keyring: openKeyring(folder) };
    seeded = await seedData(deps, { messages: MESSAGES, events: 5, days: 30, seed: 7 });
    await db.close();
  });
  after(() => {
    rmSync(folder, { recursive: true });
  });

  it('leaves books that balance, in every status, with about as many events as were asked for', async () => {
    const db = await openDatabase({ url: `sqlite:${path.join(folder, 'posthorn.db')}` });
    try {
      const books = await balance(db.reader);
      assert.deepEqual(books.faults, []);
      const found = books.lines.filter((line) => line.found > 0).map(({ status }) => status);
      // Nothing is on its way while no server runs.
      assert.deepEqual(
        found,
        deliveryStatuses.filter((status) => status !== 'sent'),
      );
      assert.ok(Math.abs(seeded.events / MESSAGES - 5) < 0.7, `${String(seeded.events)} events`);
      const late = await db.reader('events').where('at', '>', new FakeClock().now());
      assert.equal(late.length, 0, 'something has happened in the future');
      const stats = (await db
        .reader('event_counts')
        .where({ span: 'day', tag: '' })
        .sum({ n: 'delivered' })
        .first()) as {
        n: number;
      };
      const kept = (await db
        .reader('events')
        .where({ type: 'delivered' })
        .whereNotIn('delivery_id', db.reader('events').where({ type: 'bounced' }).select('delivery_id'))
        .count({ n: '*' })
        .first()) as { n: number };
      assert.equal(stats.n, kept.n, 'a bounce after the delivery takes it back');
      const order = (await db.reader('events').select('at').orderBy('sequence')) as { at: number }[];
      assert.ok(
        order.every(({ at }, place) => place === 0 || at >= (order[place - 1]?.at ?? 0)),
        'the log is not in the order of time',
      );
    } finally {
      await db.close();
    }
  });

  it('is what the program itself would show', async () => {
    const app = await startTestApp({ folder });
    try {
      const options = { key: seeded.key };
      const { body, status } = await app.get<{ data: SeenMessage[] }>('/v1/messages?limit=100', options);
      assert.equal(status, 200);
      assert.equal(body.data.length, 100);
      for (const { id } of body.data.slice(0, 20))
        assert.equal((await app.get(`/v1/messages/${id}`, options)).status, 200);
      for (const where of [
        '/v1/events?limit=1000',
        '/v1/stats',
        '/v1/batches',
        '/v1/templates',
        '/v1/suppressions',
        '/v1/webhooks',
        '/v1/domains',
        '/v1/audit',
      ])
        assert.equal((await app.get(where, options)).status, 200, where);
    } finally {
      await app.stop();
    }
  });
});
