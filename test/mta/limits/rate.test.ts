import assert from 'node:assert/strict';
import fc from 'fast-check';
import { newLimit, type Limit } from '../../../src/messages/limits/limit.ts';
import { slowed, taken } from '../../../src/mta/limits/learn.ts';
import { Traffic } from '../../../src/mta/limits/allowance.ts';

const MINUTE = 60_000;
const NOW = 1_767_225_600_000;

/** A receiver: whether it takes one more mail at this time. */
type Receiver = (now: number) => boolean;

/** A window that begins with the first mail after the last one; refused mails count, too, as Postfix's anvil counts. */
function fixed(most: number, ms = MINUTE): Receiver {
  let since = -Infinity;
  let count = 0;
  return (now) => {
    if (now - since >= ms) [since, count] = [now, 0];
    return ++count <= most;
  };
}

/** A window that begins with each minute of the clock. */
function ofTheClock(most: number): Receiver {
  let minute = -1;
  let count = 0;
  return (now) => {
    const its = Math.floor(now / MINUTE);
    if (its !== minute) [minute, count] = [its, 0];
    return ++count <= most;
  };
}

function sliding(most: number): Receiver {
  let times: number[] = [];
  return (now) => {
    times = times.filter((time) => time > now - MINUTE);
    if (times.length >= most) return false;
    times.push(now);
    return true;
  };
}

function leakyBucket(size: number, perMinute: number): Receiver {
  let left = size;
  let at = NOW;
  return (now) => {
    left = Math.min(size, left + ((now - at) * perMinute) / MINUTE);
    at = now;
    if (left < 1) return false;
    left--;
    return true;
  };
}

interface Played {
  /** When mails were accepted, in ms since the start. */
  accepted: number[];
  refused: number;
}

/** Returns numbers from 0 up to so many, small ones more often: the same ones in each run. */
function lateness(most: number): () => number {
  let seed = 1;
  return () => {
    seed = (seed * 48_271) % 0x7f_ff_ff_ff;
    return most * (seed / 0x7f_ff_ff_ff) ** 3;
  };
}

/**
 * Sends as much as it may for so long over five connections; `unluckyAt`: one mail is refused then, whatever was sent; `late`: a mail goes, and
 * comes, up to so many ms later than it may.
 */
function play(receiver: Receiver, minutes: number, { unluckyAt = Infinity, latency = 50, late = 0 } = {}): Played {
  const lateBy = lateness(late);
  let delay = lateBy();
  const traffic = new Traffic(NOW);
  const free = [0, 0, 0, 0, 0].map((ms) => NOW + ms);
  const answers: { at: number; say: () => void }[] = [];
  const played: Played = { accepted: [], refused: 0 };
  let limit = null as Limit | null;
  let unlucky = NOW + unluckyAt;
  for (let now = NOW; ;) {
    free.sort((a, b) => a - b);
    answers.sort((a, b) => a.at - b.at);
    const from = Math.max(now, free[0] ?? now);
    const allowed = Math.max(limit?.until ?? 0, traffic.readyAt(limit?.perMinute ?? null, from));
    const ready = allowed > now ? allowed + delay : allowed;
    const [answer] = answers;
    if (answer !== undefined && answer.at <= ready) {
      now = answer.at;
      answers.shift();
      answer.say();
      continue;
    }
    if (ready > NOW + minutes * MINUTE) return played;
    now = ready;
    delay = lateBy();
    const startedAt = now;
    const at = now + latency + lateBy();
    traffic.begin(limit?.perMinute ?? null, now);
    free[0] = at;
    const say = (): void => {
      const isUnlucky = at >= unlucky;
      if (isUnlucky) unlucky = Infinity;
      if (!isUnlucky && receiver(at)) {
        played.accepted.push(at - NOW);
        traffic.take(at);
        if (limit !== null) limit = taken(limit, (ms) => traffic.lastMinute(at, ms), at);
        return;
      }
      played.refused++;
      traffic.end();
      const before: Limit = limit ?? newLimit('rate', { site: 'a.test', source: '', domain: null, account: null }, at);
      limit = slowed(
        before,
        { reply: '450 too much', startedAt, acceptedWithin: (ms) => traffic.lastMinute(at, ms) },
        at,
      );
      traffic.rest(limit.until, limit.perMinute ?? 1);
      if (before.perMinute !== null) assert.ok((limit.perMinute ?? 0) >= Math.max(1, Math.floor(before.perMinute / 2)));
    };
    answers.push({ at, say });
  }
}

