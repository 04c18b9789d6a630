/** Mails inside of mails: RFC 2046 section 5.2.1, RFC 6532 section 3.7. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { simpleParser } from 'mailparser';
import { encodeContent, encodedSize, attachedMail, attachedSize } from '../../src/mail/mime-write.ts';
import { octetsOf, partsOf, readMail } from '../../src/mail/mime-read.ts';

const TYPE = 'message/rfc822';
const of = (mail: string | Buffer, type = TYPE) => attachedMail(type, Buffer.from(mail), 'outer-boundary');

const eightBit = [
  'From: Ana <ana@dest.test>',
  'Subject: Hello',
  'MIME-Version: 1.0',
  'Content-Type: multipart/mixed; boundary="b"',
  'Content-Transfer-Encoding: 8bit',
  '',
  'a preamble: é',
  '--b',
  'Content-Type: text/plain; charset=utf-8',
  'Content-Transfer-Encoding: 8bit',
  '',
  'Grüße aus Köln, and a line of plain words behind it = fine.',
  '--b',
  'Content-Type: application/octet-stream',
  '',
  'é'.repeat(50),
  '--b',
  'Content-Type: message/rfc822',
  '',
  'Subject: deeper',
  'Content-Type: text/html; charset=utf-8',
  '',
  `<p>Schöne Grüße${' und so weiter'.repeat(100)}</p>`,
  '--b',
  'Content-Type: image/png',
  'Content-Transfer-Encoding: base64',
  '',
  'iVBORw0KGgo=',
  '--b--',
  '',
].join('\r\n');

const contentsOf = (mail: Buffer): string[] =>
  [...partsOf(readMail(mail))]
    .filter(({ parts }) => parts.length === 0)
    .map((part) => `${part.type} ${Buffer.from(octetsOf(part), 'latin1').toString('utf8')}`);

describe('a report inside of an attached mail', () => {
  const inside = (fields: string, octets: string): Buffer =>
    attachedMail(
      TYPE,
      Buffer.from(`Subject: x\nContent-Type: multipart/report; boundary=b\n\n--b\n${fields}\n\n${octets}\n--b--\n`),
      'outer-boundary',
    ).content;
  for (const [what, fields, octets, expected] of [
    ['stays as it is', 'Content-Type: message/delivery-status', `A: ${'x'.repeat(200)}`, 'message/delivery-status'],
    ['becomes a file in 8 bits', 'Content-Type: message/delivery-status', 'A: ü', 'application/octet-stream'],
    [
      'becomes a file with a long line, its type on a line of its own',
      'Content-Type:\n Message/Feedback-Report; x=y\nContent-Transfer-Encoding: 8bit',
      `A: ${'x'.repeat(1200)}`,
      'application/octet-stream',
    ],
    [
      'that was in base64 of one line is in 7 bits',
      'Content-Type: message/delivery-status\nContent-Transfer-Encoding: base64',
      Buffer.from('Action: failed\n'.repeat(100)).toString('base64'),
      'message/delivery-status',
    ],
  ] as const)
    it(what, () => {
      const mail = inside(fields, octets);
      assert.match(mail.toString('latin1'), /^[\t\r\n\x20-\x7e]*$/);
      const [, part] = [...partsOf(readMail(mail))];
      assert.equal(part?.type, expected);
      const isFile = expected.startsWith('application/');
      assert.equal(/^Content-Transfer-Encoding: base64\r$/m.test(mail.toString('latin1')), isFile);
      const told = Buffer.from(octetsOf(part), 'latin1').toString('utf8').trim().replaceAll('\r', '');
      assert.equal(told, octets.includes(':') ? octets : Buffer.from(octets, 'base64').toString('utf8').trim());
    });
});

describe('formats finding 3: message/rfc822 is never base64', () => {
  for (const [what, mail] of [
    ['with 8-bit parts', eightBit],
    ['with LF line ends', eightBit.replaceAll('\r\n', '\n')],
    ['with CR line ends', eightBit.replaceAll('\r\n', '\r')],
    ['cut off in a part', eightBit.slice(0, 800)],
    ['of one text', 'Subject: x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGrüße\r\n'],
    ['without MIME fields', 'Subject: x\n\nGrüße\n'],
    ['in another script', `Subject: x\nContent-Type: text/plain; charset=utf-8\n\n${'Здравствуйте '.repeat(30)}\n`],
    [
      'with a long line in quoted-printable',
      `Subject: x\nContent-Transfer-Encoding: quoted-printable\n\nfirst\n.\n${'x '.repeat(2000)}\n`,
    ],
    ['with a long line', `Subject: x\n\n${'x '.repeat(2000)}\n`],
    [
      'with our own kind of boundary',
      'Content-Type: multipart/mixed; boundary="=_x"\r\n\r\n--=_x\r\n\r\na \r\n--=_x--\r\n',
    ],
  ] as const)
    it(`re-encodes the parts of a mail ${what}`, () => {
      const { contentType, contentTransferEncoding, content } = of(mail);
      assert.deepEqual([contentType, contentTransferEncoding], [TYPE, '7bit']);
      const text = content.toString('latin1');
      assert.match(text, /^[\t\r\n\x20-\x7e]*$/);
      assert.doesNotMatch(text, /\r(?!\n)|(?<!\r)\n|[^\r\n]{999}/);
      const before = contentsOf(Buffer.from(mail)).map((one) => one.replaceAll('\n', '').trimEnd());
      assert.deepEqual(
        contentsOf(content).map((one) => one.replaceAll('\n', '').trimEnd()),
        before,
      );
    });

  it('leaves a mail of 7 bits as it is, octet for octet', () => {
    const mail = 'Subject: x\r\n\r\na line with blanks behind it  \r\n--=_not ours\r\n';
    assert.equal(of(mail).content.toString(), mail);
  });

  for (const [what, mail, expected] of [
    ['a header in UTF-8', 'Subject: Grüße\n\nx\n', 'message/global'],
    ['a header in no charset', Buffer.from('Subject: Gr\xfc\xdfe\n\nx\n', 'latin1'), 'application/octet-stream'],
    ['a header line of 1,200 octets', `Subject: ${'x'.repeat(1200)}\n\nü\n`, 'message/global'],
    ['a signed part in 8 bits', 'Content-Type: multipart/signed; boundary=b\n\n--b\n\nü\n--b--\n', 'message/global'],
    ['a part in binary', 'Content-Transfer-Encoding: binary\n\n\u0000ü\n', 'message/global'],
    [
      'more parts than are re-encoded',
      `Content-Type: multipart/mixed; boundary=b\n\n${'--b\n\né\n'.repeat(1000)}--b--\n`,
      'message/global',
    ],
    ['the outer boundary in it', 'Subject: x\n\n--outer-boundary\n', 'message/global'],
  ] as const)
    it(`gives a mail with ${what} another type`, () => {
      const { contentType, contentTransferEncoding, content } = of(Buffer.from(mail), `${TYPE}; name="a.eml"`);
      assert.deepEqual([contentType, contentTransferEncoding], [`${expected}; name="a.eml"`, 'base64']);
      assert.deepEqual(content, Buffer.from(mail));
    });

  it('never costs more than was reckoned, whatever the mail is', async () => {
    const line = fc.oneof(
      fc.constantFrom(
        '',
        ' ',
        '--b',
        '--b--',
        'Content-Type: text/plain',
        'Content-Type: multipart/mixed; boundary=b',
        'Content-Transfer-Encoding: 8bit',
        'é'.repeat(300),
        '= ',
        'x'.repeat(1200),
        '\u0001'.repeat(90),
      ),
      fc.string({ unit: 'binary', maxLength: 40 }),
    );
    const mail = fc
      .tuple(fc.array(line, { maxLength: 60 }), fc.constantFrom('\n', '\r\n', '\r'))
      .map(([lines, end]) => Buffer.from(lines.join(end)));
    await fc.assert(
      fc.asyncProperty(mail, async (content) => {
        const { content: octets, contentTransferEncoding: encoding, contentType } = of(content);
        assert.ok(encoding === '7bit' ? octets.length <= attachedSize(content) : contentType !== TYPE);
        const attachments = [
          { filename: 'a.eml', contentType: TYPE, contentId: null, disposition: 'attachment', content } as const,
        ];
        const input = { html: null, text: 'see below', attachments };
        const encoded = await encodeContent(input, 'seed');
        assert.match(encoded.body.toString('latin1'), /^[\t\r\n\x20-\x7e]*$/);
        assert.ok(encoded.headers.length + encoded.body.length <= encodedSize(input));
      }),
      { numRuns: 200 },
    );
  });

  it('is found again by a mail reader', async () => {
    const content = Buffer.from(eightBit);
    const attachments = [
      { filename: 'a.eml', contentType: TYPE, contentId: null, disposition: 'attachment', content } as const,
    ];
    const { headers, body } = await encodeContent({ html: null, text: 'see below', attachments }, 'seed');
    const outer = await simpleParser(Buffer.concat([Buffer.from(`${headers}\r\n`), body]));
    const inner = await simpleParser(outer.attachments[0]?.content ?? '');
    assert.deepEqual([outer.text?.trim(), outer.attachments.length, inner.subject], ['see below', 1, 'Hello']);
    assert.match(inner.text ?? '', /Grüße aus Köln/);
  });
});
