/** The headline of the overview and of the statistics, and what mail is compared with. */
import assert from 'node:assert/strict';
import { comparable, deliveredText, type Counts } from '../../src/dashboard/comparison.ts';

const counts = (sent: number, bounced = 0, complained = 0): Counts =>
  ({ sent, delivered: sent - bounced, bounced, complained }) as Counts;
const words = { now: 'today', before: 'by this hour yesterday' };

describe('dashboard/comparison', () => {
  for (const [name, now, before, text] of [
    ['no mail', counts(0), null, 'Nothing was sent today'],
    ['few mails', counts(20, 5), counts(900), '15 of 20 delivered today'],
    [
      'better',
      counts(1000, 10),
      counts(1000, 18),
      '99.0 % delivered today, 0.8 points more than by this hour yesterday',
    ],
    ['the same', counts(1000, 10), counts(500, 5), '99.0 % delivered today, the same as by this hour yesterday'],
    [
      'over the first limit',
      counts(1000, 25),
      counts(1000, 40),
      'Bounced 2.50 %, over the limit of 2 %; 97.5 % delivered today',
    ],
    [
      'over two limits',
      counts(10_000, 600, 31),
      counts(10_000, 900),
      'Complaints 0.330 %, 4.1 times the limit of 0.08 %; 94.0 % delivered today',
    ],
    [
      'over two limits, by bounces the more',
      counts(10_000, 2500, 5),
      null,
      'Bounced 25.00 %, 6.3 times the limit of 4 %; 75.0 % delivered today',
    ],
  ] as const)
    it(`says in one sentence: ${name}`, () => {
      assert.equal(deliveredText(now, before, words), text.replaceAll(' %', '\u00a0%'));
    });

  it('compares only with a time that had at least half as much mail', () => {
    assert.equal(comparable(counts(100), counts(49)), null);
    assert.equal(comparable(counts(0), counts(0)), null);
    assert.notEqual(comparable(counts(100), counts(50)), null);
    assert.notEqual(comparable(counts(0), counts(50)), null);
  });
});
