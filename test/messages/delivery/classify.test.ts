import fc from 'fast-check';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { enhancedOf } from '../../../src/mail/smtp-reply.ts';
import { classify, createJudge, judge, type Refusal, readRefusal } from '../../../src/messages/delivery/classify.ts';
import { corpus, NO_CORPORA } from '../../support/harness/corpora.ts';
import { isSeen, labelledReplies } from '../../support/harness/labelled-replies.ts';

/** `550 5.1.1 text` as said at `phase`. */
function said(reply: string, phase: Refusal['phase'] = 'rcpt'): Refusal {
  const [, code = '', text = ''] = /^(\d{3}) (.*)$/s.exec(reply) ?? [];
  return { phase, code: code === '' ? null : Number(code), enhanced: enhancedOf([text]), text };
}

const rows: readonly (readonly [reply: string, cls: string, reason: string, why: string, phase?: Refusal['phase']])[] =
  [
    // The recipient or its domain is not there.
    ['550 5.1.1 <ana@dest.test> User unknown', 'hard', 'mailbox_not_found', 'the plain case'],
    ['550 5.1.1 no', 'hard', 'mailbox_not_found', 'the enhanced code alone'],
    ['550 no such user here', 'hard', 'mailbox_not_found', 'the words alone'],
    ['550 5.1.2 bad destination system', 'hard', 'domain_not_found', 'RFC 3463 X.1.2'],
    ['550 5.1.3 bad destination syntax', 'hard', 'mailbox_not_found', 'RFC 3463 X.1.3'],
    ['550 5.1.6 moved', 'hard', 'mailbox_not_found', 'RFC 3463 X.1.6'],
    ['556 5.1.10 domain takes no mail', 'hard', 'null_mx', 'RFC 7505'],
    ['550 5.2.1 The account is disabled', 'hard', 'mailbox_disabled', 'RFC 3463 X.2.1'],
    ['550 account closed', 'hard', 'mailbox_disabled', 'words'],
    ['550 account suspended', 'soft', 'mailbox_disabled', 'a lock may pass'],
    // Traps: codes for the recipient that are about something else.
    [
      '550 5.2.1 The user is receiving mail at a rate that prevents more',
      'block',
      'rate_limited',
      'a rate under 5.2.1',
    ],
    ['550 5.1.1 too many recipients this hour', 'block', 'rate_limited', 'a rate under 5.1.1'],
    ['550 5.1.1 RCP-P2 see the response codes', 'block', 'policy', 'a recipient who blocks us under 5.1.1'],
    ['550 5.1.1 rejected, listed in a blocklist', 'block', 'reputation', 'a list under 5.1.1'],
    [
      '550 5.1.8 Domain of sender address x@acme.test does not exist',
      'block',
      'policy',
      'the sender’s domain, not the recipient’s',
    ],
    ['553 sender address does not exist', 'block', 'policy', 'the sender’s address in words only'],
    [
      '550 5.4.1 Recipient address rejected: Access denied',
      'hard',
      'mailbox_not_found',
      'directory-based blocking means an unknown user',
    ],
    ['550 5.1.351 Remote server returned unknown recipient', 'hard', 'mailbox_not_found', 'the same from behind'],
    ['550 5.7.1 Access denied', 'block', 'policy', 'but not under another code'],
    // About us or the content.
    ['550 5.7.1 Message rejected as spam', 'block', 'spam', ''],
    ['554 5.7.1 Service unavailable; client host blocked using zen.example.org', 'block', 'reputation', ''],
    ['550 5.7.26 unauthenticated email from acme.test is not accepted', 'block', 'auth_required', ''],
    ['550 5.7.1 rejected due to acme.test’s DMARC policy', 'block', 'dmarc', ''],
    ['554 5.6.0 message content rejected', 'block', 'content_rejected', ''],
    ['550 5.7.1 relaying denied', 'block', 'policy', ''],
    ['530 5.7.0 Must issue a STARTTLS command first', 'block', 'tls_required', ''],
    ['550 5.7.25 reverse DNS does not match', 'block', 'policy', ''],
    // Passing states.
    ['452 4.2.2 mailbox full', 'soft', 'mailbox_full', ''],
    ['552 5.2.2 user is over quota', 'soft', 'mailbox_full', 'permanent by its code, not by nature'],
    ['552 5.3.4 message size exceeds fixed limit', 'soft', 'message_too_large', ''],
    ['451 4.7.1 Greylisted, try again', 'soft', 'rate_limited', 'greylisting is no block'],
    [
      '421 4.7.0 too many connections from your host',
      'soft',
      'rate_limited',
      'who may come back later is not shut out',
    ],
    ['451 4.3.0 temporary failure', 'soft', 'other', ''],
    ['450 4.1.1 user unknown for now', 'soft', 'other', 'a server that cannot tell yet'],
    ['554 5.4.6 too many hops', 'soft', 'routing_loop', ''],
    // Replies without a recognizable reason.
    ['550 Requested action not taken', 'undetermined', 'other', 'at RCPT'],
    ['554 Transaction failed', 'block', 'policy', 'the same after DATA', 'dot'],
  ];

