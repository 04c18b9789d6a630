import assert from 'node:assert/strict';
import { dayOf } from '../../../src/base/time.ts';
import { oldRule } from '../../support/harness/old-rule.ts';
import { capOf, DAILY_CAPS, stageAfter, WarmUp } from '../../../src/mta/sources/sources.ts';
import type { Outcome } from '../../../src/messages/delivery/delivery.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { NOW } from '../../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

const DAY = 86_400_000;
const noLog = { debug() {}, info() {}, warn() {}, error() {}, child: () => noLog };

const facts = {
  startedAt: NOW,
  endedAt: NOW,
  mx: 'mx.dest.test',
  ip: '127.0.0.1',
  source: 'out1',
  tls: null,
  timings: {},
  smtpCode: 550,
  enhancedCode: '5.7.1',
  smtpReply: 'no',
};
const blocked: Outcome = { kind: 'refused', facts, verdict: { class: 'block', reason: 'reputation' } };
const unknown: Outcome = { kind: 'refused', facts, verdict: { class: 'hard', reason: 'mailbox_not_found' } };
const deferred: Outcome = {
  kind: 'deferred',
  facts: { ...facts, smtpCode: 451 },
  verdict: { class: 'soft', reason: 'other' },
  retryAt: NOW,
};
const greylisted: Outcome = {
  ...deferred,
  grounds: { rule: 'greylisting', infrastructure: false, greylisting: true, about: 'recipient' },
};
const unreachable: Outcome = { ...deferred, facts: { ...facts, smtpCode: null } };

describe('mta/sources/warm-up: the stage of the next day', () => {
  for (const [reason, day, expected] of [
    ['goes on after a full day that went well', { sent: 50 }, 1],
    ['goes on after half a day', { sent: 25 }, 1],
    ['stays after a day of little use', { sent: 24 }, 0],
    ['stays after a day without mail', { sent: 0 }, 0],
    ['stays at 5 % of blocks', { stage: 1, sent: 100, blocked: 5 }, 1],
    ['stays at 5 % of blocks and deferrals together', { stage: 1, sent: 100, blocked: 2, deferred: 3 }, 1],
    ['goes on under 5 %', { stage: 1, sent: 100, blocked: 2, deferred: 2 }, 2],
    ['stays at 0.1 % of complaints', { stage: 4, sent: 1000, complained: 1 }, 4],
    ['goes on under 0.1 % of complaints', { stage: 5, sent: 2000, complained: 1 }, 6],
    ['stays at the end', { stage: DAILY_CAPS.length, sent: 1_000_000 }, DAILY_CAPS.length],
  ] as const)
    it(reason, () => {
      const row = { source: 'out1', site: 'google', stage: 0, blocked: 0, deferred: 0, complained: 0, ...day };
      assert.equal(stageAfter(row), expected);
    });

  it('has no cap after the last', () => {
    assert.deepEqual([capOf(0), capOf(6), capOf(DAILY_CAPS.length)], [50, 5000, null]);
  });
});

