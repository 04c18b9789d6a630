import assert from 'node:assert/strict';
import { nextSlice } from '../../../src/base/slices.ts';
import { createIntake, type Turn } from '../../../src/messages/accept/intake.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';

const SMALL = 4096;
const LARGE = 100 * 1024;

describe('the intake', () => {
  const order: string[] = [];
  beforeEach(() => {
    order.length = 0;
  });

  /** Begins the turn of a mail; its name is in `order` when it has come. */
  function mail(intake: ReturnType<typeof createIntake>, account: string, bytes: number, name: string): Turn {
    const turn = intake.begin(account);
    void turn.take(bytes).then(() => order.push(name));
    return turn;
  }

  it('has a number of mails at work at a time, of which one account gets a part', async () => {
    const intake = createIntake({ clock: new FakeClock() });
    const [first, second] = Array.from({ length: 60 }, (_, at) => mail(intake, 'acc_greedy', SMALL, `g${String(at)}`));
    for (let at = 0; at < 20; at++) mail(intake, 'acc_other', SMALL, `o${String(at)}`);
    await nextSlice();
    const others = Array.from({ length: 16 }, (_, at) => `o${String(at)}`);
    assert.deepEqual([order.length, order.slice(48)], [64, others]);
    first?.end();
    first?.end();
    second?.end();
    await nextSlice();
    assert.deepEqual(order.slice(64), ['g48', 'o16']);
  });

  it('counts a large mail as three, and lets as many small ones in when it ends', async () => {
    const intake = createIntake({ clock: new FakeClock() });
    const large = Array.from({ length: 17 }, (_, at) => mail(intake, 'acc', LARGE, `large ${String(at)}`));
    for (let at = 0; at < 5; at++) mail(intake, 'acc', SMALL, `small ${String(at)}`);
    await nextSlice();
    assert.equal(order.length, 16);
    large[0]?.end();
    await nextSlice();
    assert.deepEqual(order.slice(16), ['large 16']);
    large[1]?.end();
    await nextSlice();
    assert.deepEqual(order.slice(17), ['small 0', 'small 1', 'small 2']);
  });

  it('refuses at once what is more than may wait', async () => {
    const intake = createIntake({ clock: new FakeClock() }, { most: 2, mostOfShare: 2, waiting: 3 });
    const taken = Array.from({ length: 5 }, () => intake.begin('acc'));
    const come = taken.map((turn) => turn.take(SMALL));
    await assert.rejects(intake.begin('acc').take(SMALL), { code: 'service_unavailable', retryAfter: 1 });
    for (const [at, turn] of taken.entries()) {
      await come[at];
      turn.end();
    }
    const again = Array.from({ length: 5 }, () => intake.begin('acc').take(SMALL));
    await Promise.all(again.slice(0, 2));
    await assert.rejects(intake.begin('acc').take(SMALL), { code: 'service_unavailable' });
  });

  it('ends the turn of a mail that takes long, so that accounts with slow templates hold up no other', async () => {
    const clock = new FakeClock();
    const intake = createIntake({ clock });
    const slow = Array.from({ length: 48 }, (_, at) => mail(intake, 'acc_slow', SMALL, `slow ${String(at)}`));
    for (let at = 0; at < 48; at++) mail(intake, 'acc_slower', SMALL, `slower ${String(at)}`);
    mail(intake, 'acc_other', SMALL, 'other');
    await nextSlice();
    assert.equal(order.length, 64);
    clock.advance(499);
    await nextSlice();
    assert.equal(order.length, 64);
    clock.advance(1);
    await nextSlice();
    assert.ok(order.includes('other'));
    for (const turn of slow) turn.end();
    await nextSlice();
    assert.equal(order.length, 97, 'each left once');
  });
});
