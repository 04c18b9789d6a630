import assert from 'node:assert/strict';
import fc from 'fast-check';
import { standingAfter, type Required } from '../../src/domains/verify.ts';
import type { DomainRow } from '../../src/storage/tables.ts';

const HOUR = 60 * 60 * 1000;
const graceMs = 72 * HOUR;
type Row = Parameters<typeof standingAfter>[0];

const fresh = (more: Partial<Row> = {}): Row => ({
  status: 'verified',
  trusted: 0,
  created_at: 0,
  failing_since: null,
  refused_at: null,
  ...more,
});

/** Checks at these hours, each with what it finds; the domain after each. */
function life(checks: readonly (readonly [hour: number, required: Required])[], row = fresh(), grace = graceMs): Row[] {
  return checks.map(([hour, required]) => {
    const now = hour * HOUR;
    row = { ...row, ...standingAfter(row, required, { now, graceMs: grace }) };
    return row;
  });
}
const last = (...args: Parameters<typeof life>): Row => life(...args).at(-1) ?? assert.fail();
const hours = (ms: number | null): number | null => (ms === null ? null : ms / HOUR);
const every = (from: number, to: number, step: number, required: Required): [number, Required][] =>
  Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, n) => [from + n * step, required]);

describe('domains/grace', () => {
  const rows: [
    status: DomainRow['status'],
    trusted: number,
    hours: number,
    found: Required,
    after: DomainRow['status'],
  ][] = [
    ['pending', 0, 1, 'ok', 'verified'],
    ['pending', 0, 1, 'not_ok', 'pending'],
    ['pending', 0, 71.9, 'not_ok', 'pending'],
    ['pending', 0, 72, 'not_ok', 'failed'],
    ['pending', 0, 100, 'ok', 'verified'],
    ['pending', 0, 100, 'unclear', 'pending'],
    ['verified', 0, 1, 'ok', 'verified'],
    ['verified', 0, 100, 'not_ok', 'verified'],
    ['verified', 0, 100, 'unclear', 'verified'],
    ['failed', 0, 1, 'not_ok', 'failed'],
    ['failed', 0, 100, 'unclear', 'failed'],
    ['failed', 0, 100, 'ok', 'verified'],
    ['verified', 1, 100, 'not_ok', 'verified'],
    ['verified', 1, 100, 'unclear', 'verified'],
  ];
  for (const [status, trusted, at, found, after] of rows) {
    it(`${status}${trusted === 1 ? ' (trusted)' : ''} after ${String(at)} h, records ${found}: ${after}`, () => {
      assert.equal(standingAfter(fresh({ status, trusted }), found, { now: at * HOUR, graceMs }).status, after);
    });
  }

  it('counts down from the first check that finds a record missing', () => {
    const { status, failing_since, refused_at } = last([
      [6, 'not_ok'],
      [6.5, 'not_ok'],
      [7, 'not_ok'],
    ]);
    assert.deepEqual([status, hours(failing_since), hours(refused_at)], ['verified', 6, 78]);
  });

  it('refuses only by a check after the end that still finds it missing', () => {
    const counting = [...every(6, 77.5, 0.5, 'not_ok')];
    assert.equal(last(counting).status, 'verified');
    const refused = last([...counting, [78, 'not_ok'], [79, 'not_ok']]);
    assert.deepEqual([refused.status, hours(refused.refused_at)], ['failed', 78]);
    assert.equal(last([...counting, [78, 'unclear'], [100, 'unclear']]).status, 'verified');
    assert.equal(last([...counting, [78, 'ok']]).status, 'verified');
  });

  it('refuses at once where there is no grace', () => {
    const { status, refused_at } = last([[6, 'not_ok']], fresh(), 0);
    assert.deepEqual([status, hours(refused_at)], ['failed', 6]);
  });

  it('takes a change of the setting over at the next check, in both directions', () => {
    const counting = last(every(6, 12, 0.5, 'not_ok'));
    assert.equal(hours(last([[12.5, 'not_ok']], counting, 240 * HOUR).refused_at), 246);
    assert.equal(last([[12.5, 'not_ok']], counting, 3 * HOUR).status, 'failed');
  });

  it('is over once all records are found: the next failure has a countdown of its own', () => {
    const well = last([
      [1, 'not_ok'],
      [2, 'ok'],
    ]);
    assert.deepEqual([well.failing_since, well.refused_at], [null, null]);
    const next = last([[27, 'not_ok']], well);
    assert.deepEqual([hours(next.failing_since), hours(next.refused_at)], [27, 99]);
  });

  it('gives a domain that was refused before there was a grace no countdown', () => {
    const old = fresh({ status: 'failed' });
    assert.deepEqual(last([[1, 'not_ok']], old), old);
    assert.equal(last([[1, 'ok']], old).status, 'verified');
  });

  it('holds whatever DNS does: never refused before its time, and never by trouble', () => {
    const check = fc.record({
      afterMs: fc.integer({ min: 0, max: 100 * HOUR }),
      required: fc.constantFrom<Required>('ok', 'not_ok', 'unclear'),
    });
    fc.assert(
      fc.property(fc.array(check, { maxLength: 60 }), fc.integer({ min: 0, max: 100 }), (checks, graceHours) => {
        let row = fresh();
        let now = 10_000 * HOUR;
        for (const { afterMs, required } of checks) {
          now += afterMs;
          const after = standingAfter(row, required, { now, graceMs: graceHours * HOUR });
          if (row.status === 'verified' && after.status === 'failed') {
            assert.equal(required, 'not_ok');
            assert.ok(now - (after.failing_since ?? now) >= graceHours * HOUR);
          }
          if (required === 'unclear') assert.equal(after.status, row.status);
          if (required === 'ok') assert.deepEqual(after, { status: 'verified', failing_since: null, refused_at: null });
          row = { ...row, ...after };
        }
      }),
    );
  });
});