const receivers: Readonly<Record<string, (perMinute: number) => Receiver>> = {
  'a window from the first mail on': (perMinute) => fixed(perMinute),
  'the minutes of the clock': ofTheClock,
  'a sliding window': sliding,
  'a leaky bucket': (perMinute) => leakyBucket(perMinute, perMinute),
  'a leaky bucket of five mails': (perMinute) => leakyBucket(5, perMinute),
};

describe('mta/limits/rate', () => {
  for (const [name, make] of Object.entries(receivers))
    for (const perMinute of [1, 3, 10, 30, 60, 120, 600])
      it(`uses 90 % of ${String(perMinute)} a minute, and 70 % after an unlucky refusal: ${name}`, () => {
        const used = play(make(perMinute), 20);
        assert.ok(used.accepted.length >= 0.9 * perMinute * 20, String(used.accepted.length));
        // Two a minute, or one of 250 mails.
        assert.ok(used.refused <= Math.max(2, perMinute / 250) * 20, `${String(used.refused)} refused`);
        const unlucky = play(make(perMinute), 20, { unluckyAt: 2.5 * MINUTE });
        assert.ok(unlucky.accepted.length >= 0.7 * perMinute * 20, String(unlucky.accepted.length));
      });

  for (const [name, make] of Object.entries(receivers))
    for (const perMinute of [30, 60, 120])
      it(`uses 90 % of ${String(perMinute)} a minute on a machine that is busy: ${name}`, () => {
        // A small bucket is empty sooner if two mails come together.
        for (const late of [100, 400, 1000]) {
          const least = name.includes('five') && late * perMinute > 400 * 60 ? 0.8 : 0.9;
          const { accepted } = play(make(perMinute), 20, { late });
          assert.ok(accepted.length >= least * perMinute * 20, `${String(late)} ms: ${String(accepted.length)}`);
        }
      });

  it('counts mail that was under way at the first refusal, and grows if the minute is full', () => {
    const about = { site: 'a.test', source: '', domain: null, account: null };
    const refusal = { reply: '450 too much', startedAt: NOW, acceptedWithin: () => 5 };
    const first = slowed(newLimit('rate', about, NOW), refusal, NOW);
    const next = taken(first, () => 6, NOW + 100);
    assert.deepEqual([first.perMinute, next?.perMinute], [6, 7]);
    // Its number was used up by then, so that the next mail goes a minute later.
    assert.equal(taken({ ...first, step: 0 }, () => 4, NOW + 2 * MINUTE)?.perMinute, 12);
  });

  it('keeps to what is allowed, whatever the rate and the latency are', () => {
    const runs = fc.record({
      perMinute: fc.integer({ min: 1, max: 300 }),
      latency: fc.integer({ min: 5, max: 5_000 }),
    });
    fc.assert(
      fc.property(runs, ({ perMinute, latency }) => {
        const { accepted, refused } = play(sliding(perMinute), 15, { latency });
        // Five connections carry no more than this.
        const able = Math.min(perMinute * 15, (15 * MINUTE * 5) / latency);
        assert.ok(accepted.length >= 0.8 * able - 5, `${String(accepted.length)} of ${String(able)}`);
        assert.ok(refused <= 40, String(refused));
      }),
      { numRuns: 40 },
    );
  });

  it('uses the windows of an hour and of a day', () => {
    assert.ok(play(fixed(100, 60 * MINUTE), 5 * 60).accepted.length >= 450);
    assert.ok(play(fixed(500, 24 * 60 * MINUTE), 2 * 24 * 60).accepted.length >= 900);
  });

  it('finds out within two minutes that a limit was lifted', () => {
    const receiver = fixed(30);
    let isLifted = false;
    const { accepted } = play((now) => {
      isLifted ||= now - NOW > 5 * MINUTE;
      return isLifted || receiver(now);
    }, 8);
    const last = accepted.filter((at) => at > 6.5 * MINUTE && at <= 7.5 * MINUTE);
    assert.ok(last.length > 40, String(last.length));
  });

  it('asks again soon while mails are under way that may be refused, and after the minute if they were accepted', () => {
    const traffic = new Traffic(NOW);
    for (let at = 0; at < 30; at++) traffic.begin(null, NOW);
    for (let at = 0; at < 29; at++) traffic.take(NOW);
    assert.equal(traffic.readyAt(30, NOW), NOW + 2_000);
    traffic.take(NOW);
    assert.equal(traffic.readyAt(30, NOW), NOW + 62_000);
  });

  it('tries again within two minutes, however long nothing is taken', () => {
    const { accepted } = play((now) => now - NOW > 60 * MINUTE, 63);
    assert.ok((accepted[0] ?? Infinity) < 62 * MINUTE);
  });
});
