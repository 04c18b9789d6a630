import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  carried,
  dialFailed,
  dialled,
  isDown,
  isFree,
  openGate,
  sessionBroke,
  tryNow,
  waitOf,
  type DialGate,
} from '../../../src/mta/connection/pooled-host.ts';

const failedDial = (gate: DialGate, standing: number, text: string, now: number, lot: number): DialGate =>
  dialFailed(gate, standing, { text }, now, lot);

const MOST = 20;

/** A host that lets so many in, and a sender that dials whenever the gate lets it. */
class Play {
  gate: DialGate = openGate;
  now = 0;
  open = 0;
  readonly dials: number[] = [];
  readonly refused: number[] = [];
  private readonly dialling: number[] = [];

  run(ms: number, cap: number, dialMs = 10, wanted = 10): void {
    for (const end = this.now + ms; this.now < end; this.now += 10) {
      while ((this.dialling[0] ?? Infinity) <= this.now) this.ends(cap);
      // Connections that a receiver no longer allows end when they are used up; those that are open go on meanwhile.
      while (this.standing().open < wanted && waitOf(this.gate, this.standing(), MOST, this.now) === null) {
        this.dials.push(this.now);
        this.dialling.push(this.now + dialMs);
      }
    }
  }

  standing(): { open: number; dialling: number } {
    return { open: this.open + this.dialling.length, dialling: this.dialling.length };
  }

  private ends(cap: number): void {
    this.dialling.shift();
    if (this.open < cap) {
      this.open++;
      this.gate = carried(dialled(this.gate, this.open, MOST, this.now));
    } else {
      this.refused.push(this.now);
      this.gate = failedDial(this.gate, this.open, 'too many', this.now, 0.5);
    }
  }
}

function mostIn(times: readonly number[], ms: number): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + ms).length));
}

