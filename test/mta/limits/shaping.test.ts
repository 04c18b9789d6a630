import assert from 'node:assert/strict';
import { readLimitRules, rulesWith } from '../../../src/config/limit-rules.ts';
import { readSettings } from '../../../src/config/validate.ts';
import type { ShapingRule } from '../../../src/config/shaping.ts';
import type { BounceClass, BounceReason, Outcome } from '../../../src/messages/delivery/delivery.ts';
import { compileRules, shape, type ShapingMemory } from '../../../src/mta/limits/shaping.ts';

const around = { cwd: '/', privileged: false, terminal: false, hostname: 'mail.test' };

/** Rules as the settings hold them. */
function rulesOf(written: unknown): readonly ShapingRule[] {
  const reading = readSettings({ delivery: { shaping: written } }, around);
  if (reading.kind === 'bad') throw new Error(reading.mistakes.join('\n'));
  return reading.config.delivery.shaping;
}

function refused(
  smtpCode: number,
  enhancedCode: string | null,
  smtpReply: string,
  verdict: [BounceClass, BounceReason] = ['block', 'policy'],
): Outcome {
  const facts = {
    startedAt: 0,
    endedAt: 0,
    mx: 'mx',
    ip: '192.0.2.1',
    source: null,
    tls: null,
    timings: {},
    smtpCode,
    enhancedCode,
    smtpReply,
  };
  return { kind: 'refused', facts, verdict: { class: verdict[0], reason: verdict[1] } };
}

describe('mta/limits/shaping', () => {
  const rule = { name: 'r', count: 1, within: '1m', action: 'slow' };
  const blocked = refused(550, '5.7.1', 'Service refused: listed at Spamhaus');
  for (const [match, outcome, operator, expected, reason] of [
    [{ class: 'block' }, blocked, null, true, 'the class'],
    [{ class: 'hard' }, blocked, null, false, 'another class'],
    [{ reason: 'policy' }, blocked, null, true, 'the reason'],
    [{ code: '550' }, blocked, null, true, 'the code'],
    [{ code: '5xx' }, blocked, null, true, 'any such code'],
    [{ code: '4xx' }, blocked, null, false, 'none such'],
    [{ code: '5.7.1' }, blocked, null, true, 'the enhanced code'],
    [{ code: '5.7.x' }, blocked, null, true, 'any such enhanced code'],
    [{ code: '5.7.10' }, blocked, null, false, 'not its beginning'],
    [{ code: '4.7.x' }, refused(421, null, 'bye'), null, false, 'no enhanced code'],
    [{ text: 'listed (at|by) spamhaus' }, blocked, null, true, 'the text, whatever the case'],
    [{ text: '^spamhaus' }, blocked, null, false, 'not there'],
    [{ operator: 'google' }, blocked, 'google', true, 'whose host it is'],
    [{ operator: 'google' }, blocked, null, false, 'nobody in the table'],
    [{ class: 'block', operator: 'google' }, blocked, 'yahoo', false, 'all of what is named'],
    [{ text: 'z$' }, refused(550, null, `${'a'.repeat(600)}z`), null, false, 'no further than 500 characters'],
  ] as const) {
    it(`${JSON.stringify(match)} ${expected ? 'matches' : 'does not match'}: ${reason}`, () => {
      const rules = compileRules(rulesOf([{ ...rule, match }]));
      assert.equal(shape(rules, new Map(), operator, outcome, 0).length, expected ? 1 : 0);
    });
  }

  it('fires at its count within its time, then counts again from 0', () => {
    const rules = compileRules(rulesOf([{ ...rule, match: { class: 'block' }, count: 3, within: '10s' }]));
    const memory: ShapingMemory = new Map();
    const fired = [0, 1000, 11_500, 12_000, 13_000, 14_000, 15_000, 16_000].map(
      (now) => shape(rules, memory, null, blocked, now).length,
    );
    assert.deepEqual(fired, [0, 0, 0, 0, 1, 0, 0, 1]);
  });

  it('says nothing to what was accepted', () => {
    const rules = compileRules(rulesOf([{ ...rule, match: { code: '5xx' } }]));
    assert.deepEqual(shape(rules, new Map(), null, { ...blocked, kind: 'accepted', viaRelay: false }, 0), []);
  });

  it('ships a rule: many blocks slow the lane down; what is about one recipient or one list is not shaping', () => {
    const rules = compileRules(rulesWith(readLimitRules(), []));
    const [own] = rulesOf([{ ...rule, name: 'many-blocks', match: { class: 'block' } }]);
    assert.deepEqual(
      rulesWith(readLimitRules(), own === undefined ? [] : [own]),
      [own],
      'one of the same name replaces it',
    );
    const memory: ShapingMemory = new Map();
    const fired = Array.from({ length: 20 }, (_, now) => shape(rules, memory, null, blocked, now));
    assert.ok(fired.slice(0, 19).every((one) => one.length === 0));
    assert.deepEqual(
      fired[19]?.map(({ rule: { name, action } }) => [name, action]),
      [['many-blocks', 'slow']],
    );
    const greylisted = refused(450, '4.7.1', 'Greylisted', ['soft', 'rate_limited']);
    const busy = Array.from({ length: 100 }, (_, now) => shape(rules, memory, null, greylisted, 100 + now));
    assert.deepEqual(busy.flat(), []);
  });

  for (const [written, reason] of [
    [{ ...rule, match: {} }, 'a rule that matches everything'],
    [{ ...rule, match: { code: '250' } }, 'a code that is no refusal'],
    [{ ...rule, match: { text: '(' } }, 'no regular expression'],
    [{ ...rule, match: { text: '(a+)+$' } }, 'nested repetition'],
    [{ ...rule, match: { text: '(a)\\1' } }, 'a backreference'],
    [{ ...rule, match: { text: '(?=a)b' } }, 'look-ahead'],
    [{ ...rule, match: { text: 'a'.repeat(301) } }, 'an endless pattern'],
    [{ ...rule, match: { class: 'block' }, action: 'drop' }, 'no such action'],
    [{ ...rule, match: { class: 'block' }, count: 0 }, 'a count of none'],
    [{ ...rule, match: { class: 'block' }, within: '5' }, 'a time without a unit'],
    [{ ...rule, match: { class: 'block', colour: 'red' } }, 'an unknown member'],
    ['slow', 'no list'],
  ] as const) {
    it(`refuses ${reason}`, () => {
      assert.throws(() => rulesOf(typeof written === 'string' ? written : [written]), /delivery\.shaping/);
    });
  }
});
