import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { enhancedOf } from '../../src/mail/smtp-reply.ts';
import { classify, type Refusal } from '../../src/messages/classify.ts';
import { corpus } from '../support/corpora.ts';

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
    ['550 account suspended', 'hard', 'mailbox_disabled', 'words'],
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
    // What nobody can tell.
    ['550 Requested action not taken', 'undetermined', 'other', 'at RCPT'],
    ['554 Transaction failed', 'block', 'policy', 'the same after DATA', 'dot'],
  ];

describe('messages/classify', () => {
  for (const [reply, cls, reason, why, phase] of rows) {
    it(`${reply} -> ${cls}, ${reason}${why === '' ? '' : `: ${why}`}`, () => {
      assert.deepEqual(classify(said(reply, phase)), { class: cls, reason });
    });
  }

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

  it('reads anything, and a hostile megabyte as quickly as a line', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string(), (text, enhanced) => {
        assert.ok(classify({ phase: 'rcpt', code: 550, enhanced, text }).class.length > 0);
      }),
    );
    const words = ['spf ', 'mailbox ', 'exceed ', 'message content ', 'attachment ', 'recipient ', 'a', ' ', 'sender '];
    const started = performance.now();
    for (const word of words)
      classify({ phase: 'rcpt', code: 550, enhanced: null, text: word.repeat(1_000_000 / word.length) });
    assert.ok(performance.now() - started < 200, `${performance.now() - started} ms`);
  });

  it('calls nothing hard that others labelled as a block, a policy or a content rejection', function () {
    const folder = corpus('smtp-replies/sisimai');
    if (folder === null) return this.skip();
    const read = (name: string): unknown => JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
    const labelled = (read('diagnostic-lines-labelled.json') as { line: string; reason: string }[]).concat(
      Object.entries(read('reason-lines.json') as Record<string, string[]>).flatMap(([reason, lines]) =>
        lines.map((line) => ({ line, reason })),
      ),
      Object.values(
        read('rhost-lines.json') as Record<string, { smtp_lines: { line: string; reason: string }[] }>,
      ).flatMap((one) => one.smtp_lines),
    );
    const aboutUs = new Set([
      'authfailure', 'badreputation', 'blocked', 'contenterror', 'exceedlimit', 'failedstarttls', 'mesgtoobig', 'norelaying', 'notcompliantrfc',
      'policyviolation', 'requireptr', 'securityerror', 'spamdetected', 'speeding', 'toomanyconn', 'virusdetected',
    ]); // prettier-ignore
    const relevant = labelled.filter(({ reason }) => aboutUs.has(reason));
    assert.ok(relevant.length > 100);
    const hard = relevant.filter(
      ({ line }) => classify(said(/^\d{3} /.test(line) ? line : `550 ${line}`)).class === 'hard',
    );
    assert.deepEqual(hard, []);
    return undefined;
  });
});
