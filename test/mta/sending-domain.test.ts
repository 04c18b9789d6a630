import assert from 'node:assert/strict';
import { subjectOf } from '../../src/mta/attempt/subject.ts';

const soft = { class: 'soft', reason: 'other', greylisting: false } as const;
const block = { class: 'block', reason: 'policy', greylisting: false } as const;

describe('mta/attempt/subject: what is wrong with the domain of one account', () => {
  const passing: [string, string][] = [
    ['4.1.8', '<x@bad.test>: Sender address rejected: Domain not found'],
    ['4.7.26', 'This mail has been rate limited because it is unauthenticated'],
    ['4.7.23', 'The sending IP does not match the SPF record'],
    ['', 'Sender verify failed'],
  ];
  for (const [enhanced, text] of passing)
    it(`is not the load of the receiver, nor a rate of all: ${enhanced} ${text}`, () => {
      const refusal = { code: 450, enhanced: enhanced === '' ? null : enhanced, phase: 'mail', text } as const;
      assert.equal(subjectOf(refusal, soft), 'sender');
    });

  for (const text of [
    '<x@bad.test>: Sender address rejected: blocked using dbl.spamhaus.org',
    'Blocked: a URL in the message is listed by multi.surbl.org',
  ])
    it(`is no block list of addresses: ${text}`, () => {
      assert.equal(subjectOf({ code: 554, enhanced: '5.7.1', phase: 'rcpt', text }, block), 'sender');
    });

  it('is not meant by lists of addresses, busy servers and rates', () => {
    const of = (code: number, enhanced: string, text: string) =>
      subjectOf({ code, enhanced, phase: 'mail', text }, code >= 500 ? block : soft);
    assert.equal(of(554, '5.7.1', 'blocked using zen.spamhaus.org'), 'block_list');
    assert.equal(of(451, '4.3.2', 'System overloaded'), 'load');
    assert.equal(of(451, '4.7.500', 'Server busy'), 'load');
    assert.equal(of(421, '4.7.28', 'unusual rate of mail from your address'), 'rate');
  });
});
