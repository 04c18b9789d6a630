/** The three writers of a server at once: what they do to the same rows, and the order in which events become visible. */
import assert from 'node:assert/strict';
import { recordWork } from '../../../src/messages/delivery/record.ts';
import { followEvents } from '../../../src/events/event-log.ts';
import type { Work } from '../../../src/storage/commit.ts';
import { openDatabase, type Database } from '../../../src/storage/database.ts';
import { insertRows, type Rows } from '../../../src/storage/rows.ts';
import type { EventRow } from '../../../src/storage/tables.ts';
import { ACCOUNT, NOW, acceptedCounter, acceptedMail } from '../../support/harness/mail-rows.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../../support/harness/postgres.ts';

describe('storage/postgres/committers', () => {
  let db: Database;
  let url: string;

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    url = urlOf(folder, await makeDatabase());
    db = await openDatabase({ url, usualWork: [recordWork] });
  });
  after(async () => {
    if (postgresPrograms() !== null) await db.close();
  });

  const engineWork: Work<Rows, undefined> = {
    name: recordWork.name,
    async run(tx, inputs) {
      await insertRows(tx, inputs);
      return inputs.map(() => undefined);
    },
  };
  /** The three ways to write, each through a writer of its own. */
  const ways: readonly ((rows: Rows) => Promise<unknown>)[] = [
    (rows) => db.commit.insert(rows),
    (rows) => db.commit.submit(engineWork, rows),
    (rows) => db.commit.transact((tx) => insertRows(tx, [rows])),
  ];

  it('show events in the order of their numbers to a reader that follows the log', async () => {
    const { rows, message } = acceptedMail({});
    await db.commit.insert(rows);
    const [delivery] = rows.deliveries ?? [];
    const event = (n: number): EventRow => ({
      id: `evt_${String(n)}`,
      account_id: ACCOUNT,
      type: 'opened',
      at: NOW,
      test: 0,
      message_id: message.id,
      delivery_id: delivery?.id ?? '',
      status: 'delivered',
      machine: 0,
      detail_json: '{}',
    });
    const PER_WRITER = 60;
    let number = 0;
    const over = { isOver: false };
    const writing = Promise.all(
      ways.flatMap((write) =>
        [1, 2].map(async () => {
          for (let n = 0; n < PER_WRITER; n++) await write({ events: [event(number++), event(number++)] });
        }),
      ),
    ).finally(() => (over.isOver = true));
    const seen: number[] = [];
    let position = 0;
    for (let looks = 0; looks < 100_000; looks++) {
      const wasOver = over.isOver;
      const page = await followEvents(db.prepared, [ACCOUNT], position, 1000);
      seen.push(...page.events.map(({ sequence }) => sequence));
      position = page.position;
      if (wasOver && page.events.length === 0) break;
    }
    await writing;
    assert.equal(seen.length, ways.length * 2 * PER_WRITER * 2);
    assert.deepEqual(
      seen,
      [...seen].sort((a, b) => a - b),
    );
    const [row] = await db.prepared.all<{ n: number }>('SELECT COUNT(*) AS n FROM events');
    assert.equal(row?.n, seen.length, 'a reader missed an event');
  });

  it('add to the same sum without waiting for each other, each to a part of its own', async () => {
    for (let n = 0; n < 2; n++) for (const write of ways) await write({ counters: [acceptedCounter(3)] });
    // One is of the message of the test before.
    const parts = (): Promise<{ n: number }[]> =>
      db.prepared.all('SELECT n FROM counters WHERE account_id = ?', [ACCOUNT]);
    assert.deepEqual((await parts()).map(({ n }) => n).sort(), [6, 6, 7]);
    await db.close();
    db = await openDatabase({ url });
    await db.commit.insert({ counters: [acceptedCounter(1)] });
    assert.deepEqual((await parts()).map(({ n }) => n).sort(), [1, 6, 6, 7]);
  });

  it('count right when many pieces of work at the desk read before they write', async () => {
    await db.commit.insert({ settings: [{ name: 'count', value: '0' }] });
    const add = (): Promise<void> =>
      db.commit.transact(async (tx) => {
        const [row] = await tx.all<{ value: string }>("SELECT value FROM settings WHERE name = 'count'");
        await tx.run("UPDATE settings SET value = ? WHERE name = 'count'", [String(Number(row?.value) + 1)]);
      });
    await Promise.all(Array.from({ length: 20 }, add));
    const [row] = await db.prepared.all<{ value: string }>("SELECT value FROM settings WHERE name = 'count'");
    assert.equal(row?.value, '20');
  });
});
