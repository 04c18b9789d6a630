/** The time range of a page, from its address. */
import assert from 'node:assert/strict';
import { rangeOf, type Range } from '../../src/dashboard/range.ts';

const NOW = Date.parse('2026-07-01T12:00:00Z');
const rangeAt = (address: string, zone = 'America/New_York'): Range =>
  rangeOf({ query: new URLSearchParams(address), now: NOW, zone }, '30d');

describe('dashboard/range', () => {
  for (const [address, value, since, until] of [
    ['', '30d', '2026-06-02T04:00:00.000Z', null],
    ['range=today', 'today', '2026-07-01T04:00:00.000Z', null],
    ['range=24h', '24h', '2026-06-30T12:00:00.000Z', null],
    ['range=all', 'all', null, null],
    ['range=nonsense', '30d', '2026-06-02T04:00:00.000Z', null],
    ['range=toString', '30d', '2026-06-02T04:00:00.000Z', null],
    ['range=24h&since=2026-06-30T11:00:00.000Z', '24h', '2026-06-30T11:00:00.000Z', null],
    ['range=24h&since=nonsense', '24h', '2026-06-30T12:00:00.000Z', null],
    ['range=custom', 'custom', null, null],
    [
      'range=custom&from=2026-06-01T00:00&to=2026-06-02T00:00',
      'custom',
      '2026-06-01T04:00:00.000Z',
      '2026-06-02T04:00:00.000Z',
    ],
    ['range=custom&from=2026-06-01', 'custom', '2026-06-01T04:00:00.000Z', null],
    ['range=custom&to=2026-06-01&tz=Europe/Berlin', 'custom', null, '2026-05-31T22:00:00.000Z'],
    // From and to count only if they are chosen.
    ['range=7d&from=2026-06-01', '7d', '2026-06-25T04:00:00.000Z', null],
  ] as const)
    it(`reads ${JSON.stringify(address)}`, () => {
      const range = rangeAt(address);
      assert.deepEqual([range.value, range.since, range.until, range.fault], [value, since, until, null]);
      assert.equal(range.choices.filter(({ on }) => on).length, 1);
    });

  const WRONG = 'From and to are two dates, the first one before the second, so all times are shown.';
  for (const [address, fault] of [
    ['range=custom&from=soon', WRONG],
    ['range=custom&from=x&to=2026-02-30', WRONG],
    ['range=custom&from=2026-06-02&to=2026-06-01', WRONG],
    ['tz=Mars/Olympus', 'There is no time zone “Mars/Olympus”, so times are in America/New_York.'],
  ] as const)
    it(`says what is wrong with ${address}`, () => {
      const range = rangeAt(address);
      assert.equal(range.fault, fault);
    });

  it('says in words what is shown, and fills the fields', () => {
    assert.equal(rangeAt('range=24h').label, 'Last 24 hours');
    const { label, from, to, zone } = rangeAt('range=custom&from=2026-06-01&to=2026-06-02T08:30&tz=europe/berlin');
    assert.equal(label, 'From 2026-06-01 00:00 to 2026-06-02 08:30 (Europe/Berlin)');
    assert.deepEqual([from, to, zone], ['2026-06-01T00:00', '2026-06-02T08:30', 'Europe/Berlin']);
  });
});
