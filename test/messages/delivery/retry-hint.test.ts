import assert from 'node:assert/strict';
import fc from 'fast-check';
import { askedPause } from '../../../src/messages/delivery/retry.ts';

const SECOND = 1000;
const MINUTE = 60_000;

describe('messages/retry-hint', () => {
  for (const [text, ms] of [
    ['Greylisted, please try again in 300 seconds', 300 * SECOND],
    ['4.7.1 Greylisting in action, please come back in 00:05:00', 5 * MINUTE],
    ['please retry in 1:30:00 or so', 90 * MINUTE],
    ['try again after 5 minutes.', 5 * MINUTE],
    ['Please retry later, in 10 min', 10 * MINUTE],
    ['wait 90s', 90 * SECOND],
    ['delayed for at least 2 hours', 120 * MINUTE],
    ['Retry-After: 120 s', 120 * SECOND],
    ['Greylisted for 5 minutes', 5 * MINUTE],
    ['bitte in 5 Minuten erneut versuchen', null],
    ['bitte erneut nach 5 Minuten', 5 * MINUTE],
    ['try again later', null],
    ['try again later, connection timed out after waiting 30 seconds', null],
    ['try again in a while', null],
    ['retry in 5 apples', null],
    ['you sent 300 messages in 60 seconds', null],
    ['wait 5 constructor', null],
    ['', null],
  ] as const) {
    it(`${JSON.stringify(text)}: ${ms === null ? 'nothing is asked for' : `${ms / SECOND} s`}`, () => {
      assert.equal(askedPause(text), ms);
    });
  }

  it('reads anything, and gives a number or nothing', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const ms = askedPause(`try again in ${text}`);
        assert.ok(ms === null || (Number.isFinite(ms) && ms >= 0));
      }),
    );
  });
});
