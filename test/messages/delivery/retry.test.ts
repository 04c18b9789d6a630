import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { MailRule } from '../../../src/config/mail-rules.ts';
import {
  domainIsGone,
  giveUpAt,
  longestWait,
  nextTryAt,
  scheduleFor,
  staysFull,
} from '../../../src/messages/delivery/retry.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const schedule = [1, 5, 15, 30, 60, 120, 240].map((minutes) => minutes * MINUTE);
const MIDDLE = 0.5;
const mail = { account: 'acc_1', domain: 'dest.test', stream: 'default' };

describe('messages/retry', () => {
  describe('nextTryAt', () => {
    for (const [attempt, minutes] of [
      [1, 1],
      [2, 5],
      [3, 15],
      [4, 30],
      [5, 60],
      [6, 120],
      [7, 240],
      [8, 240],
      [50, 240],
    ] as const) {
      it(`waits ${minutes} min after attempt ${attempt}`, () => {
        assert.equal(nextTryAt({ schedule }, attempt, 1_000_000, MIDDLE), 1_000_000 + minutes * MINUTE);
      });
    }

    it('varies each wait by at most 20 % either way', () => {
      fc.assert(
        fc.property(
          fc.integer({ min: 1, max: 30 }),
          fc.double({ min: 0, max: 0.999_999, noNaN: true }),
          (attempt, random) => {
            const wait = schedule[Math.min(attempt, schedule.length) - 1]!;
            const took = nextTryAt({ schedule }, attempt, 0, random);
            assert.ok(took >= 0.8 * wait - 1 && took <= 1.2 * wait + 1, `${took} ms for ${wait} ms`);
          },
        ),
      );
      assert.equal(nextTryAt({ schedule }, 1, 0, 0), 0.8 * MINUTE);
    });

    it('goes on where an operator configured no waits at all', () => {
      assert.equal(nextTryAt({ schedule: [] }, 3, 0, MIDDLE), MINUTE);
    });

    it('is spread over the whole range, so that what was deferred together does not come back together', () => {
      const times = new Set([0, 0.25, 0.5, 0.75].map((random) => nextTryAt({ schedule }, 7, 0, random)));
      assert.equal(times.size, 4);
    });
  });

  describe('nextTryAt, told when to come back', () => {
    const asked = (askedMs: number | null, greylisting = false) => ({ askedMs, greylisting });
    const SECOND = 1000;
    for (const [reason, attempt, random, hint, seconds] of [
      ['a greylist lets in who comes back after a minute', 1, 0, asked(null, true), 60],
      ['or a little later', 1, 0.999_999, asked(null, true), 90],
      ['else after 5 min', 2, MIDDLE, asked(null, true), 300],
      ['and again', 12, MIDDLE, asked(null, true), 300],
      ['but not for ever', 13, MIDDLE, asked(null, true), 4 * 3600],
      ['what is asked for is honoured', 1, 0, asked(200 * SECOND), 200],
      ['also by a greylist', 1, 0, asked(200 * SECOND, true), 200],
      ['never sooner', 1, 0.5, asked(200 * SECOND), 220],
      ['nor in no time', 1, 0, asked(1), 30],
      ['nor after days', 1, 0, asked(99 * HOUR), 6 * 3600],
      ['a short pause is believed for an hour or so', 12, 0, asked(60 * SECOND), 60],
      ['then the schedule rules', 13, 0, asked(60 * SECOND), 4 * 3600],
      ['unless a longer one is asked for', 13, 0, asked(5 * HOUR), 5 * 3600],
      ['nothing said, nothing changed', 2, MIDDLE, asked(null), 300],
    ] as const) {
      it(`${reason}: ${seconds} s after try ${attempt}`, () => {
        assert.equal(Math.round(nextTryAt({ schedule }, attempt, 0, random, hint) / SECOND), seconds);
      });
    }
  });

  it('gives up a mailbox that has been full for a day', () => {
    assert.deepEqual([staysFull(0, 24 * HOUR - 1), staysFull(0, 24 * HOUR)], [false, true]);
  });

  describe('giveUpAt', () => {
    const accepted = 10 * HOUR;
    for (const [reason, sendAt, expiresAt, expected] of [
      ['counts from acceptance', null, null, accepted + 72 * HOUR],
      ['counts from send_at where that is later', accepted + HOUR, null, accepted + 73 * HOUR],
      ['an earlier expires_at cuts it short', null, accepted + HOUR, accepted + HOUR],
      ['a later expires_at does not lengthen it', null, accepted + 100 * HOUR, accepted + 72 * HOUR],
      ['a send_at in the past does not shorten it', accepted - HOUR, null, accepted + 72 * HOUR],
    ] as const) {
      it(reason, () => {
        assert.equal(giveUpAt({ maxAge: 72 * HOUR, rules: [] }, mail, accepted, sendAt, expiresAt), expected);
      });
    }
  });

  describe('rules', () => {
    const rule = (own: Partial<MailRule>): MailRule => ({ name: 'one', match: {}, each: [], ...own });
    const rules = [
      rule({ match: { stream: 'codes' }, retry: [MINUTE] }),
      rule({ match: { account: 'acc_1', domain: 'else.test' }, maxAge: HOUR }),
      rule({ match: { stream: 'codes' }, retry: [HOUR], maxAge: 2 * HOUR }),
      rule({ match: { domain: 'slow.test' }, retry: [9 * HOUR] }),
    ];
    for (const [what, own, waits, hours] of [
      ['mail that none matches has the usual ones', {}, schedule, 72],
      ['the first that says it counts, for each of the two', { stream: 'codes' }, [MINUTE], 2],
      ['all that a rule names has to be the same', { domain: 'else.test' }, schedule, 1],
      ['another account has the usual age', { domain: 'else.test', account: 'acc_2' }, schedule, 72],
      ['a domain has its own waits', { domain: 'slow.test' }, [9 * HOUR], 72],
    ] as const)
      it(what, () => {
        const one = { ...mail, ...own };
        assert.deepEqual(scheduleFor({ schedule, rules }, one).schedule, waits);
        assert.equal(giveUpAt({ maxAge: 72 * HOUR, rules }, one, 0, null, null), hours * HOUR);
      });

    it('know the longest wait of any mail', () => {
      assert.equal(longestWait({ schedule, maxAge: 0, rules }), 9 * HOUR);
    });
  });

  describe('domainIsGone', () => {
    for (const [reason, count, minutes, gone] of [
      ['one answer settles nothing', 1, 0, false],
      ['three answers within 20 minutes are one slip', 3, 19.9, false],
      ['two answers over an hour are too few', 2, 60, false],
      ['three answers over 20 minutes settle it', 3, 20, true],
      ['and so do more', 5, 60, true],
    ] as const) {
      it(reason, () => {
        assert.equal(domainIsGone(count, 1000, 1000 + minutes * MINUTE), gone);
      });
    }

    it('comes true within the ordinary schedule', () => {
      const tries = [0];
      for (let attempt = 1; attempt < 6; attempt++) tries.push(nextTryAt({ schedule }, attempt, tries.at(-1)!, MIDDLE));
      const settled = tries.findIndex((at, index) => domainIsGone(index + 1, 0, at));
      assert.equal(tries[settled], 21 * MINUTE);
    });
  });
});
