import assert from 'node:assert/strict';
import fc from 'fast-check';
import { errorOf, NetworkError } from '../../src/client/errors.ts';
import { LONGEST_RETRY_AFTER_S, waitAfter } from '../../src/client/transport.ts';

const refusal = (status: number, retryAfter?: string): Error =>
  errorOf(status, new Headers(retryAfter === undefined ? {} : { 'retry-after': retryAfter }), '', 0);

describe('client/retry', () => {
  for (const [reason, error, wait] of [
    ['no answer', new NetworkError('x', 'connection'), 375],
    ['too late an answer', new NetworkError('x', 'timeout'), 375],
    ['500', refusal(500), 375],
    ['503 with Retry-After', refusal(503, '2'), 2250],
    ['429 with Retry-After', refusal(429, '31'), 31_250],
    ['429 of a proxy, without', refusal(429), 375],
    ['a quota that is used up until tomorrow', refusal(429, '40000'), null],
    ['400: it would fail again', refusal(400), null],
    ['404', refusal(404), null],
    ['408: permanent by the law of this API', refusal(408), null],
    ['409', refusal(409, '1'), null],
    ['301: the address is wrong', refusal(301), null],
    ['a bug', new TypeError('x'), null],
  ] as const) {
    it(`${reason}: ${wait === null ? 'never' : `after ${wait} ms`}`, () => {
      assert.equal(waitAfter(error, 1, 0.5), wait);
    });
  }

  it('waits longer each time, up to a limit', () => {
    const waits = [1, 2, 3, 4, 5, 6, 50].map((failures) => waitAfter(refusal(500), failures, 1));
    assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
  });

  it('is never earlier than Retry-After, and never without end', () => {
    const any = fc.tuple(
      fc.integer({ min: 0, max: LONGEST_RETRY_AFTER_S }),
      fc.integer({ min: 1, max: 1000 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
    );
    fc.assert(
      fc.property(any, ([seconds, failures, random]) => {
        const wait = waitAfter(refusal(503, String(seconds)), failures, random);
        return wait !== null && wait >= seconds * 1000 && wait <= seconds * 1000 + 500;
      }),
    );
  });
});
