import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { MINUTE_MS } from '../../../src/base/time.ts';
import { readBounceRules, readOperators } from '../../../src/config/data-file.ts';
import { readLimitRules, withOwn } from '../../../src/config/limit-rules.ts';
import { readSettings } from '../../../src/config/load.ts';
import type { ShapingRule } from '../../../src/config/shaping.ts';
import { createJudge, readRefusal } from '../../../src/messages/delivery/classify.ts';
import type { BounceClass, BounceReason, Outcome } from '../../../src/messages/delivery/delivery.ts';
import { subjectOf } from '../../../src/mta/attempt/subject.ts';
import { isAboutOne, ruled } from '../../../src/mta/limits/learn.ts';
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

const nobody = { operator: null, domain: null };

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
      assert.equal(shape(rules, new Map(), { operator, domain: null }, outcome, 0).length, expected ? 1 : 0);
    });
  }

  it('fires at its count within its time, then counts again from 0', () => {
    const rules = compileRules(rulesOf([{ ...rule, match: { class: 'block' }, count: 3, within: '10s' }]));
    const memory: ShapingMemory = new Map();
    const fired = [0, 1000, 11_500, 12_000, 13_000, 14_000, 15_000, 16_000].map(
      (now) => shape(rules, memory, nobody, blocked, now).length,
    );
    assert.deepEqual(fired, [0, 0, 0, 0, 1, 0, 0, 1]);
  });

  it('counts for itself what is about one domain of an operator, and slows nothing down for it', () => {
    const pauses = { ...rule, match: { class: 'block' }, count: 2, action: 'pause' };
    const rules = compileRules(rulesOf([pauses, { ...rule, match: { class: 'block' }, count: 1 }]));
    const memory: ShapingMemory = new Map();
    const fired = ['a.test', 'b.test', null, 'a.test'].map((domain, now) =>
      shape(rules, memory, { operator: 'google', domain }, blocked, now).map((one) => one.rule.action),
    );
    assert.deepEqual(fired, [[], [], ['slow'], ['pause']]);
    for (let at = 0; at < 5_000; at++)
      shape(rules, memory, { operator: 'google', domain: `${String(at)}.test` }, blocked, at);
    assert.ok(memory.size <= 1_000, 'a number of counts is remembered');
  });

  it('says nothing to what was accepted', () => {
    const rules = compileRules(rulesOf([{ ...rule, match: { code: '5xx' } }]));
    assert.deepEqual(shape(rules, new Map(), nobody, { ...blocked, kind: 'accepted', viaRelay: false }, 0), []);
  });

  it('ships a rule: many blocks slow the lane down; what is about one recipient or one list is not shaping', () => {
    const rules = compileRules(withOwn(readLimitRules().rules, []));
    const [own] = rulesOf([{ ...rule, name: 'many-blocks', match: { class: 'block' } }]);
    const replaced = withOwn(readLimitRules().rules, own === undefined ? [] : [own]);
    assert.equal(replaced.length, rules.length);
    assert.deepEqual(
      replaced.find(({ name }) => name === 'many-blocks'),
      own,
      'one of the same name replaces it',
    );
    const memory: ShapingMemory = new Map();
    const fired = Array.from({ length: 20 }, (_, now) => shape(rules, memory, nobody, blocked, now));
    assert.ok(fired.slice(0, 19).every((one) => one.length === 0));
    assert.deepEqual(
      fired[19]?.map(({ rule: { name, action } }) => [name, action]),
      [['many-blocks', 'slow']],
    );
    const greylisted = refused(450, '4.7.1', 'Greylisted', ['soft', 'rate_limited']);
    const busy = Array.from({ length: 100 }, (_, now) => shape(rules, memory, nobody, greylisted, 100 + now));
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

describe('config/limits.yaml: the rules of single operators', () => {
  const rules = compileRules(readLimitRules().rules.filter(({ match }) => match.operator !== undefined));
  const judge = createJudge(readBounceRules([]));
  const replies = ['replies.txt', 'replies-by-system.txt']
    .flatMap((file) => readFileSync(path.resolve(import.meta.dirname, '../../fixtures', file), 'utf8').split('\n'))
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.replace(/^\w+ \w+ /, ''));
  const answered = (reply: string): Outcome => {
    const refusal = readRefusal(reply);
    const { class: bounceClass, reason } = judge(refusal);
    return refused(refusal.code ?? 0, refusal.enhanced, refusal.text, [bounceClass, reason]);
  };
  const matched: Readonly<Record<string, readonly string[]>> = {
    'outlook-reputation': [
      '421 RP-002 not so quickly',
      '451 4.7.650 The mail server [192.0.2.1] has been',
      '421 RP-001 (BAY004-MC1F1)',
    ],
    'gmx-later': [
      '421 Rate limit reached.',
      '421-gmx.test Service not',
      '450-Requested mail action not taken: mailbox',
    ],
    'cisco-hour': ['452 Too many recipients received this hour'],
    'qq-frequency': ['550 Ip frequency limited.'],
    'netease-address': ['421 HL:IFC 163', '421 HL:REP 163'],
  };

  it('are each tested here, and are about operators in the table', () => {
    const names = rules.map(({ name }) => name);
    assert.deepEqual(names.sort(), Object.keys(matched).sort());
    const operators = readOperators(null).map(({ name }) => name);
    for (const { match } of rules) assert.ok(operators.includes(match.operator ?? ''), match.operator);
  });

  for (const rule of rules)
    it(`${rule.name} matches what it is for, and no other of ${String(replies.length)} replies; then mail pauses`, () => {
      const operator = rule.match.operator ?? null;
      const once = [{ ...rule, count: 1 }];
      const found = replies.filter(
        (reply) => shape(once, new Map(), { operator, domain: null }, answered(reply), 0).length > 0,
      );
      const expected = matched[rule.name] ?? [];
      assert.equal(found.length, expected.length, found.join('\n'));
      for (const start of expected)
        assert.ok(
          found.some((reply) => reply.startsWith(start)),
          start,
        );
      for (const reply of found) {
        const refusal = readRefusal(reply);
        assert.ok(!isAboutOne(subjectOf(refusal, judge(refusal))), `the engine lets it count: ${reply}`);
      }
      const memory: ShapingMemory = new Map();
      const fired = Array.from({ length: rule.count }, (_, now) =>
        shape([rule], memory, { operator, domain: 'a.test' }, answered(found[0] ?? ''), now),
      );
      assert.deepEqual(
        fired.map((one) => one.length),
        [...Array<number>(rule.count - 1).fill(0), 1],
      );
      const action = { kind: 'pause', ms: rule.for, domain: 'a.test' } as const;
      const limit = ruled({ get: () => undefined, of: () => [] }, { site: 's', source: '' }, action, rule.name, 0);
      assert.deepEqual([limit?.domain, limit?.until], ['a.test', rule.for]);
      assert.ok(rule.action === 'pause' && rule.for >= 15 * MINUTE_MS && rule.for <= 60 * MINUTE_MS);
    });

  it('say nothing of another operator’s answers', () => {
    for (const reply of replies) assert.deepEqual(shape(rules, new Map(), nobody, answered(reply), 0), []);
  });
});