describe('mta/sources/warm-up', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock(NOW);
  });
  afterEach(() => temp.close());

  async function open(since: number | null = null): Promise<WarmUp> {
    const warmUp = new WarmUp({ db: temp.db, clock, log: noLog }, new Map([['out1', { since }]]));
    await warmUp.load();
    return warmUp;
  }
  const takeAll = (warmUp: WarmUp, site: string): number => {
    for (let count = 0; ; count++) if (!warmUp.take('out1', site)) return count;
  };

  it('stops at the cap of each site, and sends more from day to day', async () => {
    const warmUp = await open();
    assert.deepEqual([takeAll(warmUp, 'google'), takeAll(warmUp, 'yahoo')], [50, 50]);
    clock.advance(DAY);
    assert.deepEqual([takeAll(warmUp, 'google'), warmUp.today('out1', 'google').stage], [100, 1]);
    clock.advance(DAY);
    assert.equal(takeAll(warmUp, 'google'), 200);
    assert.equal(warmUp.take('warm', 'google'), true, 'others have no cap');
    await warmUp.close();
  });

  it('counts over a restart, and what was not sent does not count', async () => {
    const first = await open();
    for (let count = 0; count < 40; count++) first.take('out1', 'google');
    first.putBack('out1', 'google');
    await first.close();
    const second = await open();
    assert.deepEqual(second.today('out1', 'google'), { sent: 39, cap: 50, stage: 0 });
    assert.equal(takeAll(second, 'google'), 11);
    await second.close();
    clock.advance(DAY);
    assert.equal((await open()).today('out1', 'google').cap, 100);
  });

  for (const [reason, outcome, counts] of [
    ['a block', blocked, true],
    ['a deferral', deferred, true],
    ['an unknown mailbox', unknown, false],
    ['greylisting', greylisted, false],
    ['a dead connection', unreachable, false],
  ] as const)
    it(`${counts ? 'stays' : 'goes on'} after a day of ${reason}`, async () => {
      const warmUp = await open();
      takeAll(warmUp, 'google');
      for (let count = 0; count < 3; count++) warmUp.note('out1', 'google', outcome);
      clock.advance(DAY);
      assert.equal(warmUp.today('out1', 'google').cap, counts ? 50 : 100);
      await warmUp.close();
    });

  it('stays after a day with a complaint too many', async () => {
    const warmUp = await open();
    takeAll(warmUp, 'google');
    warmUp.complained('out1', 'google');
    clock.advance(DAY);
    assert.equal(warmUp.today('out1', 'google').cap, 50);
    await warmUp.close();
  });

  it('begins where the day it was begun says, and is warm after the last', async () => {
    assert.equal((await open(NOW - 3 * DAY)).today('out1', 'google').cap, 500);
    assert.equal((await open(NOW - 30 * DAY)).today('out1', 'google').cap, null);
  });

  it('does not count a day twice when the clock goes back', async () => {
    const warmUp = await open();
    takeAll(warmUp, 'google');
    clock.advance(DAY);
    takeAll(warmUp, 'google');
    clock.advance(-DAY);
    assert.equal(warmUp.take('out1', 'google'), false);
    await warmUp.close();
  });

  it('begins again at a site that got no mail for a month while the program ran, whoever looks at it meanwhile', async () => {
    const warmUp = await open();
    for (let n = 0; n < 50; n++) warmUp.take('out1', 'google');
    clock.advance(DAY);
    assert.equal(warmUp.today('out1', 'google').cap, 100);
    for (let day = 0; day < 28; day++) {
      clock.advance(DAY);
      assert.deepEqual(
        warmUp.list('out1').map(({ stage }) => stage),
        [1],
      );
    }
    clock.advance(3 * DAY);
    assert.deepEqual(warmUp.today('out1', 'google'), { sent: 0, stage: 0, cap: 50 });
    await warmUp.close();
  });

  it('begins again at a site that got no mail for a month, and housekeeping deletes its rows', async () => {
    const warmUp = await open();
    takeAll(warmUp, 'google');
    await warmUp.close();
    clock.advance(40 * DAY);
    const later = await open();
    assert.equal(later.today('out1', 'google').cap, 50);
    later.take('out1', 'google');
    await later.close();
    assert.deepEqual(later.today('out1', 'google'), { sent: 1, cap: 50, stage: 0 });
    const rule = oldRule(temp.db, clock, 'old warm-ups');
    assert.equal(await rule.step(100, temp.db.commit), 0);
    clock.advance(21 * DAY);
    assert.equal(await rule.step(100, temp.db.commit), 1);
    const days = await temp.db.prepared.all<{ day: string }>('SELECT day FROM warm_up');
    assert.deepEqual(days, [{ day: dayOf(NOW + 40 * DAY) }]);
  });

  it('keeps the cap with another node that sends from the same source', async () => {
    const [one, two] = [await open(), await open()];
    for (let count = 0; count < 30; count++) one.take('out1', 'google');
    await one.close();
    await two.reread();
    assert.equal(two.today('out1', 'google').sent, 30);
    assert.equal(takeAll(two, 'google'), 20);
    await two.close();
    await one.reread();
    assert.equal(one.take('out1', 'google'), false);
    two.putBack('out1', 'google');
    await two.close();
    await one.reread();
    assert.equal(one.take('out1', 'google'), true);
    await one.close();
    assert.deepEqual(one.today('out1', 'google'), { sent: 50, cap: 50, stage: 0 });
  });

  it('adds up what several nodes count at the same time', async () => {
    const nodes = [await open(NOW - 30 * DAY), await open(NOW - 30 * DAY), await open(NOW - 30 * DAY)];
    for (let round = 0; round < 40; round++) {
      for (const node of nodes) {
        for (const site of ['google', 'yahoo', 'google']) node.take('out1', site);
        node.note('out1', 'google', blocked);
      }
      if (round % 5 === 0) await Promise.all(nodes.map((node) => node.reread()));
    }
    await Promise.all(nodes.map((node) => node.close()));
    const last = await open();
    const counts = last.list('out1').map(({ site, sent, blocked: bad }) => [site, sent, bad]);
    assert.deepEqual(counts, [
      ['google', 240, 120],
      ['yahoo', 120, 0],
    ]);
  });

  it('decides the stage of a day by what all nodes have counted the day before, alike at all of them', async () => {
    const [one, two] = [await open(), await open()];
    takeAll(one, 'google');
    one.take('out1', 'yahoo');
    await one.close();
    // A complaint arrives where nothing was sent from.
    two.complained('out1', 'google');
    for (let count = 0; count < 40; count++) two.take('out1', 'yahoo');
    await two.close();
    for (const node of [one, two]) await node.reread();
    clock.advance(DAY);
    for (const site of ['google', 'yahoo']) {
      one.take('out1', site);
      await one.close();
      two.take('out1', site);
      await two.close();
    }
    const today = (node: WarmUp) => ['google', 'yahoo'].map((site) => node.today('out1', site));
    for (const node of [one, two]) await node.reread();
    assert.deepEqual(today(two), [
      { sent: 2, cap: 50, stage: 0 },
      { sent: 2, cap: 100, stage: 1 },
    ]);
    for (const node of [one, two]) await node.reread();
    assert.deepEqual(today(one), today(two));
  });

  it('counts on in memory while nothing can be written', async () => {
    const warmUp = await open();
    await temp.db.commit.transact((tx) => tx.run('ALTER TABLE warm_up RENAME TO elsewhere'));
    for (let count = 0; count < 10; count++) warmUp.take('out1', 'google');
    await warmUp.close();
    await temp.db.commit.transact((tx) => tx.run('ALTER TABLE elsewhere RENAME TO warm_up'));
    warmUp.take('out1', 'google');
    await warmUp.close();
    assert.equal(warmUp.today('out1', 'google').sent, 11);
    assert.equal((await open()).today('out1', 'google').sent, 1);
  });
});
