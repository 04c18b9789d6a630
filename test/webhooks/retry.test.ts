import assert from 'node:assert/strict';
import fc from 'fast-check';
import { nextTryAt, restAfter, RETRY_WAITS_MS, retryAfterMs, verdictOn } from '../../src/webhooks/retry.ts';

const S = 1000;
const H = 3600 * S;
const DAY = 24 * H;
const NOW = Date.parse('2026-01-31T09:30:00.000Z');

describe('webhooks/retry', () => {
  it('makes ten attempts within about 75.6 hours', () => {
    assert.equal(RETRY_WAITS_MS.length + 1, 10);
    assert.equal(
      RETRY_WAITS_MS.reduce((sum, wait) => sum + wait, 0),
      75 * H + 35 * 60 * S + 5 * S,
    );
    assert.equal(nextTryAt(10, NOW, { random: 0.5 }), null);
  });

  it('strays by a tenth at most', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (attempts, random) => {
          const wait = (nextTryAt(attempts, 0, { random }) ?? 0) / (RETRY_WAITS_MS[attempts - 1] ?? 0);
          assert.ok(wait >= 0.8999 && wait <= 1.1001, String(wait));
        },
      ),
    );
  });

  for (const [attempts, asked, wait, reason] of [
    [1, 60 * S, 60 * S, 'longer than planned: waited for'],
    [1, 0, 5 * S, 'at once: as planned'],
    [5, 60 * S, 5 * H, 'shorter than planned: as planned'],
    [1, 30 * DAY, DAY, 'for a month: a day'],
    [1, null, 5 * S, 'nothing asked'],
  ] as const) {
    it(`waits ${String(wait)} ms after attempt ${String(attempts)} where ${String(asked)} is asked (${reason})`, () => {
      assert.equal(nextTryAt(attempts, NOW, { random: 0.5, retryAfterMs: asked }), NOW + wait);
    });
  }

  for (const [statusCode, asked, rest] of [
    [429, 600 * S, 600 * S],
    [503, 600 * S, 600 * S],
    [429, null, 5 * S],
    [429, 30 * DAY, DAY],
    [503, null, null],
    [500, null, null],
    [null, null, null],
  ] as const) {
    it(`lets an endpoint rest for ${String(rest)} ms after ${String(statusCode)} that asks for ${String(asked)}`, () => {
      assert.equal(restAfter({ statusCode, retryAfterMs: asked }), rest);
    });
  }

  for (const [header, ms, reason] of [
    [undefined, null, 'no header'],
    ['120', 120 * S, 'seconds'],
    ['0', 0, 'none'],
    [' 3 ', 3 * S, 'seconds between white space'],
    ['99999999999', 99_999_999_999 * S, 'more seconds than a century has'],
    ['Sat, 31 Jan 2026 10:30:00 GMT', H, 'a date'],
    ['Sat, 31 Jan 2026 08:30:00 GMT', 0, 'a date that has passed'],
    ['1.5', null, 'no whole number'],
    ['-1', null, 'before now'],
    ['soon', null, 'words'],
    ['Tomorrow, maybe', null, 'words with a comma'],
    ['', null, 'empty'],
    ['9'.repeat(100), null, 'too long'],
  ] as const) {
    it(`reads Retry-After ${JSON.stringify(header)}: ${reason}`, () => {
      assert.equal(retryAfterMs(header, NOW), ms);
    });
  }

  for (const [failures, since, warned, verdict, reason] of [
    [0, null, null, 'fine', 'no failure'],
    [1000, NOW - S, null, 'fine', 'many, but only just now'],
    [1, NOW - DAY, null, 'warn', 'for a day'],
    [1, NOW - 2 * DAY, NOW - DAY, 'fine', 'warned already'],
    [1, NOW - 2 * DAY, NOW - 3 * DAY, 'warn', 'warned of an earlier time'],
    [9, NOW - 5 * DAY, NOW - DAY, 'fine', 'too few'],
    [10, NOW - 5 * DAY + 1, NOW - DAY, 'fine', 'not quite five days'],
    [10, NOW - 5 * DAY, NOW - DAY, 'disable', 'ten in five days'],
  ] as const) {
    it(`finds ${String(failures)} failures ${verdict}: ${reason}`, () => {
      assert.equal(verdictOn({ failures, failing_since: since, warned_at: warned }, NOW), verdict);
    });
  }
});
