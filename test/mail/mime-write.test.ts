import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { simpleParser } from 'mailparser';
import MailComposer from 'nodemailer/lib/mail-composer';
import { encodeContent, encodedSize } from '../../src/mail/mime-write.ts';
import type { Attachment, EncodedContent, MimeContent } from '../../src/mail/mime-write.ts';
import { corpus, NO_CORPORA } from '../support/harness/corpora.ts';

const attachment = (change: Partial<Attachment> = {}): Attachment => ({
  filename: 'file.bin',
  contentType: 'application/octet-stream',
  contentId: null,
  disposition: 'attachment',
  content: Buffer.from([0, 13, 10, 255, 61]),
  ...change,
});
const content = (change: Partial<MimeContent>): MimeContent => ({ html: null, text: null, attachments: [], ...change });
const message = ({ headers, body }: EncodedContent): Buffer => Buffer.concat([Buffer.from(`${headers}\r\n`), body]);

function assertOnWire(encoded: EncodedContent): void {
  const wire = message(encoded).toString('latin1');
  assert.match(wire, /^(?:[\t\x20-\x7e]|\r\n)*$/, 'ASCII and CRLF only');
  for (const line of wire.split('\r\n')) assert.ok(line.length <= 998);
  assert.ok(wire.endsWith('\r\n'));
  assert.match(encoded.headers, /^MIME-Version: 1\.0\r\nContent-Type: (?:.+\r\n)+$/);
}

/** The tree as `type(child child)`, with each leaf's encoding. */
function tree(wire: string): string {
  const split = wire.indexOf('\r\n\r\n');
  const head = wire.slice(0, split).replace(/\r\n[ \t]+/g, ' ');
  const type = /^content-type: ([^;\r\n]+)/im.exec(head)?.[1] ?? '';
  const boundary = /boundary="?([^"\r\n;]+)/i.exec(head)?.[1];
  if (boundary === undefined) return `${type}:${/^content-transfer-encoding: (.*)/im.exec(head)?.[1] ?? ''}`;
  const parts = `\r\n${wire.slice(split + 4)}`.split(`\r\n--${boundary}`).slice(1, -1);
  return `${type}(${parts.map((part) => tree(part.slice(2))).join(' ')})`;
}

/** The parts of a message that a reader sees; both writers must agree on it. */
async function seen(wire: Buffer) {
  const parsed = await simpleParser(wire, {
    skipTextToHtml: true,
    skipHtmlToText: true,
    skipImageLinks: true,
    keepCidLinks: true,
  });
  return {
    html: typeof parsed.html === 'string' ? parsed.html.trimEnd() : null,
    text: parsed.text === undefined ? null : parsed.text.trimEnd(),
    attachments: parsed.attachments.map((part) => ({
      filename: part.filename,
      contentType: part.contentType,
      cid: part.cid,
      disposition: part.contentDisposition,
      content: part.content.toString('hex'),
    })),
  };
}

function byNodemailer({ html, text, attachments }: MimeContent): Promise<Buffer> {
  const mail = new MailComposer({
    ...(html === null ? {} : { html }),
    ...(text === null ? {} : { text }),
    newline: 'win',
    attachments: attachments.map((part) => ({
      filename: part.filename,
      contentType: part.contentType,
      content: part.content,
      contentDisposition: part.disposition,
      ...(part.contentId === null ? {} : { cid: part.contentId }),
    })),
  });
  return mail.compile().build();
}

