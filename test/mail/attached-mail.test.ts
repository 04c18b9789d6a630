/** Mails inside of mails: RFC 2046 section 5.2.1, RFC 6532 section 3.7. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { simpleParser } from 'mailparser';
import { attachedMail, encodeContent, encodedSize } from '../../src/mail/mime-write.ts';

const TYPE = 'message/rfc822';
const of = (mail: string | Buffer, type = TYPE) => attachedMail(type, Buffer.from(mail), 'outer-boundary');
const attached = (content: Buffer) => ({
  html: null,
  text: 'see below',
  attachments: [{ filename: 'a.eml', contentType: TYPE, contentId: null, disposition: 'attachment', content } as const],
});

describe('an attached mail', () => {
  it('of 7 bits stays as it is, octet for octet', () => {
    const mail = 'Subject: x\r\n\r\na line with blanks behind it  \r\n--=_not ours\r\n';
    assert.deepEqual(of(mail), { contentType: TYPE, contentTransferEncoding: '7bit', content: Buffer.from(mail) });
  });

  it('gets the line ends of a mail', () => {
    for (const end of ['\n', '\r', '\r\n'])
      assert.equal(of(`Subject: x${end}${end}a${end}b`).content.toString(), 'Subject: x\r\n\r\na\r\nb');
  });

  for (const [what, mail, type, expected] of [
    ['a body in UTF-8', 'Subject: x\n\nGrüße\n', TYPE, 'message/global'],
    ['a header in UTF-8', 'Subject: Grüße\n\nx\n', TYPE, 'message/global'],
    [
      'octets of no known charset',
      Buffer.from('Subject: x\n\nGr\xfc\xdfe\n', 'latin1'),
      TYPE,
      'application/octet-stream',
    ],
    ['a line of 1,200 octets', `Subject: x\n\n${'x'.repeat(1200)}\n`, TYPE, 'message/global'],
    ['the outer boundary in it', 'Subject: x\n\n--outer-boundary\n', TYPE, 'message/global'],
    ['no header', '\n\nx\n', TYPE, 'application/octet-stream'],
    ['a report outside ASCII', 'A: ü', 'message/delivery-status', 'application/octet-stream'],
  ] as const)
    it(`with ${what} goes as a file, octet for octet`, () => {
      const { contentType, contentTransferEncoding, content } = of(Buffer.from(mail), `${type}; name="a.eml"`);
      assert.deepEqual([contentType, contentTransferEncoding], [`${expected}; name="a.eml"`, 'base64']);
      assert.deepEqual(content, Buffer.from(mail));
    });

  it('leaves other parts of such types as they are', () => {
    const report = 'Reporting-MTA: dns; mx.test\r\n\r\nAction: failed\r\n';
    const { contentType, content } = of(report, 'message/delivery-status');
    assert.deepEqual([contentType, content.toString()], ['message/delivery-status', report]);
  });

  it('never costs more than was reckoned, whatever the mail is', async () => {
    const line = fc.oneof(
      fc.constantFrom('', ' ', '--b', 'Content-Type: text/plain', 'é'.repeat(300), '= ', 'x'.repeat(1200), '\u0001'),
      fc.string({ unit: 'binary', maxLength: 40 }),
    );
    const mail = fc
      .tuple(fc.array(line, { maxLength: 60 }), fc.constantFrom('\n', '\r\n', '\r'))
      .map(([lines, end]) => Buffer.from(lines.join(end)));
    await fc.assert(
      fc.asyncProperty(mail, async (content) => {
        const input = attached(content);
        const encoded = await encodeContent(input, 'seed');
        assert.match(encoded.body.toString('latin1'), /^[\t\r\n\x20-\x7e]*$/);
        assert.ok(encoded.headers.length + encoded.body.length <= encodedSize(input));
      }),
      { numRuns: 200 },
    );
  });

  it('is found again by a mail reader', async () => {
    const content = Buffer.from(
      'From: Ana <ana@dest.test>\r\nSubject: Hello\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße aus Köln\r\n',
    );
    const { headers, body } = await encodeContent(attached(content), 'seed');
    const outer = await simpleParser(Buffer.concat([Buffer.from(`${headers}\r\n`), body]));
    const inner = await simpleParser(outer.attachments[0]?.content ?? '');
    assert.deepEqual([outer.text?.trim(), outer.attachments.length, inner.subject], ['see below', 1, 'Hello']);
    assert.match(inner.text ?? '', /Grüße aus Köln/);
  });
});
