/** Clocks and days of time zones, over changes of the clock. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { beginOfDay, momentIn, wallClock, zoneNamed } from '../../src/base/zones.ts';

const utc = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString().slice(0, 19));

describe('base/zones', () => {
  it('knows zones by name and no other', () => {
    for (const [name, zone] of [
      ['Europe/Berlin', 'Europe/Berlin'],
      ['europe/berlin', 'Europe/Berlin'],
      ['UTC', 'UTC'],
      ['', null],
      [null, null],
      ['Mars/Olympus', null],
      ['x'.repeat(65), null],
    ] as const)
      for (const time of ['first', 'second']) assert.equal(zoneNamed(name), zone, time);
  });

  for (const [at, zone, shown] of [
    ['2026-01-31T09:30:02Z', 'UTC', '2026-01-31 09:30:02'],
    ['2026-01-31T23:30:02Z', 'Europe/Berlin', '2026-02-01 00:30:02'],
    ['2026-07-01T03:59:59Z', 'America/New_York', '2026-06-30 23:59:59'],
    ['2026-01-31T18:30:00Z', 'Asia/Kolkata', '2026-02-01 00:00:00'],
  ] as const)
    it(`shows ${at} in ${zone} as ${shown}`, () => {
      assert.equal(wallClock(Date.parse(at), zone), shown);
    });

  for (const [local, zone, moment] of [
    ['2026-02-01', 'Europe/Berlin', '2026-01-31T23:00:00'],
    ['2026-02-01T09:30', 'America/New_York', '2026-02-01T14:30:00'],
    ['2026-02-01T09:30:15', 'UTC', '2026-02-01T09:30:15'],
    // The clocks go forward from 02:00 to 03:00: half past two is half past three.
    ['2026-03-29T02:30', 'Europe/Berlin', '2026-03-29T01:30:00'],
    // They go back from 03:00 to 02:00: half past two comes twice.
    ['2026-10-25T02:30', 'Europe/Berlin', '2026-10-25T00:30:00'],
    // Midnight is left out.
    ['2026-09-06', 'America/Santiago', '2026-09-06T04:00:00'],
    ['2026-02-30', 'UTC', null],
    ['2026-02-01T24:30', 'UTC', null],
    ['2026-2-1', 'UTC', null],
    ['0001-01-01', 'UTC', null],
    ['yesterday', 'UTC', null],
    ['2026-02-01T09:30Z', 'UTC', null],
    ['', 'UTC', null],
  ] as const)
    it(`reads ${JSON.stringify(local)} in ${zone} as ${moment ?? 'no moment'}`, () => {
      assert.equal(utc(momentIn(local, zone)), moment);
    });

  it('comes back to the same moment, but for the hour that comes twice', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: Date.parse('1990-01-01'), max: Date.parse('2090-01-01') }),
        fc.constantFrom('Asia/Kolkata', 'America/Santiago', 'Pacific/Apia', 'Europe/London', 'Australia/Lord_Howe'),
        (ms, zone) => {
          const at = Math.floor(ms / 1000) * 1000;
          const read = momentIn(wallClock(at, zone).replace(' ', 'T'), zone);
          assert.ok(read !== null);
          assert.equal(wallClock(read, zone), wallClock(at, zone));
          const begin = beginOfDay(at, zone);
          assert.ok(begin <= at && at - begin < 26 * 3_600_000);
        },
      ),
    );
  });
});
