import assert from 'node:assert/strict';
import fc from 'fast-check';
import { dayOf } from '../../../src/base/time.ts';
import { oldRule } from '../../support/harness/old-rule.ts';
import { capOf, DAILY_CAPS, stageAfter } from '../../../src/messages/limits/counts.ts';
import { LimitBook } from '../../../src/messages/limits/book.ts';
import { covers, type Limit, type MailKey } from '../../../src/messages/limits/limit.ts';
import type { MailRule } from '../../../src/config/mail-rules.ts';
import type { Outcome } from '../../../src/messages/delivery/delivery.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { NOW } from '../../support/harness/mail-rows.ts';
import { byHand } from '../../support/harness/limit-rows.ts';
import { accepted } from '../../support/harness/outcomes.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
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

const mail: MailKey = { account: 'acc_1', domain: 'dest.test' };

/** A node: what it may send, and what it has sent, as its lanes count that. */
class Node {
  readonly book: LimitBook;
  private readonly clock: FakeClock;

  constructor(
    db: TempDatabase['db'],
    clock: FakeClock,
    given: { rules?: readonly MailRule[]; since?: number | null; nodes?: number },
  ) {
    const { rules = [], since, nodes = 1 } = given;
    const deps = { db, clock, log: noLog, announce() {}, changed() {} };
    const warming = new Map(since === undefined ? [] : [['out1', { since }]]);
    this.book = new LimitBook(deps, { node: null, nodes: () => nodes, rules: { rules, warming } });
    this.clock = clock;
  }

  /** Returns when a mail may go; null for now. */
  waits(source: string, site: string, one: MailKey = mail): number | null {
    const { counts } = this.book;
    const until = this.limitsOf(source, site, one).map((limit) => counts.fullUntil(limit, one));
    return Math.max(0, ...until) > this.clock.now() ? Math.max(...until) : null;
  }

  begin(source: string, site: string, by = 1, one = mail): void {
    for (const limit of this.limitsOf(source, site, one)) this.book.counts.begin(limit, one, by);
  }

  /** Sends a mail if one may go. */
  take(source: string, site: string, outcome: Outcome = accepted(), one = mail): boolean {
    if (this.waits(source, site, one) !== null) return false;
    this.begin(source, site, 1, one);
    for (const limit of this.limitsOf(source, site, one)) this.book.counts.end(limit, one, outcome);
    return true;
  }

  /** Sends as much as may go. */
  all(site: string, outcome?: Outcome): number {
    for (let count = 0; ; count++) if (!this.take('out1', site, outcome)) return count;
  }

  today(site: string): { sent: number; cap: number | null } | undefined {
    const found = this.book.counts.warmUpOf('out1').find((one) => one.site === site);
    return found && { sent: found.sent, cap: found.cap };
  }

  private limitsOf(source: string, site: string, one: MailKey) {
    return this.book.counts.limitsAt({ source, site }, null).filter((limit) => covers(limit, one));
  }
}

describe('messages/limits/counts: the stage of a warm-up on the next day', () => {
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
      const row = { stage: 0, blocked: 0, deferred: 0, complained: 0, ...day };
      assert.equal(stageAfter(row), expected);
    });

  it('has no cap after the last', () => {
    assert.deepEqual([capOf(0), capOf(6), capOf(DAILY_CAPS.length)], [50, 5000, null]);
  });
});

