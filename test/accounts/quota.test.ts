/** The quota of an account whose mail several nodes accept. Quotas of one node are tested through the API (test/journeys/pressure.test.ts). */
import assert from 'node:assert/strict';
import { createQuotas, type QuotaLimits, type SettleQuota } from '../../src/accounts/quota.ts';
import type { Problem } from '../../src/base/problem.ts';
import { DAY_MS, dayOf } from '../../src/base/time.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const ACCOUNT = 'acc_one';
const limits: QuotaLimits = { mailsPerDay: 1000, mailsPerMonth: null };

describe('accounts/quota of several nodes', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  /** Readings of the books by all nodes. */
  let reads: number;
  /** Readings wait for it. */
  let held: Promise<void>;
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    reads = 0;
    held = Promise.resolve();
  });
  afterEach(() => temp.close());

  function node({ hasOthers = true } = {}) {
    const all: typeof temp.db.prepared.all = async (sql, values) => {
      reads++;
      const rows = await temp.db.prepared.all(sql, values);
      await held;
      return rows as never;
    };
    return createQuotas({
      db: { ...temp.db, prepared: { ...temp.db.prepared, all } },
      clock,
      hasOthers: () => hasOthers,
    });
  }

  const write = (mails: number): Promise<void> =>
    temp.db.commit.insert({
      counters: [{ account_id: ACCOUNT, day: dayOf(clock.now()), from_status: 'none', to_status: 'queued', n: mails }],
    });

  /** Accepts mail as a node does: the books are written between taking and settling. */
  async function accept(at: ReturnType<typeof node>, mails: number): Promise<boolean> {
    try {
      const settle = await at.take(ACCOUNT, limits, mails);
      await write(mails);
      settle(true);
      return true;
    } catch (error) {
      assert.equal((error as Problem).code, 'quota_exceeded');
      return false;
    }
  }

  it('sees within two seconds what another node has accepted', async () => {
    const [a, b] = [node(), node()];
    assert.ok(await accept(a, 100));
    assert.ok(await accept(b, 500));
    clock.advance(1999);
    await a.take(ACCOUNT, limits, 400).then((settle) => settle(false));
    assert.equal(reads, 2);
    clock.advance(1);
    assert.equal(await accept(a, 401), false);
    assert.ok(await accept(a, 400));
    assert.deepEqual(await a.used(ACCOUNT), { today: 1000, thisMonth: 1000 });
  });

  for (const span of ['mailsPerDay', 'mailsPerMonth'] as const)
    it(`counts what was accepted before the clock was ahead for a while (${span})`, async () => {
      const one = node({ hasOthers: false });
      const quota: QuotaLimits = { mailsPerDay: null, mailsPerMonth: null, [span]: 1000 };
      const take = (mails: number): Promise<SettleQuota> => one.take(ACCOUNT, quota, mails);
      const settle = await take(1000);
      await write(1000);
      settle(true);
      clock.advance(40 * DAY_MS);
      await take(1).then((giveBack) => giveBack(false));
      clock.advance(-40 * DAY_MS);
      const both = await Promise.allSettled([take(1), take(1)]);
      assert.deepEqual(
        both.map(({ status }) => status),
        ['rejected', 'rejected'],
      );
      assert.equal(reads, 2);
    });

  it('never forgets the own mails that are on their way, and corrects what it has counted twice', async () => {
    const a = node();
    assert.ok(await accept(a, 1));
    const open = await a.take(ACCOUNT, limits, 600);
    clock.advance(2000);
    await assert.rejects(a.take(ACCOUNT, limits, 400), { code: 'quota_exceeded' });
    clock.advance(2000);
    let release: () => void = () => undefined;
    held = new Promise((resolve) => (release = resolve));
    // This reading does not see them, and they are written before it ends.
    const during = a.take(ACCOUNT, limits, 400);
    await write(600);
    open(true);
    release();
    await assert.rejects(during, { code: 'quota_exceeded' });
    clock.advance(2000);
    assert.ok(await accept(a, 399));
  });

  it('shares one reading between requests of one moment', async () => {
    const a = node();
    assert.ok(await accept(a, 1));
    clock.advance(2000);
    await Promise.all(Array.from({ length: 20 }, () => a.take(ACCOUNT, limits, 1)));
    assert.equal(reads, 2);
  });

  it('reads once where no other node is', async () => {
    const alone = node({ hasOthers: false });
    assert.ok(await accept(alone, 990));
    clock.advance(3_600_000);
    assert.ok(await accept(alone, 10));
    assert.equal(await accept(alone, 1), false);
    assert.equal(reads, 1);
  });
});
