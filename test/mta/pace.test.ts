import assert from 'node:assert/strict';
import fc from 'fast-check';
import { begun, newPace, quickened, readyAt, slowed, type Pace } from '../../src/mta/pace.ts';

const MINUTE = 60_000;

/** Begins mails as soon as they may, for so long; gives how many and the pace after. */
function run(pace: Pace, from: number, ms: number, most: number | null, stepMs = 100): [number, Pace] {
  let [sent, now, state] = [0, from, pace];
  for (; now < from + ms; now += stepMs) {
    if (readyAt(state, most, now) > now) continue;
    state = begun(state, most, now);
    sent++;
  }
  return [sent, state];
}

describe('mta/pace', () => {
  it('limits nothing until somebody asks', () => {
    const [sent] = run(newPace(0), 0, MINUTE, null);
    assert.equal(sent, 600);
  });

  it("keeps the operator's limit", () => {
    const [sent] = run(newPace(0), 0, 10 * MINUTE, 30);
    assert.ok(sent >= 300 && sent <= 302, String(sent));
  });

  it('begins at half of what was sent, and halves at most once in ten seconds', () => {
    const [, busy] = run(newPace(0), 0, MINUTE, null);
    const first = slowed(busy, MINUTE - 1);
    assert.equal(first.perMinute, 300);
    assert.equal(slowed(first, MINUTE + 5000).perMinute, 300);
    assert.equal(slowed(first, MINUTE + 10_000).perMinute, 150);
    assert.equal(slowed(newPace(0), 0).perMinute, 1, 'never none at all');
  });

  it('grows by half each quiet minute, until it limits nothing', () => {
    let [, pace] = run(newPace(0), 0, MINUTE, null);
    pace = slowed(pace, MINUTE);
    const seen: (number | null)[] = [];
    for (let minute = 1; minute < 8 && pace.perMinute !== null; minute++) {
      [, pace] = run(pace, minute * MINUTE, MINUTE, null, 10);
      pace = quickened(pace, (minute + 1) * MINUTE);
      seen.push(pace.perMinute);
    }
    assert.deepEqual(seen.slice(0, 2), [450, 675]);
    const [, few] = run(pace, 8 * MINUTE, MINUTE, 10);
    assert.equal(quickened(few, 10 * MINUTE).perMinute, null, 'more than twice what is sent');
    assert.equal(quickened(slowed(newPace(0), 0), 1000).perMinute, 1, 'not before a minute is over');
  });

  it('takes the smaller of both limits', () => {
    const pace: Pace = { ...newPace(0), perMinute: 60 };
    assert.equal(begun(pace, 6, 0).nextAt, 10_000);
    assert.equal(begun(pace, 600, 0).nextAt, 1000);
    assert.equal(begun(pace, null, 0).nextAt, 1000);
  });

  it('never lets more through than its limit, whatever the gaps', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1000 }),
        fc.array(fc.nat({ max: 30_000 }), { maxLength: 200 }),
        (most, gaps) => {
          let [pace, now, sent] = [newPace(0), 0, 0];
          for (const gap of gaps) {
            now += gap;
            if (readyAt(pace, most, now) > now) continue;
            pace = begun(pace, most, now);
            sent++;
          }
          assert.ok(sent <= 2 + (now / MINUTE) * most + 1e-6);
        },
      ),
    );
  });
});
