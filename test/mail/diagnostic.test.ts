import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readDiagnostic, withoutCodes } from '../../src/mail/diagnostic.ts';

describe('mail/diagnostic', () => {
  for (const [text, code, enhanced, phase, why] of [
    ['550 5.1.1 User unknown', 550, '5.1.1', null, 'a reply'],
    ['smtp; 550 5.1.1 User unknown', 550, '5.1.1', null, 'RFC 3464: type; text'],
    ['smtp;550-5.1.1 no', 550, '5.1.1', null, 'without a space, of several lines'],
    ['550 #5.1.0 Address rejected.', 550, '5.1.0', null, 'with a sign before it'],
    ['550 [5.7.1] no', 550, '5.7.1', null, 'in brackets'],
    ['550 sorry, no mailbox here by that name. (#5.1.1)', 550, '5.1.1', null, 'behind the words'],
    ['host mx.dest.test[192.0.2.1] said: 550 5.1.1 no (in reply to RCPT TO command)', 550, '5.1.1', 'rcpt', 'Postfix'],
    [
      'host mx.dest.test[192.0.2.1] said: 554 no (in reply to end of DATA command)',
      554,
      null,
      'dot',
      'Postfix, after the mail',
    ],
    ['SMTP error from remote mail server after MAIL FROM:<x@y.test>: 550 no', 550, null, 'mail', 'Exim'],
    ['SMTP error from remote mail server after initial connection: 554 no', 554, null, 'connect', 'Exim, at the door'],
    ['host mx.dest.test[192.0.2.1] refused to talk to me: 554 no', 554, null, 'connect', 'Postfix, at the door'],
    [
      'Connected to 192.0.2.1 but sender was rejected. Remote host said: 550 user unknown',
      550,
      null,
      'mail',
      'qmail, of our own address',
    ],
    ['192.0.2.1 does not like recipient. Remote host said: 550 no Giving up on 192.0.2.1.', 550, null, 'rcpt', 'qmail'],
    ['192.0.2.1 failed after I sent the message. Remote host said: 554 no', 554, null, 'dot', 'qmail, after the mail'],
    ['... while talking to mx.dest.test.: >>> DATA <<< 550 5.1.1 no', 550, '5.1.1', 'data', 'Sendmail'],
    [
      "5.1.0 - Unknown address error 550-'5.7.1 Access denied' (delivery attempts: 0)",
      550,
      '5.7.1',
      null,
      'the remote’s own code, not the one around it',
    ],
    ['554 4.4.7 Message expired.<421 4.4.2 Connection timed out>', 554, '4.4.7', null, 'the first of two'],
    ['450-Callout verification failed for <x@y.test>: 450 550 5.1.1 User unknown', 450, null, null, 'the first again'],
    ['smtp; 450 <x@y.test>: unverified: host mx.y.test said: 550 5.1.1 no', 450, null, null, 'the first behind a type'],
    ['220-front.test 421 4.2.1 Service refused', 421, '4.2.1', null, 'a refusal behind a greeting'],
    ['5.2.2 Mailbox full', null, '5.2.2', null, 'an enhanced code alone'],
    ['connect to mx.dest.test[192.0.2.1]:25: Connection timed out', null, null, null, 'no reply at all'],
    ['limit of 500 messages reached on host 192.0.2.554', null, null, null, 'numbers that are no codes'],
    ['version 4.92.3 of it', null, null, null, 'nor is a version an enhanced code'],
    ['', null, null, null, 'nothing'],
  ] as const) {
    it(`${text} -> ${code} ${enhanced} ${phase}: ${why}`, () => {
      const read = readDiagnostic(text);
      assert.deepEqual([read.code, read.enhanced, read.phase], [code, enhanced, phase]);
    });
  }

  it('leaves out what stands before the reply', () => {
    assert.equal(readDiagnostic('host spam.dest.test said: 550 5.1.1 no\r\n such user').text, '550 5.1.1 no such user');
  });

  for (const [text, code, words] of [
    ['5.1.1 no such 5.1.1 user', 550, 'no such user'],
    ['550-5.1.1 no such 550 5.1.1 user', 550, 'no such user'],
    ['554-no such 554 user', 554, 'no such user'],
    ['no such user at 192.0.2.1', 550, 'no such user at 192.0.2.1'],
  ] as const) {
    it(`says "${words}" where "${text}" stands`, () => {
      assert.equal(withoutCodes(text, code).replaceAll(/ +/g, ' ').trim(), words);
    });
  }

  it('reads anything', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const { code, enhanced } = readDiagnostic(text);
        assert.ok(code === null || (code >= 400 && code < 600));
        assert.ok(enhanced === null || /^[245](?:\.\d{1,3}){2}$/.test(enhanced));
        assert.equal(typeof withoutCodes(text, code), 'string');
      }),
    );
  });
});
