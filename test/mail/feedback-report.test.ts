import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readComplainant, readFeedbackReport } from '../../src/mail/delivery-report.ts';

describe('feedback reports', () => {
  it('are read whole', () => {
    const text = `Feedback-Type: Abuse
User-Agent: Reports/1
Version: 1
Original-Mail-From: <b+x@shop.example>
Original-Rcpt-To: <a@isp.example>
Original-Rcpt-To: c@isp.example
Removal-Recipient: a@isp.example
Original-Envelope-Id: E1
Arrival-Date: Mon, 1 Jun 2026 10:00:00 +0000`;
    assert.deepEqual(readFeedbackReport(text), {
      feedbackType: 'abuse',
      userAgent: 'Reports/1',
      complainants: ['a@isp.example', 'c@isp.example'],
      originalMailFrom: 'b+x@shop.example',
      originalEnvelopeId: 'E1',
      arrivalDate: 'Mon, 1 Jun 2026 10:00:00 +0000',
    });
  });

  for (const [text, type, complainants, reason] of [
    ['', null, [], 'nothing'],
    ['Feedback-Type: opt-out\n\nRemoval-Recipient: a@b.example', 'opt-out', ['a@b.example'], 'a blank line inside'],
    ['Original-Rcpt-To: a@b.example', null, ['a@b.example'], 'no type'],
    ['Feedback-Type: abuse (user)', 'abuse', [], 'a comment behind the type'],
    ['Original-Rcpt-To: redacted@b.example', null, [], 'redacted (RFC 6590)'],
    ['Original-Rcpt-To: rfc822; a@b.example', null, ['a@b.example'], 'with an address type'],
  ] as const) {
    it(`read ${JSON.stringify(text)}: ${reason}`, () => {
      const read = readFeedbackReport(text);
      assert.deepEqual([read.feedbackType, read.complainants], [type, complainants]);
    });
  }

  for (const [value, expected] of [
    ['<a@b.example>', 'a@b.example'],
    ['redacted', null],
    ['Redacted@', null],
    ['xxxx@b.example', null],
    ['@b.example', null],
    ['', null],
  ] as const) {
    it(`take ${JSON.stringify(value)} for ${String(expected)}`, () => {
      assert.equal(readComplainant(value), expected);
    });
  }

  it('never throw', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
        assert.ok(Array.isArray(readFeedbackReport(`Feedback-Type:${text}`).complainants));
      }),
    );
  });
});
