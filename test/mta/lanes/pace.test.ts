import assert from 'node:assert/strict';
import fc from 'fast-check';
import { begun, ended, newPace, readyAt, shifted, slowed, taken, type Pace } from '../../../src/mta/lanes/pace.ts';

const MINUTE = 60_000;

/** Begins mails as soon as they may, each accepted at once, for so long; gives how many and the pace after. */
function run(pace: Pace, from: number, ms: number, most: number | null, stepMs = 100): [number, Pace] {
  let [sent, now, state] = [0, from, pace];
  for (; now < from + ms; now += stepMs) {
    if (readyAt(state, most, now) > now) continue;
    state = taken(begun(state, most, now), now);
    sent++;
  }
  return [sent, state];
}

interface Receiver {
  accepts(now: number): boolean;
}
/** Accepts N in each minute of its clock. */
function fixedWindow(most: number, offset: number): Receiver {
  let [window, count] = [-1, 0];
  return {
    accepts(now) {
      const at = Math.floor((now + offset) / MINUTE);
      if (at !== window) [window, count] = [at, 0];
      if (count >= most) return false;
      count++;
      return true;
    },
  };
}
/** N in any minute. */
function slidingWindow(most: number): Receiver {
  const times: number[] = [];
  return {
    accepts(now) {
      while (times.length > 0 && (times[0] ?? 0) <= now - MINUTE) times.shift();
      if (times.length >= most) return false;
      times.push(now);
      return true;
    },
  };
}

/** A backlog without end over so many connections, each mail taking `serviceMs`. */
function play(
  receiver: Receiver,
  minutes: number,
  serviceMs: number,
  connections: number,
): { accepted: number; refused: number } {
  let [pace, accepted, refused] = [newPace(0), 0, 0];
  const busy: { endsAt: number; startedAt: number }[] = [];
  const from = 10 * MINUTE;
  for (let now = 0; now < from + minutes * MINUTE;) {
    while (busy.length > 0 && (busy[0]?.endsAt ?? 0) <= now) {
      const { startedAt } = busy.shift() ?? { startedAt: 0 };
      const isTaken = receiver.accepts(now);
      pace = isTaken ? taken(pace, now) : slowed(pace, '450 too much mail', startedAt, now);
      // The mails that it takes to find the limit are not counted.
      if (now >= from) isTaken ? accepted++ : refused++;
    }
    while (busy.length < connections && readyAt(pace, null, now) <= now) {
      pace = begun(pace, null, now);
      busy.push({ endsAt: now + serviceMs, startedAt: now });
    }
    const ready = busy.length < connections ? readyAt(pace, null, now) : Infinity;
    now = Math.max(now + 1, Math.ceil(Math.min(ready, busy[0]?.endsAt ?? Infinity)));
  }
  return { accepted, refused };
}

describe('mta/lanes/pace', () => {
  it('limits nothing until a receiver asks for it', () => {
    const [sent] = run(newPace(0), 0, MINUTE, null);
    assert.equal(sent, 600);
  });

  it("keeps the operator's limit", () => {
    const [sent] = run(newPace(0), 0, 10 * MINUTE, 30);
    assert.ok(sent >= 300 && sent <= 302, String(sent));
  });

  it('is what was accepted within the last minute, once for refusals that come together', () => {
    const [, busy] = run(newPace(0), 0, MINUTE, null);
    const first = slowed(busy, '450 too much mail', MINUTE - 1, MINUTE);
    assert.ok((first.perMinute ?? 0) > 560 && (first.perMinute ?? 0) < 600, String(first.perMinute));
    assert.equal(first.cause, '450 too much mail');
    assert.ok(readyAt(first, null, MINUTE) >= MINUTE + 5000, 'and it pauses');
    assert.equal(slowed(first, 'again', MINUTE + 1, MINUTE + 1999).perMinute, first.perMinute);
    assert.equal(
      slowed(first, 'again', MINUTE, MINUTE + 10_000).perMinute,
      first.perMinute,
      'begun before the refusal',
    );
    assert.equal(slowed(newPace(0), 'x', 0, 0).perMinute, 6, 'refused before anything was accepted');
  });

  it('pauses longer while nothing is accepted, up to a minute, and never stops', () => {
    let [pace, now] = [newPace(0), 0];
    const pauses: number[] = [];
    for (let count = 0; count < 8; count++) {
      pace = slowed(begun(pace, null, now), '450 no', now, now);
      pauses.push(readyAt(pace, null, now) - now);
      assert.ok((pace.perMinute ?? 0) >= 1);
      now = readyAt(pace, null, now);
    }
    assert.deepEqual(pauses, [5000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000, 60_000]);
  });

  it('grows by a tenth for each minute in which it was used, then by more, and is forgotten at last', () => {
    let pace: Pace = { ...newPace(0), perMinute: 600 };
    const seen = [600];
    for (let minute = 0; minute < 90 && pace.perMinute !== null; minute++) {
      [, pace] = run(pace, minute * MINUTE, MINUTE, null, 2);
      if (pace.perMinute !== null && pace.perMinute !== seen.at(-1)) seen.push(pace.perMinute);
    }
    assert.deepEqual(seen.slice(0, 4), [600, 660, 727, 909]);
    assert.equal(pace.perMinute, null);
  });

  it('does not grow while little of it is used, and a rest does not count as a quiet minute', () => {
    let pace: Pace = { ...newPace(0), perMinute: 600 };
    for (let minute = 1; minute < 30; minute++) pace = taken(begun(pace, null, minute * MINUTE), minute * MINUTE);
    assert.equal(pace.perMinute, 600);
  });

  it('forgets no limit when the clock is set', () => {
    const pace: Pace = { ...newPace(0), perMinute: 60, nextAt: 5000 };
    const moved = shifted(pace, 3_600_000);
    assert.deepEqual([moved.perMinute, moved.nextAt], [60, 3_605_000]);
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

  it('always comes round: a mail may begin within two minutes, whatever has happened', () => {
    const step = fc.record({
      what: fc.constantFrom('begin', 'accept', 'refuse', 'end'),
      wait: fc.nat({ max: 20_000 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        let [pace, now] = [newPace(0), 0];
        for (const { what, wait } of steps) {
          now += wait;
          if (what === 'begin') pace = readyAt(pace, null, now) > now ? pace : begun(pace, null, now);
          else if (what === 'accept') pace = taken(pace, now);
          else if (what === 'refuse') pace = slowed(pace, 'no', now, now);
          else pace = ended(pace);
        }
        while (pace.inFlight > 0) pace = ended(pace);
        assert.ok(readyAt(pace, null, now) - now <= 125_000, String(readyAt(pace, null, now) - now));
        assert.ok(pace.perMinute === null || pace.perMinute >= 1);
      }),
    );
  });

  describe('a receiver that takes so many a minute gets nearly as many', () => {
    for (const most of [1, 2, 5, 10, 60, 300, 1000, 3000])
      for (const [kind, receiver] of [
        ['each minute of its clock', fixedWindow(most, 17_000)],
        ['any minute', slidingWindow(most)],
      ] as const)
        it(`${most} in ${kind}`, () => {
          const minutes = most < 10 ? 120 : 20;
          const { accepted, refused } = play(receiver, minutes, 50, 10);
          const share = accepted / (most * minutes);
          const refusals = refused / (accepted + refused);
          assert.ok(share >= 0.85, `${(share * 100).toFixed(1)} % of the allowance used`);
          assert.ok(refusals < 0.1, `${(refusals * 100).toFixed(1)} % refused`);
        });
  });
});
