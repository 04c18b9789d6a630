import assert from 'node:assert/strict';
import { newId } from '../../src/base/id.ts';
import { createClockTrust, DOUBT_MS, whenTrusted } from '../../src/housekeeping/clock-trust.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { ACCOUNT, NOW } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

describe('housekeeping/clock-trust', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let warned: unknown[];
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock(NOW);
    warned = [];
  });
  afterEach(() => temp.close());

  const trust = (db = temp.db) =>
    createClockTrust({ db, clock, log: { warn: (fields: object) => void warned.push(fields) } });
  const event = async (at: number): Promise<void> => {
    const id = newId('evt', at);
    await temp.db.commit.insert({
      events: [
        {
          id,
          account_id: ACCOUNT,
          type: 'sent',
          at,
          test: 0,
          message_id: 'm',
          delivery_id: 'd',
          status: 'sent',
          machine: 0,
          detail_json: '{}',
        },
      ],
    });
  };

  it('believes a clock that runs, and one that is set by hours', async () => {
    await event(NOW - 6 * DAY);
    const { isTrusted } = await trust();
    assert.equal(isTrusted(), true);
    clock.advance(400 * DAY);
    assert.equal(isTrusted(), true);
    clock.jump(17 * HOUR);
    assert.equal(isTrusted(), true);
    clock.jump(-40 * DAY);
    assert.equal(isTrusted(), true);
    assert.deepEqual(warned, []);
  });

  it('doubts one that jumps years ahead for a day, and no longer', async () => {
    const { isTrusted } = await trust();
    clock.jump(730 * DAY);
    assert.equal(isTrusted(), false);
    clock.advance(DOUBT_MS - 1);
    assert.equal(isTrusted(), false);
    clock.advance(1);
    assert.equal(isTrusted(), true);
    assert.equal(warned.length, 1);
  });

  it('doubts one that is set to the day after', async () => {
    const { isTrusted } = await trust();
    clock.jump(DAY);
    assert.equal(isTrusted(), false);
  });

  it('believes it again as soon as it was set right', async () => {
    const { isTrusted } = await trust();
    clock.jump(730 * DAY);
    assert.equal(isTrusted(), false);
    clock.jump(-730 * DAY);
    assert.equal(isTrusted(), true);
  });

  it('doubts one that is far past what the run before knew', async () => {
    await event(NOW - 730 * DAY);
    const { isTrusted } = await trust();
    // An event of this run says nothing about the time between the two.
    await event(NOW);
    assert.equal(isTrusted(), false);
    clock.advance(DOUBT_MS);
    assert.equal(isTrusted(), true);
  });

  it('doubts it for the rest of the day after a restart: what the run before wrote by the wrong clock made it look right', async () => {
    await event(NOW);
    clock.jump(730 * DAY);
    assert.equal((await trust()).isTrusted(), false);
    clock.advance(HOUR);
    await event(clock.now());
    const again = await trust();
    assert.equal(again.isTrusted(), false);
    // The clock is set right, and is believed also by the next run.
    clock.jump(-730 * DAY);
    assert.equal(again.isTrusted(), true);
    assert.equal((await trust()).isTrusted(), true);
    clock.jump(730 * DAY);
    assert.equal((await trust()).isTrusted(), false);
    clock.advance(DOUBT_MS - HOUR - 1);
    assert.equal((await trust()).isTrusted(), false);
    clock.advance(1);
    assert.equal((await trust()).isTrusted(), true);
  });

  it('doubts one that jumped while the program ran for the rest of the day after a restart', async () => {
    const { isTrusted } = await trust();
    clock.jump(730 * DAY);
    assert.equal(isTrusted(), false);
    await temp.db.commit.transact(() => Promise.resolve());
    await event(clock.now());
    assert.equal((await trust()).isTrusted(), false);
  });

  it('doubts one of which it cannot be told', async () => {
    const err = new Error('the disk is away');
    const db = { ...temp.db, prepared: { ...temp.db.prepared, all: () => Promise.reject(err) } };
    const { isTrusted } = await trust(db);
    assert.equal(isTrusted(), false);
    assert.deepEqual(warned, [{ event: 'retention_waits', err }]);
    clock.advance(DOUBT_MS);
    assert.equal(isTrusted(), true);
  });

  it('lets no rule delete meanwhile', async () => {
    let steps = 0;
    const isTrusted = await trust();
    const rule = whenTrusted(isTrusted, { name: 'x', everyMs: 1, step: async () => ++steps });
    clock.jump(730 * DAY);
    assert.equal(await rule.step(10, temp.db.commit), 0);
    clock.advance(DOUBT_MS);
    assert.equal(await rule.step(10, temp.db.commit), 1);
  });
});