describe('messages/classify', () => {
  for (const [reply, cls, reason, why, phase] of rows) {
    it(`${reply} -> ${cls}, ${reason}${why === '' ? '' : `: ${why}`}`, () => {
      assert.deepEqual(classify(said(reply, phase)), { class: cls, reason });
    });
  }

  describe('formats finding 7: a pasted reply is heard as the engine hears it, by its first code', () => {
    for (const line of [
      '450 mailbox unavailable: 550 5.7.1 mailbox not available',
      '450-Callout verification failed: 550 550 5.1.1 user unknown',
      '450 permanent failure for one or more recipients (ana@dest.test:550 5.1.1 no such user)',
      '421 4.3.0 host said: 550 5.1.1 <ana@dest.test>: Recipient address rejected',
    ])
      it(line, () => {
        assert.deepEqual(readRefusal(line), { ...said(line.replace(/^(\d{3})-/, '$1 ')), text: line.slice(4) });
        assert.equal(classify(readRefusal(line)).class, 'soft');
      });

    it('and anything else as a diagnostic', () => {
      const { phase, code } = readRefusal('smtp; 550 5.1.1 no such user');
      assert.deepEqual([phase, code], ['report', 550]);
    });
  });

  describe('formats finding 8: that a mail was refused yields to what is said of the mailbox', () => {
    for (const [line, verdict] of [
      [
        '551 You have sent an email to an address not recognised by our system. The email has been refused.',
        'hard mailbox_not_found',
      ],
      ['550 The recipient is not known here. Your mail has been rejected.', 'hard mailbox_not_found'],
      ['550 We do not know this user, message refused', 'hard mailbox_not_found'],
      ['554 Sender unknown. The email has been refused.', 'block policy'],
      ['550 The sender address does not exist; message refused', 'block policy'],
      ['550 Message refused', 'block policy'],
      ['550 The message was rejected by a mail flow rule', 'block policy'],
      ['501 Malformed address', 'hard mailbox_not_found'],
      ['501 Malformed sender address', 'block policy'],
      ['553 5.1.2 Invalid host name', 'hard domain_not_found'],
      ['501 Invalid host name', 'block policy'],
      ['553 5.7.1 Invalid HELO host name', 'block policy'],
    ] as const)
      it(`${line}: ${verdict}`, () => {
        const { class: bounceClass, reason } = classify(said(line));
        assert.equal(`${bounceClass} ${reason}`, verdict);
      });

    it('and is never hard before the recipient was named', () => {
      for (const phase of ['connect', 'ehlo', 'mail'] as const)
        assert.equal(classify(said('501 Malformed address', phase)).class, 'block');
    });
  });

  describe('formats finding 9: reasons', () => {
    for (const [line, verdict] of [
      ['554 5.2.3 MailPolicy violation', 'block policy'],
      ['552 5.2.3 message exceeds the size limit', 'soft message_too_large'],
      ['550 Your sending email account has been temporarily suspended', 'block policy'],
      ['554 The sending account is suspended', 'block policy'],
      ['550 account temporarily suspended', 'soft mailbox_disabled'],
      ['552 5.2.2 Mail quota exceeded', 'soft mailbox_full'],
    ] as const)
      it(`${line}: ${verdict}`, () => {
        const { class: bounceClass, reason } = classify(said(line));
        assert.equal(`${bounceClass} ${reason}`, verdict);
      });
  });

  describe('where it was said', () => {
    for (const phase of ['connect', 'banner', 'ehlo', 'tls', 'auth', 'mail'] as const) {
      it(`is never hard at ${phase}: nobody has looked at the recipient yet`, () => {
        for (const reply of [
          '550 5.1.1 user unknown',
          '550 no such user',
          '556 5.1.10 null MX',
          '550 5.2.1 mailbox disabled',
        ]) {
          assert.notEqual(classify(said(reply, phase)).class, 'hard', reply);
        }
      });
    }

    it('is hard after DATA only when the words name the mailbox', () => {
      assert.deepEqual(classify(said('550 5.1.1 message refused', 'dot')), { class: 'block', reason: 'policy' });
      assert.deepEqual(classify(said('550 5.1.1 no such user', 'dot')), { class: 'hard', reason: 'mailbox_not_found' });
    });

    describe('after the dot, words alone are hard only where nothing stands between the mailbox and its absence', () => {
      for (const [line, verdict] of [
        ['550 Requested action not taken: mailbox unavailable', 'block policy'],
        ['554 This domain does not accept mail', 'block policy'],
        ['550 This system no longer accepts mail in that format', 'block policy'],
        ['554 address book entry of that sort not found', 'block policy'],
        ['550 5.7.1 This system does not accept email with attachments of type .zip', 'block policy'],
        ['554 30 Sorry, your message cannot be delivered. This mailbox is disabled', 'hard mailbox_disabled'],
        ['552 1 Requested mail action aborted, mailbox not found', 'hard mailbox_not_found'],
        ['550 5.1.1 The address ana is invalid', 'hard mailbox_not_found'],
      ] as const)
        it(`${line}: ${verdict}`, () => {
          const { class: bounceClass, reason } = classify(said(line, 'dot'));
          assert.equal(`${bounceClass} ${reason}`, verdict);
        });
    });

    it('is hard by words under a code of policy, content or size only by rules that name their codes', () => {
      const hard =
        readFileSync(path.resolve(import.meta.dirname, '../../fixtures/replies.txt'), 'utf8').match(/^hard .*/gm) ?? [];
      const rules = new Set<string>();
      for (const line of hard) {
        const { text } = readRefusal(line.replace(/^hard \w+ /, ''));
        for (const enhanced of ['5.7.1', '5.6.0', '5.2.3', '5.3.4']) {
          const plain = text.replace(/\d\.\d{1,3}\.\d{1,3}/g, '');
          const judged = judge({ phase: 'rcpt', code: 550, enhanced, text: plain });
          if (judged.class === 'hard') rules.add(judged.rule);
        }
      }
      assert.deepEqual([...rules], ['words:missing-mailbox-plainly']);
    });

    it('does not take the guess of a bounce mail for a code of the reply that it quotes', () => {
      const report = { phase: 'report', code: null, enhanced: '5.7.1' } as const;
      assert.equal(classify({ ...report, text: 'smtp; 550 Invalid recipient ana@dest.test' }).class, 'hard');
      assert.equal(classify({ ...report, text: 'smtp; 550 5.7.1 Invalid recipient ana@dest.test' }).class, 'block');
    });

    it('is hard in a bounce mail as at RCPT, by the enhanced code where there is no other', () => {
      assert.equal(classify({ phase: 'report', code: null, enhanced: '5.1.1', text: '' }).class, 'hard');
      assert.equal(classify({ phase: 'report', code: null, enhanced: '4.1.1', text: 'user unknown' }).class, 'soft');
    });
  });

  it('is soft without any code: the network spoke, not the server', () => {
    assert.deepEqual(classify({ phase: 'rcpt', code: null, enhanced: null, text: 'connection reset' }), {
      class: 'soft',
      reason: 'network',
    });
  });

  it('is never hard for a temporary reply, whatever its words', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(421, 450, 451, 452),
        fc.constantFrom(...rows.map(([reply]) => reply.slice(4))),
        (code, text) => {
          const enhanced = enhancedOf([text]);
          assert.notEqual(classify({ phase: 'rcpt', code, enhanced, text }).class, 'hard');
        },
      ),
    );
  });

  it('reads anything', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (text, enhanced) => {
        assert.ok(classify({ phase: 'rcpt', code: 550, enhanced, text }).class.length > 0);
      }),
    );
  });

  for (const file of ['replies.txt', 'replies-by-system.txt'])
    describe(`of the replies in test/fixtures/${file}`, () => {
      const lines = readFileSync(path.resolve(import.meta.dirname, '../../fixtures', file), 'utf8').split('\n');
      for (const line of lines.filter((one) => one !== '' && !one.startsWith('#'))) {
        const [, bounceClass, reason, reply = ''] = /^(\w+) (\w+) (.*)$/.exec(line) ?? [];
        it(`${reply} -> ${bounceClass}, ${reason}`, () => {
          assert.deepEqual(classify(readRefusal(reply)), { class: bounceClass, reason });
        });
      }
    });

  describe('tells its grounds', () => {
    for (const [reply, rule, more, why] of [
      [
        '550 5.1.1 no',
        'enhanced:unknown-mailbox',
        'suppress',
        'the rule, and that the address is not written to again',
      ],
      ['550 5.7.25 no', 'enhanced:host-name-code', 'infrastructure', 'our DNS'],
      ['550 5.7.1 no', 'fallback:policy-code', 'infrastructure', 'a 5.7.x is about us unless a rule knows better'],
      ['554 listed in a block list', 'veto:reputation', 'infrastructure', 'a list'],
      ['550 5.7.1 not a member of the list', 'veto:preference', '', 'the recipient’s wish is not our set-up'],
      ['552 5.2.2 full', 'enhanced:full', '', 'the recipient’s matter'],
      ['451 4.7.1 greylisted', 'veto:greylisting', 'greylisting', 'the words'],
      ['451 4.7.1 later', 'enhanced:greylisting-by-code', 'greylisting', 'the codes'],
      ['450 5.1.1 no', 'enhanced:unknown-mailbox@4xx', '', 'why it is not hard'],
    ] as const) {
      it(`${reply}: ${rule} ${more}: ${why}`, () => {
        const { suppress, infrastructure, greylisting, ...told } = judge(said(reply));
        const flags = Object.entries({ suppress, infrastructure, greylisting }).filter(([, isSet]) => isSet);
        assert.deepEqual([told.rule, flags.map(([name]) => name).join()], [rule, more]);
      });
    }

    it('names the phase that made a verdict milder', () => {
      assert.equal(judge(said('550 5.1.1 no', 'mail')).rule, 'enhanced:unknown-mailbox@mail');
    });
  });

  describe('with rules of the operator’s own', () => {
    const own = createJudge([
      { name: 'house', class: 'hard', reason: 'mailbox_not_found', text: ['gone fishing'] },
      { name: 'soft-spam', class: 'soft', reason: 'spam', text: ['spam'], codes: ['4xx'] },
      { name: 'google-only', class: 'soft', reason: 'other', enhanced: ['5.7.x'], operators: ['google'] },
      { name: 'dot-only', class: 'soft', reason: 'content_rejected', codes: [554], phases: ['dot'] },
      { name: 'link', class: 'block', reason: 'policy', names: ['help.dest.test'], not: ['user unknown'] },
      { name: 'no-code', class: 'soft', reason: 'expired', codes: ['none'], enhanced: ['none'], text: ['gave it up'] },
      { name: 'range', class: 'soft', reason: 'other', enhanced: ['5.9.2xx'] },
    ]);
    for (const [refusal, rule, why] of [
      [said('550 5.7.1 spam: gone fishing'), 'own:house', 'they come before all others'],
      [said('450 spam'), 'own:soft-spam', 'a whole class of codes'],
      [said('550 spam'), 'veto:spam', 'and no other'],
      [{ ...said('550 5.7.1 x'), mx: 'alt1.GMAIL-smtp-in.l.google.com.' }, 'own:google-only', 'hosts of one operator'],
      [said('550 5.7.1 x'), 'own:google-only', 'or no host is known'],
      [
        { ...said('550 5.7.1 x'), mx: 'notgoogle.com' },
        'fallback:policy-code',
        'a name that only ends alike is another',
      ],
      [{ ...said('550 5.7.1 x'), mx: 'mta7.am0.yahoodns.net' }, 'fallback:policy-code', 'but not of another'],
      [said('554 x', 'dot'), 'own:dot-only', 'one phase'],
      [said('554 x'), 'fallback:refused-at-recipient', 'and no other phase'],
      [said('550 see https://help.dest.test/1'), 'own:link', 'a link in it'],
      [said('550 user unknown, see https://help.dest.test/1'), 'words:missing-mailbox', 'unless other words are there'],
      [{ phase: 'report', code: null, enhanced: null, text: 'gave it up' }, 'own:no-code', 'no code at all'],
      [said('550 5.9.204 x'), 'own:range', 'a range of enhanced codes'],
      [said('550 5.9.20 x'), 'fallback:refused-at-recipient', 'with as many figures'],
      [said('550 gone fishing', 'mail'), 'own:house@mail', 'nobody knows the recipient at MAIL, whatever a rule says'],
    ] as const) {
      it(`${rule}: ${why}`, () => {
        assert.equal(own(refusal).rule, rule);
      });
    }

    it('refuses a phrase that cannot be read', () => {
      assert.throws(() => createJudge([{ name: 'x', class: 'soft', reason: 'other', text: ['a ( b'] }]), /bracket/);
    });
  });

  it('reads what a bounce mail quotes rather than the status it gives', () => {
    const report = { phase: 'report', code: null } as const;
    const text = 'smtp; 550 5.7.1 taken for spam';
    assert.equal(classify({ ...report, enhanced: '5.1.1', text }).reason, 'spam');
    assert.equal(classify({ ...report, enhanced: '5.1.1', text: 'smtp; 550 no' }).reason, 'mailbox_not_found');
    assert.equal(classify({ ...report, enhanced: '4.0.0', text: 'no such user' }).class, 'hard');
    assert.equal(classify({ ...report, enhanced: '4.2.0', text: 'no such user' }).class, 'soft');
    const atMail = 'host mx.dest.test said: 550 5.1.1 no (in reply to MAIL FROM command)';
    assert.equal(classify({ ...report, enhanced: null, text: atMail }).class, 'block');
  });

  describe('agrees with what others labelled', () => {
    /** Rows are parted by a hash, so that each half has something of everything; the rules were written with the first in view. */
    for (const half of ['seen while writing the rules', 'not looked at'] as const) {
      it(`in the half ${half}: at least 95 % hard or not, and nothing hard that is a block`, function () {
        const rows = labelledReplies()?.filter((row) => isSeen(row.line) === (half === 'seen while writing the rules'));
        if (rows === undefined) return this.skip(NO_CORPORA);
        assert.ok(rows.length > 150);
        const wrong = rows.filter((row) => (classify(row.refusal).class === 'hard') !== (row.kind === 'hard'));
        assert.ok(
          wrong.length <= rows.length * 0.05,
          `${wrong.length} of ${rows.length}: ${wrong.map(({ line }) => line).join('\n')}`,
        );
        // One line is labelled by whose server said it; its words are `Unknown user` and nothing more.
        const blocks = wrong.filter(
          ({ kind, line }) => kind === 'block' && !/^(?:smtp; )?550 Unknown user \S+$/.test(line),
        );
        assert.deepEqual(
          blocks.map(({ line }) => line),
          [],
        );
        return undefined;
      });
    }

    it('in replies with the classes that are right: at least 95 %, and nothing hard by mistake', function () {
      const file = corpus('fresh3/replies.tsv');
      if (file === null) return this.skip(NO_CORPORA);
      const judged = readFileSync(file, 'utf8')
        .split('\n')
        .flatMap((row) => {
          const [, right = '', line = ''] = /^([hsbu]+)\t(.+)$/.exec(row) ?? [];
          return line === '' ? [] : [{ line, right, found: classify(readRefusal(line)).class.charAt(0) }];
        });
      assert.ok(judged.length > 100);
      const wrong = judged.filter(({ right, found }) => !right.includes(found));
      const list = wrong.map(({ right, found, line }) => `${found}, not ${right}: ${line}`);
      assert.ok(wrong.length <= judged.length * 0.05, list.join('\n'));
      assert.deepEqual(
        list.filter((one) => one.startsWith('h')),
        [],
      );
      return undefined;
    });
  });
});
