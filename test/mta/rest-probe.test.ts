import assert from 'node:assert/strict';
import type { LaneControl } from '../../src/mta/lanes/lane-control.ts';
import type { MailKey } from '../../src/messages/limits/limit.ts';
import type { Subject } from '../../src/messages/delivery/delivery.ts';
import type { Site } from '../../src/mta/sites/sites.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { NOW } from '../support/harness/mail-rows.ts';
import { refused } from '../support/harness/outcomes.ts';
import { controlIn } from './lane-world.ts';

const MINUTE = 60_000;
const tenant = (domain: string): MailKey => ({ account: 'acc', domain });

/** A lane that gets answers without a network, and says when its mail may go. */
class Lane {
  readonly clock = new FakeClock(NOW);
  readonly control: LaneControl;

  constructor(operator: Site['operator'] = null) {
    const pool = {
      room: () => 1,
      usedBy: () => 0,
      waitingLong: () => new Map(),
      waitOf: () => null,
      capOf: () => null,
      tryNow: () => undefined,
    };
    this.control = controlIn({ clock: this.clock, pool });
    this.control.register('mx.a.test', { kind: 'site', name: 'mx.a.test', hosts: [], operator, relay: null }, null);
  }

  /** One mail is tried and gets this answer; false if it may not go. */
  answer(about: Subject, part = tenant('a.test')): boolean {
    if (this.control.allowanceOf('mx.a.test', part).kind === 'wait') return false;
    this.control.take('mx.a.test', part);
    const outcome = refused({ class: 'block', reason: 'policy' });
    const grounds = { rule: 'a test', infrastructure: false, greylisting: false, about };
    this.control.learn('mx.a.test', part, { ...outcome, grounds } as typeof outcome);
    return true;
  }

  /** Until when mail for the first domain waits, or null. */
  until(): number | null {
    const found = this.control.allowanceOf('mx.a.test', tenant('a.test'));
    return found.kind === 'wait' ? found.until : null;
  }

  answers(count: number, about: Subject, part = tenant('a.test')): void {
    for (let i = 0; i < count; i++) this.answer(about, part);
  }
}

describe('mta: the mail that tries after a rest', () => {
  it('ends its try whatever it is answered: an answer of another kind does not stop the lane for good', () => {
    for (const about of ['load', 'tls', 'connections', 'recipient', 'host'] as const) {
      const lane = new Lane();
      lane.answers(5, 'sender');
      assert.equal(lane.answer('sender'), false, 'it rests');
      lane.clock.advance(3 * MINUTE);
      assert.equal(lane.answer(about), true);
      assert.equal(lane.answer(about), true, `another mail may try after an answer about ${about}`);
    }
  });

  it('bug: two mails tried after a rest, since each worker took one before the first was on the wire', () => {
    const lane = new Lane();
    lane.answers(5, 'sender');
    lane.clock.advance(2 * MINUTE);
    const isOpen = () => lane.until() === null;
    for (const _ of ['a mail without a connection', 'another one']) {
      assert.ok(isOpen());
      lane.control.take('mx.a.test', tenant('a.test'));
      assert.ok(!isOpen());
      lane.control.putBack('mx.a.test', tenant('a.test'));
    }
    assert.ok(isOpen());
  });

  it("stands for no other rest of an operator's lane once one of them is prolonged", () => {
    const lane = new Lane({ name: 'farm', mx: [] });
    lane.answers(5, 'sender', tenant('a.test'));
    for (const domain of ['b.test', 'c.test']) lane.answers(1, 'sender', tenant(domain));
    assert.equal(lane.answer('sender', tenant('d.test')), false, 'all of the lane rests');
    lane.clock.advance(3 * MINUTE);
    assert.equal(lane.answer('sender', tenant('a.test')), true);
    assert.equal(lane.answer('sender', tenant('d.test')), true, 'another tenant may try');
  });

  it('leaves no time in the past as the time of the next try, and gives way to who wants to know now', () => {
    const lane = new Lane();
    lane.answers(5, 'sender');
    lane.clock.advance(3 * MINUTE);
    lane.control.take('mx.a.test', tenant('a.test'));
    const [wait] = lane.control.waits('mx.a.test', tenant('a.test'), null);
    assert.deepEqual([wait?.reason, wait?.until], ['receiver_refuses_us', null]);
    lane.control.tryNow('mx.a.test', 'a.test');
    assert.equal(lane.until(), null);
  });
});
