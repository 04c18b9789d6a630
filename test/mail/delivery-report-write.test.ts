/** Reports that we write, read by our own reader of reports, and held against the limits of RFC 5322 and RFC 6533. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readDeliveryReport } from '../../src/mail/delivery-report.ts';
import { MOST_HEAD, writeDeliveryReport, type ReportedRecipient } from '../../src/mail/delivery-report-write.ts';
import { ownPartsOf, readMail, textOf } from '../../src/mail/mime-read.ts';

const NOW = Date.parse('2026-01-31T09:30:00Z');
const recipient = (changes: Partial<ReportedRecipient> = {}): ReportedRecipient => ({
  address: 'ana@dest.test',
  status: '5.1.1',
  diagnostic: { type: 'smtp', text: '550 5.1.1 no such user', host: 'mx.dest.test' },
  lastAttemptAt: NOW,
  ...changes,
});
const input = {
  reportingMta: 'mail.posthorn.test',
  arrivedAt: NOW,
  messageId: 'msg_01jz0000000000000000000007',
  text: 'It failed.\n',
  recipients: [recipient()],
  originalHead: Buffer.from('From: hi@acme.test\r\nSubject: Hello\r\n'),
};

function written(changes: Partial<typeof input>): { bytes: Buffer; parts: { type: string; text: string }[] } {
  const { headers, body } = writeDeliveryReport({ ...input, ...changes });
  const bytes = Buffer.concat([Buffer.from(`${headers}\r\n`), body]);
  const parts = [...ownPartsOf(readMail(bytes))].filter(({ parts: inner }) => inner.length === 0);
  return { bytes, parts: parts.map((part) => ({ type: part.type, text: textOf(part) })) };
}

describe('a delivery report that we write', () => {
  it('has the three parts of RFC 6522', () => {
    const { bytes, parts } = written({});
    assert.match(
      bytes.toString(),
      /^MIME-Version: 1\.0\r\nContent-Type: multipart\/report; report-type=delivery-status;\r\n boundary="/,
    );
    assert.deepEqual(
      parts.map(({ type }) => type),
      ['text/plain', 'message/delivery-status', 'text/rfc822-headers'],
    );
    assert.deepEqual(readDeliveryReport(parts[1]?.text ?? ''), {
      reportingMta: 'mail.posthorn.test',
      originalEnvelopeId: null,
      recipients: [
        {
          finalRecipient: 'ana@dest.test',
          originalRecipient: null,
          action: 'failed',
          status: '5.1.1',
          diagnostic: '550 5.1.1 no such user',
        },
      ],
    });
    assert.match(parts[1]?.text ?? '', /^Remote-MTA: dns; mx\.dest\.test$/m);
    assert.match(parts[2]?.text ?? '', /^Subject: Hello$/m);
  });

  it('leaves out what is not known', () => {
    const { parts } = written({
      originalHead: null,
      recipients: [recipient({ diagnostic: null, lastAttemptAt: null })],
    } as never);
    assert.equal(parts.length, 2);
    assert.doesNotMatch(parts[1]?.text ?? '', /Diagnostic|Remote-MTA|Last-Attempt/);
  });

  it('cuts a long header at the end of a line', () => {
    const head = Buffer.from(`X-Line: ${'a'.repeat(60)}\r\n`.repeat(1000));
    const text = written({ originalHead: head }).parts[2]?.text ?? '';
    assert.ok(text.length <= MOST_HEAD);
    assert.match(text.trimEnd(), /a{60}$/);
  });

  for (const [address, expected, reason] of [
    ['jösé@dest.test', 'utf-8; j\\x{F6}s\\x{E9}@dest.test', 'beyond ASCII, RFC 6533 section 3'],
    ['a=b\\c\u{1f600}@dest.test', 'utf-8; a\\x{3D}b\\x{5C}c\\x{1F600}@dest.test', 'its own marks are escaped'],
    ['"a b"@dest.test', 'utf-8; "a\\x{20}b"@dest.test', 'a space would end the address'],
    ['a=b@dest.test', 'rfc822; a=b@dest.test', 'ASCII stays as it is'],
  ] as const)
    it(`writes ${address} as ${expected} (${reason})`, () => {
      const { parts } = written({ recipients: [recipient({ address })] });
      assert.ok(parts[1]?.text.includes(`Final-Recipient: ${expected}\n`), parts[1]?.text);
    });

  it('is ASCII with short lines and no field of others, whatever was said', () => {
    const anything = fc.string({
      unit: fc.oneof(
        fc.constantFrom('\r\n', '\n', '\r', '\0', ' ', '=', '--', ':'),
        fc.string({ unit: 'grapheme', minLength: 1, maxLength: 3 }),
      ),
      maxLength: 400,
    });
    const one = fc.record({
      address: fc
        .tuple(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }))
        .map(([local]) => `${local.replace(/[\r\n\0]/g, '')}@dest.test`),
      status: fc.constantFrom('5.1.1', '5.4.7'),
      diagnostic: fc.option(
        fc.record({
          type: fc.constantFrom('smtp' as const, 'x-posthorn' as const),
          text: anything,
          host: fc.option(anything),
        }),
      ),
      lastAttemptAt: fc.option(fc.constant(NOW)),
    });
    fc.assert(
      fc.property(
        anything,
        fc.uniqueArray(one, {
          minLength: 1,
          maxLength: 3,
          selector: ({ address }) => address.replace(/\s+/g, '').toLowerCase(),
        }),
        fc.option(fc.uint8Array({ maxLength: 300 })),
        (text, recipients, head) => {
          const { headers, body } = writeDeliveryReport({
            ...input,
            text,
            recipients,
            originalHead: head === null ? null : Buffer.from(head),
          });
          const all = `${headers}\r\n${body.toString('latin1')}`;
          assert.match(all, /^[\x00-\x7f]*$/);
          assert.doesNotMatch(all, /\r(?!\n)|(?<!\r)\n|\0/);
          assert.ok(all.split('\r\n').every((line) => line.length <= 998));
          const mail = readMail(Buffer.from(all, 'latin1'));
          const fields = [...ownPartsOf(mail)].find(({ type }) => type === 'message/delivery-status');
          assert.ok(fields !== undefined);
          const report = readDeliveryReport(textOf(fields));
          assert.deepEqual(
            report.recipients.map(({ action, status }) => [action, status]),
            recipients.map(({ status }) => ['failed', status]),
          );
          assert.equal(report.reportingMta, 'mail.posthorn.test');
        },
      ),
      { numRuns: 200 },
    );
  });
});
