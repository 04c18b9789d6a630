/** The phases that a refusal may have been given in, by what its attempt has kept. */
import assert from 'node:assert/strict';
import { bounceRuleFile, type BounceRule } from '../../src/config/bounce-rule.ts';
import { attemptCorrector, type PastAttempt } from '../../src/operator/reports/reclassify-attempts.ts';

const attempt = (fields: Partial<PastAttempt>): PastAttempt => ({
  row_id: 1,
  id: 'att_1',
  delivery_id: 'dlv_1',
  message_id: 'msg_1',
  timings_json: '{}',
  outcome: 'refused',
  smtp_code: 550,
  enhanced_code: '5.1.1',
  smtp_reply: 'closed for repair',
  mx: 'mx.dest.test',
  class: 'hard',
  reason: 'mailbox_not_found',
  ...fields,
});
const rulesOf = (...rules: object[]): readonly BounceRule[] =>
  bounceRuleFile.parse({
    rules: rules.map((rule) => ({
      name: 'house',
      class: 'soft',
      reason: 'network',
      text: ['closed for repair'],
      ...rule,
    })),
  }).rules;

/** Returns the new class and reason, or null if the attempt stays as it is. */
const corrected = (fields: Partial<PastAttempt>, ...rules: object[]): string | null => {
  const [found] = attemptCorrector(rulesOf(...rules))(attempt(fields));
  return found === undefined ? null : `${found.verdict.class} ${found.verdict.reason}`;
};

describe('operator: past attempts and own rules', () => {
  for (const [what, fields, phases, expected] of [
    ['a refusal of the recipient', { timings_json: '{"mail":3,"rcpt":2,"data":0,"dot":0}' }, ['rcpt'], 'soft network'],
    ['commands sent at once', { timings_json: '{"mail":3,"rcpt":0,"data":0,"dot":0}' }, ['data'], 'soft network'],
    ['the answer to the mail', { timings_json: '{"mail":3,"rcpt":2,"data":2,"dot":9}' }, ['dot'], 'soft network'],
    ['a body that was sent', { timings_json: '{"mail":3,"rcpt":2,"data":2,"dot":9}' }, ['rcpt'], null],
    ['a body that was not sent', { timings_json: '{"mail":3,"rcpt":2,"data":2,"dot":0}' }, ['dot'], null],
    ['times that were not taken', {}, ['dot'], 'soft network'],
    ['a phase before the transfer', {}, ['ehlo'], null],
    ['a bounce mail', {}, ['report'], null],
  ] as const)
    it(`${expected === null ? 'leaves' : 'corrects'}: ${what}, by a rule for ${phases.join()}`, () => {
      assert.equal(corrected(fields, { phases }), expected);
    });

  it('asks about a refusal before the transfer in its phases, where each is soft', () => {
    const greeted = {
      outcome: 'deferred',
      class: 'soft',
      reason: 'policy',
      timings_json: '{"connect":9,"banner":3}',
    } as const;
    assert.equal(corrected(greeted, { phases: ['banner'], class: 'block', reason: 'reputation' }), 'soft reputation');
    assert.equal(corrected(greeted, { phases: ['rcpt'], class: 'block', reason: 'reputation' }), null);
    assert.equal(corrected({ ...greeted, timings_json: '{}' }, { phases: ['connect'] }), 'soft network');
  });

  it('asks about a temporary refusal in every phase where no time was taken', () => {
    const deferred = {
      outcome: 'deferred',
      smtp_code: 450,
      enhanced_code: '4.2.0',
      class: 'soft',
      reason: 'other',
    } as const;
    for (const phase of ['rcpt', 'mail', 'banner'])
      assert.equal(corrected(deferred, { phases: [phase] }), 'soft network', phase);
  });

  it('lets the rule decide that stands first in the phase', () => {
    const rules = [
      { phases: ['dot'], reason: 'network' },
      { name: 'other', reason: 'other' },
    ];
    assert.equal(corrected({ timings_json: '{"mail":3,"rcpt":2,"data":2,"dot":9}' }, ...rules), 'soft network');
    assert.equal(corrected({ timings_json: '{"mail":3,"rcpt":2}' }, ...rules), 'soft other');
  });

  it('leaves attempts without a reply, and what the rules say already', () => {
    assert.equal(corrected({ smtp_code: null }, {}), null);
    assert.equal(corrected({ class: null, outcome: 'accepted' }, {}), null);
    assert.equal(corrected({ class: 'soft', reason: 'network' }, {}), null);
  });
});
