import assert from 'node:assert/strict';

import fc from 'fast-check';

import { parseTime } from '../../../src/messages/request/send-time.ts';

const rows: readonly (readonly [text: string, iso: string | null, why: string])[] = [
  ['2026-01-31T09:30:00Z', '2026-01-31T09:30:00.000Z', 'UTC'],
  ['2026-01-31t09:30:00z', '2026-01-31T09:30:00.000Z', 'small letters (RFC 3339 section 5.6)'],
  ['2026-01-31T10:30:00+01:00', '2026-01-31T09:30:00.000Z', 'east of it'],
  ['2026-01-31T04:00:00.5-05:30', '2026-01-31T09:30:00.500Z', 'west of it, a fraction'],
  ['2026-01-31T09:30:00.123456789Z', '2026-01-31T09:30:00.123Z', 'nanoseconds are cut'],
  ['2026-01-31T09:30:00-00:00', '2026-01-31T09:30:00.000Z', 'an unknown offset'],
  ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z', 'a leap day'],
  ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z', 'a leap second'],
  ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z', 'not 1901'],
  ['2026-02-29T00:00:00Z', null, 'no leap year'],
  ['2026-02-31T00:00:00Z', null, 'no such day'],
  ['2026-13-01T00:00:00Z', null, 'no such month'],
  ['2026-00-10T00:00:00Z', null, 'month zero'],
  ['2026-01-00T00:00:00Z', null, 'day zero'],
  ['2026-01-31T24:00:00Z', null, 'hour 24'],
  ['2026-01-31T09:60:00Z', null, 'minute 60'],
  ['2026-01-31T09:30:61Z', null, 'second 61'],
  ['2026-01-31T09:30:00+24:00', null, 'an offset of a day'],
  ['2026-01-31T09:30:00', null, 'no offset'],
  ['2026-01-31 09:30:00Z', null, 'a space'],
  ['2026-01-31T09:30Z', null, 'no seconds'],
  ['2026-01-31', null, 'a date only'],
  ['2026-01-31T09:30:00Z\n', null, 'a line break behind it'],
  ['1769851800', null, 'a number'],
  ['', null, 'nothing'],
  [`2026-01-31T09:30:00.${'1'.repeat(1e6)}Z`, null, 'a megabyte'],
];

describe('parseTime', () => {
  for (const [text, iso, why] of rows) {
    it(`${text.slice(0, 32)}: ${why}`, () => {
      const at = parseTime(text);
      assert.equal(at === null ? null : new Date(at).toISOString(), iso);
    });
  }

  it('reads every time that toISOString writes', () => {
    const years = {
      min: new Date('0000-01-01T00:00:00Z'),
      max: new Date('9999-12-31T23:59:59.999Z'),
      noInvalidDate: true,
    };
    fc.assert(fc.property(fc.date(years), (date) => assert.equal(parseTime(date.toISOString()), date.getTime())));
  });
});
