/** Answers that reach a node after another one has removed it: they are written by a connection that is not the node's. */
import assert from 'node:assert/strict';
import { writeLateOutcomes } from '../../src/app.ts';
import { balance } from '../../src/messages/store/books.ts';
import type { DeliveryChange } from '../../src/messages/delivery/delivery.ts';
import { createRecorder } from '../../src/messages/delivery/record.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { ACCOUNT, acceptedMail, HOUR, NOW } from '../support/harness/mail-rows.ts';
import { accepted, refused } from '../support/harness/outcomes.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const EPOCH = 7;

describe('app/late-outcomes', () => {
  let temp: TempDatabase;
  let lines: { event?: string; counted?: number }[];

  beforeEach(async () => {
    temp = await openTempDatabase();
    lines = [];
    await temp.db.commit.insert({ accounts: [{ id: ACCOUNT, name: 'acme', plan: 'pro', created_at: NOW, paused: 0 }] });
  });
  afterEach(() => temp.close());

  const clock = new FakeClock(NOW);
  const note = (line: object): number => lines.push(line);
  const write = (url: string, ...changes: readonly [string, DeliveryChange][]): Promise<void> =>
    writeLateOutcomes(
      { storage: { url, password: null }, clock, log: { warn: note, error: note } },
      changes.map(([deliveryId, change]) => ({ deliveryId, change })),
    );

  it('count where the mail was accepted and no newer attempt has begun', async () => {
    const { rows, deliveries } = acceptedMail({ domain: 'a.test' }, { domain: 'b.test' }, { domain: 'c.test' });
    await temp.db.commit.insert(rows);
    const recorder = createRecorder({ commit: temp.db.commit, clock, written: () => undefined });
    const ids = deliveries.map(({ id }) => id);
    const all = (change: DeliveryChange, some = ids) => some.map((deliveryId) => ({ deliveryId, change }));
    await recorder.record(all({ kind: 'claimed', epoch: EPOCH, leaseUntil: NOW + HOUR }));
    await recorder.record(all({ kind: 'orphaned', epoch: EPOCH, retryAt: NOW }));
    const [first = '', second = '', third = ''] = ids;
    await recorder.record(all({ kind: 'claimed', epoch: EPOCH + 1, leaseUntil: NOW + HOUR }, [third]));
    const late = { kind: 'outcome', epoch: EPOCH, attempt: 1 } as const;
    await write(
      temp.url,
      [first, { ...late, outcome: accepted() }],
      [second, { ...late, outcome: refused() }],
      [third, { ...late, outcome: accepted() }],
    );
    const states = await temp.db.prepared.all('SELECT status, claim_epoch FROM deliveries ORDER BY domain');
    assert.deepEqual(states, [
      { status: 'delivered', claim_epoch: null },
      { status: 'deferred', claim_epoch: null },
      { status: 'deferred', claim_epoch: EPOCH + 1 },
    ]);
    assert.deepEqual(
      lines.map(({ event, counted }) => [event, counted]),
      [['late_outcomes', 1]],
    );
    assert.deepEqual((await balance(temp.db.reader)).faults, []);
  });

  it('are told to be lost where the database cannot be opened; without any nothing is opened', async () => {
    const nowhere = 'sqlite:/proc/nowhere/posthorn.db';
    await write(nowhere);
    assert.deepEqual(lines, []);
    await write(nowhere, ['dlv_1', { kind: 'outcome', epoch: EPOCH, attempt: 1, outcome: accepted() }]);
    assert.deepEqual(
      lines.map(({ event }) => event),
      ['late_outcomes_lost'],
    );
  });
});
