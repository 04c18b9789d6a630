import assert from 'node:assert/strict';
import type { Log } from '../../../src/base/log.ts';
import type { Outcome } from '../../../src/messages/delivery/delivery.ts';
import { createSetUpWarnings } from '../../../src/mta/attempt/attempt.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { accepted, factsOf } from '../../support/harness/outcomes.ts';

const MINUTE = 60_000;

const refused = (rule: string, infrastructure: boolean): Outcome => ({
  kind: 'refused',
  facts: factsOf({ smtpCode: 550, enhancedCode: '5.7.25', smtpReply: '5.7.25 no PTR' }),
  verdict: { class: 'block', reason: 'policy' },
  grounds: { rule, infrastructure, greylisting: false, about: 'sender' },
});

describe('mta/attempt/attempt, warnings', () => {
  let clock: FakeClock;
  let lines: Record<string, unknown>[];
  let note: (lane: string, outcome: Outcome) => void;
  beforeEach(() => {
    clock = new FakeClock();
    lines = [];
    const ignore = (): void => undefined;
    const log: Log = {
      debug: ignore,
      info: ignore,
      error: ignore,
      warn: (fields) => lines.push(fields),
      child: () => log,
    };
    note = createSetUpWarnings({ clock, log });
  });

  it('warns of a refusal that is about our set-up, with what was said', () => {
    note('dest.test', refused('veto:policy', true));
    assert.deepEqual(lines, [
      {
        event: 'infrastructure_bounce',
        lane: 'dest.test',
        host: 'mx1.dest.test',
        source: null,
        code: 550,
        enhanced: '5.7.25',
        text: '5.7.25 no PTR',
        reason: 'policy',
        rule: 'veto:policy',
        unreported: 0,
      },
    ]);
  });

  it('says nothing of others', () => {
    note('dest.test', refused('veto:spam', false));
    note('dest.test', accepted());
    note('dest.test', { kind: 'refused', facts: factsOf(), verdict: { class: 'hard', reason: 'null_mx' } });
    assert.deepEqual(lines, []);
  });

  it('says it once in ten minutes for each lane and rule, and then how often it happened', () => {
    for (let i = 0; i < 5; i++) note('dest.test', refused('veto:policy', true));
    note('dest.test', refused('veto:dmarc', true));
    note('other.test', refused('veto:policy', true));
    assert.equal(lines.length, 3);
    clock.advance(10 * MINUTE - 1);
    note('dest.test', refused('veto:policy', true));
    assert.equal(lines.length, 3);
    clock.advance(1);
    note('dest.test', refused('veto:policy', true));
    assert.deepEqual([lines.length, lines[3]?.['unreported']], [4, 5]);
  });

  it('remembers only so many', () => {
    for (let i = 0; i < 3_000; i++) note(`${i}.test`, refused('veto:policy', true));
    note('2999.test', refused('veto:policy', true));
    assert.equal(lines.length, 3_000);
    note('0.test', refused('veto:policy', true));
    assert.equal(lines.length, 3_001);
  });
});
