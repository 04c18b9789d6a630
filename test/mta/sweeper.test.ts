/** The sweeps on the tables themselves: which deliveries each of them changes, of all that look alike. */
import assert from 'node:assert/strict';
import type { Log } from '../../src/base/log.ts';
import { HELD_WITHOUT_END } from '../../src/messages/delivery/delivery.ts';
import { createRecorder } from '../../src/messages/delivery/record.ts';
import type { Engine } from '../../src/mta/engine.ts';
import { Sweeper } from '../../src/mta/sweeper.ts';
import { createNotifier } from '../../src/scheduling/notifier.ts';
import type { DeliveryRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { HOUR, NOW, acceptedMail } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const EPOCH = 7;

describe('mta/sweeper', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let sweeper: Sweeper;
  const failures: unknown[] = [];

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock(NOW);
    failures.length = 0;
    const nothing = (): void => undefined;
    const log: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => log };
    const { db } = temp;
    sweeper = new Sweeper({
      ...{ db, clock, log, recorder: createRecorder({ commit: db.commit, clock, written: nothing }) },
      nodes: {
        isLeader: true,
        ended: (epochs: readonly number[]) => Promise.resolve(epochs.filter((epoch) => epoch !== EPOCH)),
      },
      owners: { isOurs: (domain: string) => domain !== 'other.test' },
      notifiers: { deliveries: createNotifier() },
      holds: { of: () => Promise.resolve(null) },
      control: { report: () => null, shift: nothing },
      sites: { shift: nothing },
      extraTime: () => ({ startedAt: 0, until: 0 }),
      random: () => 0.5,
      dueQueue: { scan: () => Promise.resolve(), sizes: () => ({ groups: 1, jobs: 1 }) },
      freeHeldMail: () => Promise.resolve(),
      lanes: { views: () => [] },
      reports: { laneFacts: () => Promise.resolve({ waits: [], held: null }) },
      failed: (error: unknown) => void failures.push(error),
      options: { retry: { schedule: [HOUR, 8 * HOUR], maxAge: 72 * HOUR, rules: [] } },
      leaseMs: HOUR,
    } as unknown as Engine);
  });
  afterEach(async () => {
    sweeper.stop();
    await temp.close();
    assert.deepEqual(failures, []);
  });

  /** Adds a delivery for each name. Returns a function that gives those whose row has changed since. */
  async function waiting(rows: Readonly<Record<string, Partial<DeliveryRow>>>): Promise<() => Promise<string[]>> {
    const { rows: made, deliveries } = acceptedMail(...Object.values(rows));
    await temp.db.commit.insert(made);
    const read = async (): Promise<string[]> => {
      const found = await temp.db.reader<DeliveryRow>('deliveries');
      return deliveries.map(({ id }) => JSON.stringify(found.find((row) => row.id === id)));
    };
    const before = await read();
    return async () => {
      const after = await read();
      return Object.keys(rows).filter((_, at) => before[at] !== after[at]);
    };
  }

  it('takes back the attempts of runs that have ended, and no others', async () => {
    const changed = await waiting({
      ended: { status: 'sent', attempt_count: 1, claim_epoch: 3, due_at: NOW + HOUR },
      'of this run': { status: 'sent', attempt_count: 1, claim_epoch: EPOCH, due_at: NOW + HOUR },
      unclaimed: { status: 'deferred', attempt_count: 1, due_at: NOW + HOUR },
    });
    await sweeper.start();
    assert.deepEqual(await changed(), ['ended']);
  });

  it('has mail go that a clock set back has left further away than any schedule, and no other', async () => {
    await sweeper.start();
    clock.jump(-24 * HOUR);
    const far = clock.now() + 20 * HOUR;
    const changed = await waiting({
      far: { status: 'deferred', due_at: far },
      'as the schedule has it': { status: 'deferred', due_at: clock.now() + 8 * HOUR },
      scheduled: { status: 'scheduled', due_at: far },
      held: { status: 'deferred', due_at: far, held_by: 'account acc_1' },
      'held without an end': { status: 'queued', due_at: HELD_WITHOUT_END },
      claimed: { status: 'sent', due_at: far, claim_epoch: EPOCH },
      done: { status: 'delivered', due_at: null },
    });
    await sweeper.start();
    assert.deepEqual(await changed(), ['far']);
  });

  it('gives up what is too old and queues what has come due, for the domains of this node', async () => {
    const past = { due_at: NOW - HOUR, queued_at: NOW - HOUR };
    const changed = await waiting({
      old: { ...past, status: 'deferred', give_up_at: NOW },
      young: { ...past, status: 'deferred', give_up_at: NOW + 1 },
      'of another node': { ...past, status: 'deferred', give_up_at: NOW, domain: 'other.test' },
      claimed: { ...past, status: 'sent', give_up_at: NOW, claim_epoch: EPOCH },
      planned: { ...past, status: 'scheduled' },
      'planned for now': { status: 'scheduled', due_at: NOW, queued_at: NOW },
      'planned and held': { ...past, status: 'scheduled', held_by: 'account acc_1' },
    });
    await sweeper.start();
    assert.deepEqual(await changed(), ['old', 'planned']);
    const rows = await temp.db.reader<DeliveryRow>('deliveries').whereIn('status', ['bounced', 'queued']);
    assert.deepEqual(rows.map(({ status }) => status).sort(), ['bounced', 'queued']);
  });
});
