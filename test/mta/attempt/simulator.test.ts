import assert from 'node:assert/strict';
import { decide } from '../../../src/messages/delivery/decide.ts';
import { simulate, simulatedEnd, type SimulatedEnd } from '../../../src/mta/attempt/outcome.ts';
import { HOUR, NOW, deliveryState } from '../../support/harness/mail-rows.ts';

const DOMAIN = 'simulator.posthorn.test';

describe('mta/attempt/simulator', () => {
  for (const [outcome, address, end, reason] of [
    [null, `bounced@${DOMAIN}`, 'bounced', 'by its address'],
    [null, `bounced+tag@${DOMAIN}`, 'bounced', 'a tag changes nothing'],
    [null, `Complained@${DOMAIN}`, 'complained', 'nor does case'],
    [null, `somebody@${DOMAIN}`, 'delivered', 'any other name'],
    [null, 'bounced@dest.test', 'delivered', 'the names mean something at the simulator only'],
    ['clicked', `bounced@${DOMAIN}`, 'clicked', 'what was asked for goes first'],
    ['opened', 'ana@dest.test', 'opened', 'also for addresses of a test key'],
    ['nonsense', `deferred@${DOMAIN}`, 'deferred', 'an outcome that is none is not there'],
    [null, `"bounced+x"@${DOMAIN}`, 'delivered', 'a quoted name is a name of its own'],
  ] as const) {
    it(`${address}, ${String(outcome)} -> ${end}: ${reason}`, () => {
      assert.equal(simulatedEnd(outcome, address, DOMAIN), end);
    });
  }

  /** Runs a simulated mail through decide as the engine would; answers what became of it and the time it took. */
  function run(end: SimulatedEnd) {
    let state = deliveryState({ test: true });
    const events: string[] = [];
    let now = NOW;
    for (let attempt = 1; state.dueAt !== null && attempt < 10; attempt++) {
      now = Math.max(now, state.dueAt);
      const claim = decide(state, { kind: 'claimed', epoch: 1, leaseUntil: now + HOUR }, now);
      const { outcome, followUps } = simulate(end, attempt, now);
      state = claim.state;
      events.push(...claim.events.map(({ type }) => type));
      for (const change of [{ kind: 'outcome', epoch: 1, attempt, outcome } as const, ...followUps]) {
        const decision = decide(state, change, now);
        assert.ok(decision.applied, change.kind);
        assert.equal(decision.suppress, null, 'nothing simulated is suppressed');
        events.push(...decision.events.map(({ type }) => type));
        state = decision.state;
      }
    }
    return { status: state.status, events, seconds: (now - NOW) / 1000 };
  }

  for (const [end, status, events] of [
    ['delivered', 'delivered', ['sent', 'delivered']],
    ['bounced', 'bounced', ['sent', 'bounced']],
    ['deferred', 'delivered', ['sent', 'deferred', 'deferred', 'delivered']],
    ['complained', 'complained', ['sent', 'delivered', 'complained']],
    ['opened', 'delivered', ['sent', 'delivered', 'opened']],
    ['clicked', 'delivered', ['sent', 'delivered', 'clicked']],
  ] as const) {
    it(`${end}: ${events.join(', ')}, within 15 s`, () => {
      const ran = run(end);
      assert.deepEqual([ran.status, ran.events], [status, [...events]]);
      assert.ok(ran.seconds < 15);
    });
  }
});
