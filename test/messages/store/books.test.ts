import assert from 'node:assert/strict';
import { balance } from '../../../src/messages/store/books.ts';
import { createRecorder, type Recorder } from '../../../src/messages/delivery/record.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { HOUR, NOW, acceptedMail } from '../../support/harness/mail-rows.ts';
import { accepted, deferred } from '../../support/harness/outcomes.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

describe('messages/books', () => {
  let temp: TempDatabase;
  let recorder: Recorder;
  beforeEach(async () => {
    temp = await openTempDatabase();
    recorder = createRecorder({ commit: temp.db.commit, clock: new FakeClock(NOW), written: () => undefined });
  });
  afterEach(() => temp.close());

  /** One mail delivered, one deferred, one waiting, one suppressed. */
  async function someMail(): Promise<void> {
    const { rows, deliveries } = acceptedMail(
      {},
      { type: 'cc' },
      { type: 'cc' },
      { type: 'bcc', status: 'suppressed', due_at: null },
    );
    await temp.db.commit.insert(rows);
    for (const [at, outcome] of [accepted(), deferred(NOW + HOUR)].entries()) {
      const deliveryId = deliveries[at]!.id;
      await recorder.record([
        { deliveryId, change: { kind: 'claimed', epoch: 1, leaseUntil: NOW + HOUR } },
        { deliveryId, change: { kind: 'outcome', epoch: 1, attempt: 1, outcome } },
      ]);
    }
  }

  it('balance where nothing ever happened', async () => {
    const books = await balance(temp.db.reader);
    assert.deepEqual([books.balanced, books.accepted, books.faults], [true, 0, []]);
    assert.ok(books.lines.every(({ counted, found }) => counted === 0 && found === 0));
  });

  it('say how many recipients are where', async () => {
    await someMail();
    const books = await balance(temp.db.reader);
    assert.deepEqual([books.balanced, books.accepted], [true, 4]);
    const found = books.lines.filter((line) => line.found > 0);
    assert.deepEqual(
      found.map(({ status, counted, found: n }) => [status, counted, n]),
      [
        ['queued', 1, 1],
        ['deferred', 1, 1],
        ['delivered', 1, 1],
        ['suppressed', 1, 1],
      ],
    );
  });

  for (const [reason, sql, fault] of [
    [
      'a delivery that vanished',
      "DELETE FROM deliveries WHERE status = 'delivered'",
      /^delivered: 1 by the counters, 0 by the rows$/,
    ],
    [
      'a status that moved behind our back',
      "UPDATE deliveries SET status = 'failed' WHERE status = 'suppressed'",
      /^suppressed: 1 by the counters, 0/,
    ],
    [
      'a counter that was changed',
      "UPDATE counters SET n = n + 1 WHERE from_status = 'none' AND to_status = 'queued'",
      /^queued: 2 by the counters/,
    ],
    [
      'an attempt that vanished',
      "DELETE FROM attempts WHERE outcome = 'accepted'",
      /^1 delivered, but 0 accepted attempts$/,
    ],
    [
      'mail that would never be looked at again',
      "UPDATE deliveries SET due_at = NULL WHERE status = 'queued'",
      /^2 recipients wait, but 1 are due/,
    ],
    [
      'finished mail that is still due',
      "UPDATE deliveries SET due_at = 1 WHERE status = 'delivered'",
      /^2 recipients wait, but 3 are due/,
    ],
  ] as const) {
    it(`show ${reason}`, async () => {
      await someMail();
      await temp.db.commit.transact((tx) => tx.run(sql));
      const books = await balance(temp.db.reader);
      assert.equal(books.balanced, false);
      assert.ok(
        books.faults.some((one) => fault.test(one)),
        books.faults.join('; '),
      );
    });
  }
});