describe('messages/limits/counts', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock(NOW);
  });
  afterEach(() => temp.close());

  describe('warm-up', () => {
    async function open(since: number | null = null, nodes = 1): Promise<Node> {
      const node = new Node(temp.db, clock, { since, nodes });
      await node.book.load();
      return node;
    }

    it('stops at the cap of each site, and sends more from day to day', async () => {
      const node = await open();
      assert.deepEqual([node.all('google'), node.all('yahoo')], [50, 50]);
      clock.advance(DAY);
      assert.deepEqual([node.all('google'), node.today('google')], [100, { sent: 100, cap: 100 }]);
      clock.advance(DAY);
      assert.equal(node.all('google'), 200);
      assert.equal(node.take('warm', 'google'), true, 'others have no cap');
    });

    it('counts over a restart, and what was not sent does not count', async () => {
      const first = await open();
      for (let count = 0; count < 39; count++) first.take('out1', 'google');
      first.begin('out1', 'google');
      first.begin('out1', 'google', -1);
      await first.book.write();
      const second = await open();
      assert.deepEqual(second.today('google'), { sent: 39, cap: 50 });
      assert.equal(second.all('google'), 11);
      await second.book.write();
      clock.advance(DAY);
      assert.equal((await open()).today('google')?.cap, 100);
    });

    it('looks again soon while mails under way may use up the rest', async () => {
      const node = await open();
      for (let count = 0; count < 50; count++) node.begin('out1', 'google');
      assert.equal(node.waits('out1', 'google'), NOW + 2000);
      node.begin('out1', 'google', -1);
      assert.equal(node.waits('out1', 'google'), null);
    });

    for (const [reason, outcome, counts] of [
      ['a block', blocked, true],
      ['a deferral', deferred, true],
      ['an unknown mailbox', unknown, false],
      ['greylisting', greylisted, false],
      ['a dead connection', unreachable, false],
    ] as const)
      it(`${counts ? 'stays' : 'goes on'} after a day of ${reason}`, async () => {
        const node = await open();
        for (let count = 0; count < 3; count++) node.take('out1', 'google', outcome);
        node.all('google');
        clock.advance(DAY);
        assert.equal(node.today('google')?.cap, counts ? 50 : 100);
      });

    it('stays after a day with a complaint too many', async () => {
      const node = await open();
      node.all('google');
      node.book.counts.complained('out1', 'google');
      clock.advance(DAY);
      assert.equal(node.today('google')?.cap, 50);
    });

    it('begins where the day it was begun says, and is warm after the last', async () => {
      assert.equal((await open(NOW - 3 * DAY)).all('google'), 500);
      const warm = await open(NOW - 30 * DAY);
      warm.take('out1', 'google');
      assert.equal(warm.today('google')?.cap, null);
    });

    it('does not count a day twice when the clock goes back', async () => {
      const node = await open();
      node.all('google');
      clock.advance(DAY);
      node.all('google');
      clock.advance(-DAY);
      assert.equal(node.take('out1', 'google'), false);
    });

    it('begins again at a site that got no mail for a month while the program ran, whoever looks at it meanwhile', async () => {
      const node = await open();
      node.all('google');
      for (let day = 0; day < 29; day++) {
        clock.advance(DAY);
        assert.equal(node.today('google')?.cap, 100);
      }
      clock.advance(3 * DAY);
      assert.deepEqual(node.today('google'), { sent: 0, cap: 50 });
    });

    it('begins again at a site that got no mail for a month, and housekeeping deletes its rows', async () => {
      const node = await open();
      node.all('google');
      await node.book.write();
      clock.advance(40 * DAY);
      const later = await open();
      later.take('out1', 'google');
      await later.book.write();
      assert.deepEqual(later.today('google'), { sent: 1, cap: 50 });
      const rule = oldRule(temp.db, clock, 'old counts of limits');
      assert.equal(await rule.step(100, temp.db.commit), 0);
      clock.advance(21 * DAY);
      assert.equal(await rule.step(100, temp.db.commit), 1);
      const days = await temp.db.prepared.all<{ span: string }>('SELECT span FROM limit_counts');
      assert.deepEqual(days, [{ span: dayOf(NOW + 40 * DAY) }]);
    });

    it('adds up what several nodes count at the same time', async () => {
      const nodes = await Promise.all([open(NOW - 30 * DAY, 3), open(NOW - 30 * DAY, 3), open(NOW - 30 * DAY, 3)]);
      for (let round = 0; round < 20; round++) {
        for (const node of nodes)
          for (const site of ['google', 'yahoo', 'google'])
            node.take('out1', site, site === 'google' ? blocked : accepted());
        await Promise.all(nodes.map(({ book }) => book.write()));
        if (round % 5 === 0) await Promise.all(nodes.map(({ book }) => book.reread()));
      }
      const rows = await temp.db.prepared.all<{ subject: string; sent: number; blocked: number }>(
        'SELECT subject, sent, blocked FROM limit_counts ORDER BY subject',
      );
      assert.deepEqual(
        rows.map(({ subject, sent, blocked: bad }) => [subject, sent, bad]),
        [
          ['out1 google', 120, 120],
          ['out1 yahoo', 60, 0],
        ],
      );
    });

    it('decides the stage of a day by what all nodes have counted the day before, alike at all of them', async () => {
      const [one, two] = [await open(null, 1), await open(null, 1)];
      one.all('google');
      // A complaint arrives where nothing was sent from.
      two.book.counts.complained('out1', 'google');
      for (const { book } of [one, two]) await book.write();
      for (const { book } of [one, two]) await book.reread();
      clock.advance(DAY);
      assert.deepEqual(
        [one.today('google'), two.today('google')],
        [
          { sent: 0, cap: 50 },
          { sent: 0, cap: 50 },
        ],
      );
    });

    it('counts on in memory while nothing can be written, and writes it later', async () => {
      const node = await open();
      await temp.db.commit.transact((tx) => tx.run('ALTER TABLE limit_counts RENAME TO elsewhere'));
      for (let count = 0; count < 10; count++) node.take('out1', 'google');
      await node.book.write();
      await temp.db.commit.transact((tx) => tx.run('ALTER TABLE elsewhere RENAME TO limit_counts'));
      node.take('out1', 'google');
      await node.book.write();
      assert.equal(node.today('google')?.sent, 11);
      assert.equal((await open()).today('google')?.sent, 11);
    });
  });

  describe('rules', () => {
    const rule = (own: Partial<MailRule>): MailRule => ({ name: 'one', match: {}, each: [], ...own });
    const node = (rules: readonly MailRule[], nodes = 1): Node => new Node(temp.db, clock, { rules, nodes });

    it('let no more go in any hour or day than they say, and as much as that while mail waits', () => {
      const steps = fc.array(
        fc.record({ ms: fc.integer({ min: 0, max: 3 * HOUR }), mails: fc.integer({ min: 0, max: 9 }) }),
        {
          maxLength: 60,
        },
      );
      fc.assert(
        fc.property(
          fc.integer({ min: 1, max: 6 }),
          fc.integer({ min: 1, max: 20 }),
          steps,
          (perHour, perDay, moves) => {
            clock = new FakeClock(NOW);
            const one = node([rule({ perHour, perDay })]);
            const spans = new Map<string, { sent: number; asked: number }>();
            for (const { ms, mails } of moves) {
              clock.advance(ms);
              const iso = new Date(clock.now()).toISOString();
              for (let count = 0; count < mails; count++) {
                const hasGone = one.take('', 'google');
                for (const span of [iso.slice(0, 10), iso.slice(0, 13)]) {
                  const { sent, asked } = spans.get(span) ?? { sent: 0, asked: 0 };
                  spans.set(span, { sent: sent + (hasGone ? 1 : 0), asked: asked + 1 });
                }
              }
            }
            for (const [span, { sent, asked }] of spans) {
              const most = span.length === 10 ? perDay : perHour;
              assert.ok(sent <= most, `${span}: ${String(sent)} of ${String(most)}`);
              const ofDay = spans.get(span.slice(0, 10))?.sent ?? 0;
              if (span.length > 10) assert.ok(sent === Math.min(asked, most) || ofDay === perDay);
            }
          },
        ),
        { numRuns: 200 },
      );
    });

    for (const [what, own, at, one, counts] of [
      ['any mail', {}, '', mail, true],
      ['a domain', { match: { domain: 'dest.test' } }, '', mail, true],
      ['another domain', { match: { domain: 'else.test' } }, '', mail, false],
      ['another account', { match: { account: 'acc_2' } }, '', mail, false],
      ['a stream', { match: { stream: 'news' } }, '', { ...mail, stream: 'news' }, true],
      ['another stream', { match: { stream: 'news' } }, '', { ...mail, stream: 'codes' }, false],
      ['another source', { match: { source: 'out1' } }, 'out2', mail, false],
      ['a source', { match: { source: 'out1' } }, 'out1', mail, true],
      ['another operator', { match: { operator: 'google' } }, '', mail, false],
    ] as const)
      it(`match ${what}: ${String(counts)}`, () => {
        const found = node([rule({ perHour: 1, ...own })]);
        assert.deepEqual([found.take(at, 'x', accepted(), one), found.take(at, 'x', accepted(), one)], [true, !counts]);
      });

    for (const [each, other, isApart] of [
      [[], { ...mail, domain: 'else.test' }, false],
      [['domain'], { ...mail, domain: 'else.test' }, true],
      [['domain'], { ...mail, account: 'acc_2' }, false],
      [['account'], { ...mail, account: 'acc_2' }, true],
      [['stream'], { ...mail, stream: 'news' }, true],
      [['domain', 'account'], { ...mail, account: 'acc_2' }, true],
    ] as const)
      it(`count ${each.length === 0 ? 'all together' : `each ${each.join(' and ')} apart`}`, () => {
        const found = node([rule({ perDay: 1, each })]);
        assert.equal(found.take('', 'x'), true);
        assert.equal(found.take('', 'x', accepted(), other), isApart);
      });

    it('say until when, and what they allow', () => {
      const found = node([rule({ perHour: 2 })]);
      while (found.take('', 'x'));
      assert.equal(found.waits('', 'x'), Math.floor(NOW / HOUR + 1) * HOUR);
      const [limit] = found.book.counts.limitsAt({ source: '', site: 'x' }, null);
      assert.ok(limit);
      assert.equal(found.book.counts.say(limit), 'the rule one lets 2 mails an hour go; as many have gone');
    });

    describe('by hand', () => {
      const byHour = (own: Partial<Limit>): Limit => byHand({ kind: 'limit', perHour: 2, ...own }, NOW);
      const open = async (): Promise<Node> => {
        const one = node([]);
        await one.book.load();
        return one;
      };
      const all = (one: Node, of: MailKey = mail): number => {
        for (let count = 0; ; count++) if (count === 9 || !one.take('', 'x', accepted(), of)) return count;
      };

      for (const [what, own, of, most] of [
        ['all mail', {}, mail, 2],
        ['a lane', { site: 'x' }, mail, 2],
        ['another lane', { site: 'y' }, mail, 9],
        ['another source', { source: 'out1' }, mail, 9],
        ['a domain', { domain: 'dest.test' }, mail, 2],
        ['an account in a lane', { site: 'x', account: 'acc_1' }, mail, 2],
        ['another account', { account: 'acc_2' }, mail, 9],
        ['a stream', { stream: 'news' }, { ...mail, stream: 'news' }, 2],
        ['another stream', { stream: 'news' }, { ...mail, stream: 'codes' }, 9],
      ] as const)
        it(`about ${what}: ${most === 2 ? 'so many go' : 'it is not counted'}`, async () => {
          const one = await open();
          await one.book.add(byHour(own));
          assert.equal(all(one, of), most);
        });

      it('let so many go in the hour until they end, count on over a restart and if the number changes, and say so', async () => {
        const first = await open();
        await first.book.add(byHour({ site: 'x', cause: 'ticket 9' }));
        assert.equal(all(first), 2);
        assert.equal(first.waits('', 'x'), Math.floor(NOW / HOUR + 1) * HOUR);
        const [limit] = first.book.counts.limitsAt({ source: '', site: 'x' }, null);
        assert.ok(limit);
        assert.equal(
          first.book.counts.say(limit),
          'the limit of the lane x lets 2 mails an hour go (ticket 9); as many have gone',
        );
        await first.book.write();
        const second = await open();
        assert.equal(all(second), 0);
        await second.book.add(byHour({ site: 'x', perHour: 5, until: NOW + 1000, changedAt: NOW + 1 }));
        assert.deepEqual([second.book.listByHand().length, all(second)], [1, 3]);
        assert.equal(second.waits('', 'x'), NOW + 1000);
        clock.advance(1000);
        assert.equal(all(second), 9);
      });

      it('end for mail that is held by its stream when nothing limits it any more', async () => {
        const one = await open();
        await one.book.add(byHour({ stream: 'news' }));
        assert.equal(one.book.counts.needStreams, true);
        assert.equal(all(one, { ...mail, stream: 'news' }), 2);
        const [limit] = one.book.counts.limitsAt({ source: '', site: 'x' }, null);
        assert.ok(limit);
        const hold = one.book.counts.holdBy(limit, NOW + HOUR);
        assert.match(hold?.why ?? '', /^the limit of the stream news lets no more of this mail go before 2026/);
        assert.equal(hold?.by, `rule:hld_1@${String(NOW + HOUR)}`);
        await one.book.add(byHour({ stream: 'news', perHour: 3, changedAt: NOW + 1 }));
        assert.equal(one.book.counts.holdOf(hold.by), null, 'more may go');
        await one.book.endByHand(['hld_1']);
        assert.deepEqual([one.book.counts.needStreams, all(one, { ...mail, stream: 'news' })], [false, 9]);
      });

      it('reach the other nodes, which share the number', async () => {
        const nodes = [node([], 2), node([], 2)];
        for (const { book } of nodes) await book.load();
        await nodes[0]?.book.add(byHour({ site: 'x', perHour: 6 }));
        const sent = [0, 0];
        for (let look = 0; look < 6; look++) {
          clock.advance(2000);
          for (const { book } of nodes) await book.reread();
          for (const [at, one] of nodes.entries()) while (one.take('', 'x')) sent[at] = (sent[at] ?? 0) + 1;
          for (const { book } of nodes) await book.write();
        }
        assert.deepEqual(sent, [3, 3]);
      });
    });

    it('are divided between nodes: what is left is read again, and never exceeded', async () => {
      const nodes = [node([rule({ perDay: 100 })], 2), node([rule({ perDay: 100 })], 2)];
      const sent = [0, 0];
      for (let look = 0; look < 12; look++) {
        for (const [at, one] of nodes.entries()) while (one.take('', 'x')) sent[at] = (sent[at] ?? 0) + 1;
        if (look === 0) assert.deepEqual(sent, [50, 50]);
        for (const { book } of nodes) await book.write();
        clock.advance(2000);
        for (const { book } of nodes) await book.reread();
      }
      assert.deepEqual(sent, [50, 50]);
      clock.advance(DAY);
      const [one] = nodes;
      let alone = 0;
      for (let look = 0; look < 12; look++) {
        while (one?.take('', 'x') === true) alone++;
        await one?.book.write();
        await one?.book.reread();
      }
      assert.equal(alone, 100, 'a node that sends alone gets all');
    });
  });
});
