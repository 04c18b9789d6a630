import assert from 'node:assert/strict';
import fc from 'fast-check';
import { isDeliveryStatus, readAddress, readDeliveryReport } from '../../src/mail/delivery-report.ts';

const one = (fields: string): unknown =>
  readDeliveryReport(`Reporting-MTA: dns; mx.example\n\n${fields}`).recipients[0];
const nobody = { finalRecipient: null, originalRecipient: null, action: null, status: null, diagnostic: null };

describe('delivery reports', () => {
  it('have fields of the message and of each recipient', () => {
    const text = `Original-Envelope-Id: E1
Reporting-MTA: dns; mx.example

Original-Recipient: rfc822;a@b.example
Final-Recipient: rfc822;a@c.example
Action: failed
Status: 5.1.1 (no such user)
Diagnostic-Code: smtp; 550 5.1.1
   unknown

Final-Recipient: rfc822; b@c.example
Action: delayed
Status: 4.4.1
`;
    assert.deepEqual(readDeliveryReport(text), {
      reportingMta: 'mx.example',
      originalEnvelopeId: 'E1',
      recipients: [
        {
          finalRecipient: 'a@c.example',
          originalRecipient: 'a@b.example',
          action: 'failed',
          status: '5.1.1',
          diagnostic: '550 5.1.1 unknown',
        },
        { ...nobody, finalRecipient: 'b@c.example', action: 'delayed', status: '4.4.1' },
      ],
    });
  });

  for (const [fields, expected, reason] of [
    ['Final-Recipient: a@b.example', { finalRecipient: 'a@b.example' }, 'an address without its type'],
    ['Final-Recipient: RFC822; <a@b.example>', { finalRecipient: 'a@b.example' }, 'in angle brackets'],
    ['Final-Recipient: RFC822; a@b.example.', { finalRecipient: 'a@b.example' }, 'with the dot of the root'],
    ['Final-Recipient: rfc822; "a b"@b.example', { finalRecipient: '"a b"@b.example' }, 'a space in quotes'],
    ['Final-Recipient: rfc822; "a..b"@b.example', { finalRecipient: '"a..b"@b.example' }, 'a quoted local part'],
    ['Final-Recipient: utf-8; jos\\x{E9}@b.example', { finalRecipient: 'josé@b.example' }, 'RFC 6533 section 3'],
    [
      'Final-Recipient: utf-8; \\x{A0}a@b.example',
      { finalRecipient: '\u{a0}a@b.example' },
      'a space beyond ASCII is part of it',
    ],
    [
      'Final-Recipient: utf-8; a\\x{D800}@b.example',
      { finalRecipient: 'a\\x{D800}@b.example' },
      'half a surrogate pair',
    ],
    ['Original-Recipient: rfc822;a+2Bb@b.example', { originalRecipient: 'a+b@b.example' }, 'xtext (RFC 3461)'],
    ['Original-Recipient: rfc822;a+25@b.example', { originalRecipient: 'a+25@b.example' }, 'a tag is no xtext'],
    ['Original-Recipient: rfc822;a+40b.example', { originalRecipient: 'a@b.example' }, 'no address unless decoded'],
    ['Action: Failed (x)\nStatus: 5.0.0', { action: 'failed', status: '5.0.0' }, 'a comment'],
    ['Action: deliverable\nStatus: 2.1.5', { action: 'delivered', status: '2.1.5' }, 'Postfix, of an address it tried'],
    ['Action: expired\nStatus: 5.0.0', { action: 'failed', status: '5.0.0' }, 'SendGrid'],
    ['Final-Recipient: rfc822; a@b.example\nAction: what', { finalRecipient: 'a@b.example' }, 'an action that is none'],
    [
      'Status: 5.1.1\n\nFinal-Recipient: rfc822;a@b.example',
      { finalRecipient: 'a@b.example', status: '5.1.1' },
      'the status above',
    ],
    [
      'Final-Recipient: rfc822;a@b.example\n\nAction: failed',
      { finalRecipient: 'a@b.example', action: 'failed' },
      'a blank line inside',
    ],
    [
      'Final-Recipient: rfc822;a@b.example\nDiagnostic-Code: x-y; z\nDiagnostic-Code: w',
      { finalRecipient: 'a@b.example', diagnostic: 'z' },
      'two diagnostics',
    ],
  ] as const) {
    it(`read ${JSON.stringify(fields)}: ${reason}`, () => {
      assert.deepEqual(one(fields), { ...nobody, ...expected });
    });
  }

  it('begin a new recipient without a blank line', () => {
    const text =
      'Final-Recipient: rfc822;a@b.example\nAction: failed\nFinal-Recipient: rfc822;c@b.example\nAction: delayed';
    assert.deepEqual(
      readDeliveryReport(text).recipients.map(({ finalRecipient, action }) => [finalRecipient, action]),
      [
        ['a@b.example', 'failed'],
        ['c@b.example', 'delayed'],
      ],
    );
  });

  it('give no recipients where nothing is said, and a hundred at most', () => {
    assert.deepEqual(readDeliveryReport('Reporting-MTA: dns; x\n\nX-Y: z').recipients, []);
    assert.equal(readDeliveryReport('Final-Recipient: rfc822;a@b.example\n\n'.repeat(500)).recipients.length, 100);
  });

  it('never throw', () => {
    const piece = fc.constantFrom(
      'Final-Recipient:',
      'Action:',
      'Status:',
      'Diagnostic-Code:',
      ' rfc822;',
      '\n',
      '\n\n',
      'a@b',
      '<',
      '\\x{',
      '}',
      '5.1.1',
      '+2B',
      '\ud800',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        assert.ok(readDeliveryReport(pieces.join('')).recipients.length <= 60);
      }),
    );
  });

  it('have two types', () => {
    assert.ok(isDeliveryStatus('message/delivery-status') && isDeliveryStatus('message/global-delivery-status'));
    assert.ok(!isDeliveryStatus('message/rfc822'));
  });

  it('leave out what is no address', () => {
    assert.equal(readAddress('rfc822; '), null);
    assert.equal(readAddress(`rfc822; ${'a'.repeat(400)}`), null);
  });
});