describe('mail/mime-write', () => {
  describe('structure', () => {
    const image = attachment({ filename: 'a.png', contentType: 'image/png', contentId: 'logo', disposition: 'inline' });
    const invitation = attachment({ filename: 'a.ics', contentType: 'text/calendar; charset=utf-8; method=REQUEST' });
    /** [content, tree, reason] */
    const rows: readonly (readonly [MimeContent, string, string])[] = [
      [content({ text: 'hello' }), 'text/plain:7bit', 'text alone'],
      [content({ html: '<p>hello' }), 'text/html:7bit', 'html alone'],
      [
        content({ html: 'h', text: 't' }),
        'multipart/alternative(text/plain:7bit text/html:7bit)',
        'both, the richest last',
      ],
      [
        content({ html: 'ü'.repeat(9), text: 'für alle' }),
        'multipart/alternative(text/plain:quoted-printable text/html:base64)',
        'each part its encoding',
      ],
      [content({}), 'text/plain:7bit', 'nothing'],
      [
        content({ html: 'h', text: 't', attachments: [attachment(), invitation] }),
        'multipart/mixed(multipart/alternative(text/plain:7bit text/html:7bit text/calendar:base64) application/octet-stream:base64)',
        'an invitation is a form of the text',
      ],
      [
        content({ html: 'h', attachments: [{ ...invitation, contentType: 'text/calendar' }] }),
        'multipart/mixed(text/html:7bit text/calendar:base64)',
        'a calendar that invites nobody is a file',
      ],
      [
        content({ text: 't', attachments: [attachment()] }),
        'multipart/mixed(text/plain:7bit application/octet-stream:base64)',
        'an attachment',
      ],
      [
        content({ html: 'h', attachments: [image] }),
        'multipart/related(text/html:7bit image/png:base64)',
        'an inline part beside the html',
      ],
      [
        content({ html: 'h', text: 't', attachments: [attachment(), image] }),
        'multipart/mixed(multipart/alternative(text/plain:7bit multipart/related(text/html:7bit image/png:base64)) application/octet-stream:base64)',
        'everything',
      ],
      [
        content({ html: 'h', attachments: [{ ...image, disposition: 'attachment' }] }),
        'multipart/mixed(text/html:7bit image/png:base64)',
        'an attachment with a Content-ID stays an attachment',
      ],
      [
        content({ text: 't', attachments: [image] }),
        'multipart/mixed(text/plain:7bit image/png:base64)',
        'nothing to be related to',
      ],
      [
        content({ attachments: [attachment()] }),
        'multipart/mixed(text/plain:7bit application/octet-stream:base64)',
        'an attachment alone has an empty text before it',
      ],
      [
        content({
          text: 't',
          attachments: [attachment({ contentType: 'message/rfc822', content: Buffer.from('A: b\r\n\r\nc\r\n') })],
        }),
        'multipart/mixed(text/plain:7bit message/rfc822:7bit)',
        'a mail is not encoded where it can be',
      ],
      [
        content({
          text: 't',
          attachments: [attachment({ contentType: 'message/rfc822', content: Buffer.from('A: b\n\nü') })],
        }),
        'multipart/mixed(text/plain:7bit message/rfc822:7bit)',
        'nor where it cannot: its own text is',
      ],
      ...(
        [
          [`A: ${'x'.repeat(200)}\r\n`, '7bit', 'a line over 76 octets'],
          ['A: b\nC: d \n', '7bit', 'LF line ends and a blank at an end'],
          [`A: ${'x'.repeat(1200)}\r\n`, null, 'a line that transport does not take'],
          ['A: ü\r\n', null, '8 bits'],
          ['A: \0\r\n', null, 'control characters'],
        ] as const
      ).flatMap(([octets, encoding, what]) =>
        ['message/delivery-status', 'Message/Feedback-Report; x=y', 'message/partial; id=a'].map(
          (contentType): (typeof rows)[number] => [
            content({ text: 't', attachments: [attachment({ contentType, content: Buffer.from(octets) })] }),
            `multipart/mixed(text/plain:7bit ${encoding === null ? 'application/octet-stream:base64' : `${contentType.split(';')[0] ?? ''}:${encoding}`})`,
            `${contentType} is never encoded: ${what}`,
          ],
        ),
      ),
      [
        content({
          text: 't',
          attachments: [attachment({ contentType: 'message/global-delivery-status', content: Buffer.from('A: ü') })],
        }),
        'multipart/mixed(text/plain:7bit message/global-delivery-status:base64)',
        'a type of RFC 6533 may be',
      ],
    ];
    for (const [input, expected, reason] of rows) {
      it(`is ${expected}: ${reason}`, async () => {
        const encoded = await encodeContent(input, 'seed');
        assertOnWire(encoded);
        assert.ok(message(encoded).length <= encodedSize(input));
        assert.equal(tree(message(encoded).toString('latin1')), expected);
      });
    }
  });

  it('gives the same octets for the same input, and other boundaries for another seed', async () => {
    for (const attachments of [[], [attachment()]]) {
      const input = content({ html: '<p>x', text: 'x', attachments });
      assert.deepEqual(await encodeContent(input, 'a'), await encodeContent(input, 'a'));
      assert.notEqual((await encodeContent(input, 'a')).headers, (await encodeContent(input, 'b')).headers);
    }
  });

  it('cannot be led to end a part early', async () => {
    const { headers } = await encodeContent(content({ html: 'h', text: 't' }), 'seed');
    const boundary = /boundary="([^"]+)"/.exec(headers)?.[1] ?? '';
    const evil = `a\r\n--${boundary}\r\nContent-Type: text/html\r\n\r\nevil\r\n--${boundary}--\r\n`;
    for (const attachments of [[], [attachment({ contentType: 'message/rfc822', content: Buffer.from(evil) })]]) {
      const encoded = await encodeContent(content({ html: 'h', text: evil, attachments }), 'seed');
      const parsed = await seen(message(encoded));
      assert.equal(parsed.text, evil.replaceAll('\r\n', '\n').trimEnd());
      assert.equal(parsed.html, 'h');
    }
  });

  it('takes any seed', async () => {
    for (const seed of ['', 'a"b\r\nX: y', 'ü', 'x'.repeat(10_000)]) {
      const { headers } = await encodeContent(content({ html: 'h', text: 't' }), seed);
      assert.match(headers, /boundary="=_[\w-]{24}"\r\n$/);
    }
  });

  it('writes content types and names as they are', async () => {
    const types = ['text/calendar; method=REQUEST; charset=utf-8', 'application/pdf', 'x-a/x-b; q="a; b"'];
    for (const contentType of types) {
      const encoded = await encodeContent(content({ text: 't', attachments: [attachment({ contentType })] }), 's');
      assertOnWire(encoded);
      const [expected = '', ...parameters] = contentType.split('; ');
      const wire = encoded.body.toString().replace(/\r\n +/g, ' ');
      assert.ok(wire.includes(`Content-Type: ${expected}`));
      for (const parameter of parameters) assert.ok(wire.includes(parameter), wire);
    }
    for (const filename of [
      'a b.pdf',
      'grüße.pdf',
      '"quoted".txt',
      'x'.repeat(255),
      '文件'.repeat(40),
      "it's; x=y.txt",
    ]) {
      const encoded = await encodeContent(content({ text: 't', attachments: [attachment({ filename })] }), 's');
      assertOnWire(encoded);
      assert.equal((await seen(message(encoded))).attachments[0]?.filename, filename);
    }
  });

  it('refuses to build a part that would be read as a tree', async () => {
    const broken = content({ text: 't', attachments: [attachment({ contentType: 'multipart/mixed; boundary=x' })] });
    await assert.rejects(encodeContent(broken, 's'), /multipart/);
  });

  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 300 }),
    fc
      .array(
        fc.constantFrom('word ', 'a', '=', '.\n', '\r\n', '\t', '--', 'Größe ', '価格', '<p>', '&amp;', 'x'.repeat(90)),
      )
      .map((all) => all.join('')),
  );
  const part = fc.record({
    filename: fc.stringMatching(/^[A-Za-z0-9üß _-]{1,40}\.(?:txt|pdf|png)$/),
    contentType: fc.constantFrom('application/pdf', 'image/png', 'text/plain', 'text/csv; charset=utf-8'),
    contentId: fc.constant(null),
    disposition: fc.constantFrom<'attachment' | 'inline'>('attachment', 'inline'),
    content: fc.uint8Array({ maxLength: 300, minLength: 1 }).map((bytes) => Buffer.from(bytes)),
  });
  const printable = (value: string): boolean => !/\p{Cc}/u.test(value.replace(/[\r\n\t]/g, '')) && value.trim() !== '';

  it('is read like what nodemailer composes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.option(text),
        fc.option(text),
        fc.array(part, { maxLength: 2 }),
        async (html, plain, attachments) => {
          fc.pre(
            (html === null || printable(html)) && (plain === null || printable(plain)) && (html ?? plain) !== null,
          );
          // Line ends are normalized on both sides: nodemailer leaves a bare CR where it is.
          const input = {
            html: html?.replace(/\r\n?/g, '\n') ?? null,
            text: plain?.replace(/\r\n?/g, '\n') ?? null,
            attachments,
          };
          const ours = await encodeContent(input, 'seed');
          assertOnWire(ours);
          assert.deepEqual(await seen(message(ours)), await seen(await byNodemailer(input)));
        },
      ),
      { numRuns: 30 },
    );
  });

  it('is never longer than it said', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.option(text),
        fc.option(text),
        fc.array(part, { maxLength: 3 }),
        async (html, plain, attachments) => {
          const input = { html, text: plain, attachments };
          assert.ok(message(await encodeContent(input, 'seed')).length <= encodedSize(input));
        },
      ),
      { numRuns: 30 },
    );
  });

  it('says so within some percent', async () => {
    const samples: MimeContent[] = [
      content({ html: '<p class="x">some words</p>\n'.repeat(4000) }),
      content({ html: 'Größe und Maß '.repeat(4000) }),
      content({ text: 'Привет '.repeat(8000) }),
      content({ text: 't', attachments: [attachment({ content: Buffer.alloc(300_000, 1) })] }),
    ];
    for (const input of samples) {
      const size = message(await encodeContent(input, 's')).length;
      assert.ok(encodedSize(input) < size * 1.1 + 3000, `${String(encodedSize(input))} for ${String(size)}`);
    }
  });

  it('writes again what was read from strange mail', async function () {
    const path = corpus('mime/mailparser/nested.eml');
    if (path === null) return this.skip(NO_CORPORA);
    const found = await simpleParser(readFileSync(path));
    const html = typeof found.html === 'string' ? found.html : null;
    const encoded = await encodeContent(content({ html, text: found.text ?? null }), 's');
    assertOnWire(encoded);
    assert.equal((await seen(message(encoded))).html, html?.trimEnd() ?? null);
  });
});