describe('mta/connection/dial-gate', () => {
  it('lets one dial through to a host that was not reached yet, and the others after it', () => {
    assert.equal(waitOf(openGate, { open: 0, dialling: 0 }, MOST, 0), null);
    assert.deepEqual(waitOf(openGate, { open: 1, dialling: 1 }, MOST, 0), { why: 'opening', until: null });
    assert.equal(waitOf(openGate, { open: 2, dialling: 1 }, MOST, 0), null);
    assert.deepEqual(waitOf(openGate, { open: MOST, dialling: 0 }, MOST, 0), { why: 'full', until: null });
  });

  it('pauses longer after each dial that fails while nothing is open: three are a dead host', () => {
    let [gate, now] = [openGate, 0];
    const pauses: number[] = [];
    for (let count = 0; count < 9; count++) {
      gate = failedDial(gate, 0, 'connection refused', now, 0);
      pauses.push(gate.closedUntil - now);
      assert.deepEqual(waitOf(gate, { open: 0, dialling: 0 }, MOST, now), {
        why: 'closed',
        how: 'unreachable',
        until: gate.closedUntil,
        cause: 'connection refused',
        since: now,
      });
      now = gate.closedUntil;
      assert.equal(waitOf(gate, { open: 0, dialling: 0 }, MOST, now), null, 'one tries');
      assert.equal(waitOf(gate, { open: 1, dialling: 1 }, MOST, now)?.why, 'probing', 'and one only');
    }
    assert.deepEqual(pauses, [1000, 2000, 60_000, 120_000, 240_000, 480_000, 900_000, 900_000, 900_000]);
  });

  it('counts what fails together as one failure', () => {
    let gate = failedDial(openGate, 0, 'x', 0, 0);
    for (let count = 0; count < 10; count++) gate = failedDial(gate, 0, 'x', 5, 0);
    assert.deepEqual([gate.failures, gate.closedUntil], [1, 1000]);
  });

  it('a session that breaks closes it too; after three one connection is open at a time until a mail is answered for', () => {
    let [gate, now] = [openGate, 0];
    const pauses: number[] = [];
    for (let count = 0; count < 15; count++) {
      gate = dialled(gate, 1, MOST, now);
      gate = sessionBroke(gate, 'mail: reset', now, 0);
      pauses.push(gate.closedUntil - now);
      now = gate.closedUntil;
      assert.equal(waitOf(gate, { open: 1, dialling: 0 }, MOST, now)?.why, count < 2 ? undefined : 'probing');
    }
    assert.deepEqual(pauses.slice(0, 8), [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    assert.equal(pauses.at(-1), 900_000);
    assert.equal(waitOf(carried(gate), { open: 1, dialling: 0 }, MOST, now), null);
  });

  it('a host that refuses the mail of an open connection for the number of connections has refused the dial', () => {
    const refused = { text: '421 too many connections', isRefusal: true, wasOpen: true };
    let [gate, now] = [openGate, 0];
    const pauses: number[] = [];
    for (let count = 0; count < 4; count++) {
      gate = dialFailed(dialled(gate, 1, MOST, now), 0, refused, now, 0);
      const wait = waitOf(gate, { open: 0, dialling: 0 }, MOST, now);
      assert.equal(wait?.why === 'closed' && wait.how, 'refused');
      pauses.push(gate.closedUntil - now);
      now = gate.closedUntil;
    }
    assert.deepEqual(pauses, [1000, 2000, 60_000, 120_000], 'however often it lets one in');
    assert.equal(isFree(carried(gate)), true);
    assert.equal(dialFailed(dialled(openGate, 4, MOST, 0), 3, refused, 0, 0).cap, 3, 'where others are open');
  });

  it('a dial that succeeds ends the failures of dials, not those of sessions', () => {
    assert.equal(dialled(failedDial(openGate, 0, 'x', 0, 0), 1, MOST, 1000).failures, 0);
    assert.equal(dialled(sessionBroke(openGate, 'x', 0, 0), 1, MOST, 1000).failures, 1);
    assert.equal(isFree(carried(sessionBroke(openGate, 'x', 0, 0))), true);
  });

  it('takes a refusal while connections are open as their number, at once', () => {
    const gate = failedDial(openGate, 4, '421 too many connections', 1000, 0);
    assert.equal(gate.cap, 4);
    const again = failedDial(gate, 3, 'too many', 1100, 0);
    assert.equal(again.cap, 3);
    const full = waitOf(gate, { open: 4, dialling: 0 }, MOST, 1000);
    assert.deepEqual(full, { why: 'cap', until: 31_000, cause: '421 too many connections', since: 1000 });
    const broken = sessionBroke(gate, 'dot: read ECONNRESET', 2000, 0);
    assert.deepEqual(
      waitOf({ ...broken, failures: 0, closedUntil: 0 }, { open: 4, dialling: 0 }, MOST, 3000),
      { why: 'cap', until: 31_000, cause: '', since: 1000 },
      'a session that broke since is not what the host has said of the number',
    );
    assert.equal(isDown({ why: 'cap' }), false, 'mail does not go to a worse host for it');
    assert.equal(waitOf(gate, { open: 3, dialling: 0 }, MOST, 1999)?.until, 2000, 'its place is free soon');
    assert.equal(waitOf(gate, { open: 3, dialling: 0 }, MOST, 2000), null);
    assert.equal(waitOf(gate, { open: 4, dialling: 0 }, MOST, 31_000), null, 'one more is tried');
    assert.equal(waitOf(gate, { open: 5, dialling: 1 }, MOST, 31_000)?.why, 'opening', 'one');
    const more = dialled(gate, 5, MOST, 31_000);
    assert.deepEqual([more.cap, waitOf(more, { open: 5, dialling: 0 }, MOST, 31_000)?.until], [5, 41_000]);
  });

  it('bug: a node that got no connection while others had all paused for up to 18 minutes; it asks again after 30 to 60 s', () => {
    const crowded = { text: '421 too many connections', isRefusal: true, isCrowded: true };
    let [gate, now] = [openGate, 0];
    for (const lot of [0, 0.5, 0.999, 0, 0.999]) {
      gate = dialFailed(gate, 0, crowded, now, lot);
      assert.equal(Math.round((gate.closedUntil - now) / 1000), Math.round(30 * (1 + lot)));
      assert.equal(waitOf(gate, { open: 0, dialling: 0 }, MOST, now)?.why, 'closed');
      now = gate.closedUntil;
      assert.equal(waitOf(gate, { open: 1, dialling: 1 }, MOST, now)?.why, 'probing', 'one dial at a time');
    }
    assert.deepEqual(dialled(gate, 1, MOST, now).failures, 0, 'a place was free');
    assert.equal(
      failedDial(gate, 0, 'connection refused', now, 0).closedUntil - now,
      2000,
      'other failures go on as usual',
    );
  });

  it('forgets the cap when the host takes as many as we open', () => {
    const gate = dialled(failedDial(openGate, MOST - 1, 'x', 0, 0), MOST, MOST, 60_000);
    assert.equal(gate.cap, null);
  });

  it("tries at once on an operator's request, and one at a time where the host had failed", () => {
    let gate = openGate;
    for (let count = 0; count < 4; count++) gate = failedDial(gate, 0, 'x', gate.closedUntil, 0);
    const now = 5000;
    assert.equal(waitOf(tryNow(gate), { open: 0, dialling: 0 }, MOST, now), null);
    assert.equal(waitOf(tryNow(gate), { open: 1, dialling: 1 }, MOST, now)?.why, 'probing');
    const full = tryNow(failedDial(openGate, 2, 'x', now, 0));
    assert.equal(waitOf(full, { open: 2, dialling: 0 }, MOST, now), null);
  });

  it('keeps no endless reply', () => {
    for (const gate of [
      failedDial(openGate, 0, 'x'.repeat(9000), 0, 0),
      sessionBroke(openGate, 'x'.repeat(9000), 0, 0),
    ])
      assert.equal(gate.cause.length, 200);
  });

  it('ten connections and then one: few dials are refused, and never more than three in a second', () => {
    const play = new Play();
    play.run(2000, 10);
    assert.equal(play.open, 10);
    play.open = 1;
    play.run(30_000, 1);
    assert.ok(play.refused.length <= 12, String(play.refused.length));
    assert.ok(
      mostIn(
        play.refused.filter((at) => at > 4000),
        1000,
      ) <= 3,
    );
    play.run(10 * 60_000, 1);
    assert.ok(play.refused.length <= 12 + 21, `${play.refused.length}: one in half a minute`);
  });

  it('comes back from one to five within three minutes, and to all', () => {
    const play = new Play();
    play.run(5000, 1);
    play.run(3 * 60_000, 100);
    assert.ok(play.open >= 5, String(play.open));
    play.run(3 * 60_000, 100);
    assert.equal(play.open, 10);
  });

  it('whatever happens: after a failure one dial at a time, pauses bounded, and it opens again', () => {
    const event = fc.record({
      what: fc.constantFrom('dial', 'good', 'bad', 'broke', 'refused', 'carried', 'ended', 'tryNow'),
      wait: fc.nat({ max: 120_000 }),
      lot: fc.double({ min: 0, max: 0.999, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 100 }), fc.integer({ min: 1, max: 20 }), (events, most) => {
        let [gate, now, open, dialling] = [openGate, 0, 0, 0];
        for (const { what, wait, lot } of events) {
          now += wait;
          if (what === 'dial' && waitOf(gate, { open: open + dialling, dialling }, most, now) === null) {
            dialling++;
            if (gate.failures > 0 || gate.cap !== null) assert.equal(dialling, 1);
            assert.ok(open + dialling <= most);
          } else if (what === 'good' && dialling > 0) {
            dialling--;
            open++;
            gate = dialled(gate, open, most, now);
          } else if (what === 'bad' && dialling > 0) {
            dialling--;
            gate = failedDial(gate, open, 'no', now, lot);
          } else if (what === 'broke' && open > 0) {
            open--;
            gate = sessionBroke(gate, 'reset', now, lot);
          } else if (what === 'refused' && open > 0) {
            open--;
            gate = dialFailed(gate, open, { text: 'too many', isRefusal: true, wasOpen: true }, now, lot);
          } else if (what === 'carried' && open > 0) gate = carried(gate);
          else if (what === 'ended' && open > 0) open--;
          else if (what === 'tryNow') gate = tryNow(gate);
          assert.ok(gate.closedUntil - now <= 900_000 * 1.2);
          assert.ok(gate.cap === null || (gate.cap >= 1 && gate.cap <= most));
          const wait2 = waitOf(gate, { open: open + dialling, dialling }, most, now);
          if (wait2 !== null && wait2.until !== null) assert.ok(wait2.until > now);
        }
        assert.equal(waitOf(gate, { open: 0, dialling: 0 }, most, now + 2_000_000), null);
      }),
    );
  });
});
