import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { simpleParser } from 'mailparser';
import { addressHeader, headerLine, parseHeaders, withoutControls } from '../../src/mail/header.ts';
import type { Mailbox } from '../../src/mail/address.ts';
import { corpus, NO_CORPORA } from '../support/harness/corpora.ts';

const mailbox = (name: string | null, address = 'a@b.example'): Mailbox => {
  const at = address.lastIndexOf('@');
  return { name, local: address.slice(0, at), domain: address.slice(at + 1), address };
};

/** Checks the rules of RFC 2047 and 5322 for every header that we write. */
function assertWellFormed(header: string): void {
  assert.match(header, /^(?:[^\r\n]*\r\n)+$/, 'CRLF and no other line ends');
  for (const [index, line] of header.slice(0, -2).split('\r\n').entries()) {
    assert.match(line, /^[\x20-\x7e]*$/);
    assert.ok(line.length <= 998, `${String(line.length)} octets`);
    if (index > 0) assert.match(line, /^ +\S/, 'a folded line begins with a space and is not blank');
    const words = line.match(/=\?UTF-8\?[BQ]\?[^?]*\?=/g) ?? [];
    for (const word of words) assert.ok(word.length <= 75, word);
    if (words.length > 0) assert.ok(line.length <= 76, line);
  }
}

/** Decodes encoded words by the book, each by itself, so that a character cut in two shows. */
function decodeWords(value: string): string {
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  return value
    .replace(/(=\?UTF-8\?[BQ]\?[^?]*\?=) +(?==\?UTF-8)/g, '$1')
    .replace(/=\?UTF-8\?([BQ])\?([^?]*)\?=/g, (_, encoding: string, text: string) => {
      if (encoding === 'B') return strict.decode(Buffer.from(text, 'base64'));
      const octets = text
        .replaceAll('_', ' ')
        .replace(/=([0-9A-F]{2})/g, (__, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
      return strict.decode(Buffer.from(octets, 'latin1'));
    });
}

const valueOf = (header: string): string => parseHeaders(header)[0]?.value ?? '';

describe('mail/header', () => {
  /** [value, line, reason] */
  const rows: readonly (readonly [string, string, string])[] = [
    ['Hello', 'Subject: Hello\r\n', 'plain text as it is'],
    ['a  b', 'Subject: a  b\r\n', 'spaces inside are kept'],
    ['a\r\nBcc: x@y.z', 'Subject: a Bcc: x@y.z\r\n', 'no injection'],
    ['a\u0000\tb\u007f\u0085c', 'Subject: a b c\r\n', 'no control characters'],
    ['a\u2028b', 'Subject: a b\r\n', 'no line separators'],
    ['Grüße', 'Subject: =?UTF-8?B?R3LDvMOfZQ==?=\r\n', 'B where it is shorter'],
    [
      'Zahlung für Mai',
      'Subject: Zahlung =?UTF-8?Q?f=C3=BCr?= Mai\r\n',
      'Q where it is shorter; plain words stay plain',
    ],
    ['für alle für', 'Subject: =?UTF-8?B?ZsO8ciBhbGxlIGbDvHI=?=\r\n', 'one stretch from first to last'],
    ['=?utf-8?q?x?=', 'Subject: =?UTF-8?B?PT91dGYtOD9xP3g/PQ==?=\r\n', 'what looks encoded is encoded'],
    ['\ud800', 'Subject: =?UTF-8?B?77+9?=\r\n', 'half a surrogate pair becomes U+FFFD'],
    ['\ufeff\u00a0x\u3000', 'Subject: =?UTF-8?B?77u/wqB444CA?=\r\n', 'white space beyond ASCII stays at both ends'],
    ['  x ', 'Subject: x\r\n', 'spaces at the ends go'],
    ['', 'Subject: \r\n', 'nothing'],
  ];
  for (const [value, line, reason] of rows) {
    it(`writes ${JSON.stringify(value)}: ${reason}`, () => {
      assert.equal(headerLine('Subject', value), line);
    });
  }

  it('folds at 76, before spaces that are there', () => {
    const line = headerLine('Subject', 'word '.repeat(40));
    assertWellFormed(line);
    for (const part of line.slice(0, -2).split('\r\n')) assert.ok(part.length <= 76);
    assert.equal(valueOf(line), 'word '.repeat(40).trim());
  });

  it('leaves a long word whole, beside its name where it fits in a line', () => {
    assert.equal(headerLine('X-Url', `<https://x.test/${'a'.repeat(200)}>`).split('\r\n').length, 2);
    const longest = headerLine('N'.repeat(126), 'v'.repeat(995));
    assertWellFormed(longest);
    assert.equal(valueOf(longest), 'v'.repeat(995));
  });

  it('encodes what no line can hold', () => {
    for (const value of ['v'.repeat(5000), `a${' '.repeat(2000)}b`]) {
      const line = headerLine('Subject', value);
      assertWellFormed(line);
      assert.equal(decodeWords(valueOf(line)), value);
    }
  });

  it('formats finding 9: a subject without a blank leaves no first line empty', () => {
    for (const length of [70, 988, 989, 990, 995]) {
      const line = headerLine('Subject', 'x'.repeat(length));
      assertWellFormed(line);
      assert.doesNotMatch(line, /^Subject:\s*\r\n/);
      assert.equal(decodeWords(valueOf(line)), 'x'.repeat(length));
    }
    assert.match(headerLine('Subject', `${'x'.repeat(990)} and more`), /^Subject: =\?UTF-8\?Q\?x+\?=\r\n/);
  });

  it('refuses a name that is none', () => {
    for (const name of ['', 'a b', 'a:', 'a\r\nb', 'ü', 'x'.repeat(127)]) assert.throws(() => headerLine(name, 'x'));
  });

  it('gives the text back after decoding', () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[!-9;-~]{1,126}$/),
        fc.string({ unit: 'binary', maxLength: 300 }),
        (name, value) => {
          const line = headerLine(name, value);
          assertWellFormed(line);
          assert.equal(decodeWords(valueOf(line)), withoutControls(value).replace(/^ +| +$/g, ''));
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('is read by mailparser as it was meant', async () => {
    for (const subject of ['Привет, мир! '.repeat(10).trim(), '😀'.repeat(60), 'a ü b  c ö', 'Ünï', '=?x?= "q" (c)']) {
      const parsed = await simpleParser(`${headerLine('Subject', subject)}\r\n`);
      assert.equal(parsed.subject, subject);
    }
  });

  it('takes every naughty string', function () {
    const path = corpus('naughty-strings/blns.json');
    if (path === null) return this.skip(NO_CORPORA);
    for (const text of JSON.parse(readFileSync(path, 'utf8')) as string[]) {
      const line = headerLine('Subject', text);
      assertWellFormed(line);
      assert.equal(decodeWords(valueOf(line)), withoutControls(text).replace(/^ +| +$/g, ''));
    }
  });

  describe('addresses', () => {
    /** [mailboxes, header, reason] */
    const addresses: readonly (readonly [readonly Mailbox[], string, string])[] = [
      [[], '', 'none, no header'],
      [[mailbox(null)], 'To: a@b.example\r\n', 'no name'],
      [[mailbox('Ann Lee')], 'To: Ann Lee <a@b.example>\r\n', 'atoms'],
      [[mailbox('Acme, Inc.')], 'To: "Acme, Inc." <a@b.example>\r\n', 'quoted'],
      [[mailbox('a "b" \\')], 'To: "a \\"b\\" \\\\" <a@b.example>\r\n', 'quoted pairs'],
      [[mailbox('Jörg')], 'To: =?UTF-8?B?SsO2cmc=?= <a@b.example>\r\n', 'encoded, unquoted'],
      [[mailbox('=?x?=')], 'To: =?UTF-8?B?PT94Pz0=?= <a@b.example>\r\n', 'what looks encoded'],
      [[mailbox('x\r\nBcc: y')], 'To: "x Bcc: y" <a@b.example>\r\n', 'no injection'],
      [[mailbox(null), mailbox('B')], 'To: a@b.example, B <a@b.example>\r\n', 'two'],
    ];
    for (const [mailboxes, header, reason] of addresses) {
      it(`writes ${header.trim() || 'nothing'}: ${reason}`, () => {
        assert.equal(addressHeader('To', mailboxes), header);
      });
    }

    it('formats finding 9: a quoted name stays in one line, and is encoded where it is longer', () => {
      const name = `Acme, ${'Incorporated '.repeat(4).trim()}`;
      assert.equal(addressHeader('To', [mailbox(name)]), `To: "${name}"\r\n <a@b.example>\r\n`);
      const longer = `Acme, ${'Incorporated '.repeat(12).trim()}`;
      const header = addressHeader('From', [mailbox(longer)]);
      assertWellFormed(header);
      assert.doesNotMatch(header, /"/);
      assert.equal(decodeWords(valueOf(header)).replace(' <a@b.example>', ''), longer);
    });

    it('gives name and address back, however long', async () => {
      const name = fc
        .string({ unit: 'binary', minLength: 1, maxLength: 200 })
        .map((text) => withoutControls(text).trim().replace(/ +/g, ' '));
      await fc.assert(
        fc.asyncProperty(fc.array(name, { minLength: 1, maxLength: 4 }), async (names) => {
          const header = addressHeader(
            'To',
            names.map((text) => mailbox(text === '' ? null : text)),
          );
          assertWellFormed(header);
          const parsed = await simpleParser(`${header}\r\n`);
          const values = [parsed.to ?? []].flat().flatMap((list) => list.value);
          assert.deepEqual(
            values.map((value) => value.address),
            names.map(() => 'a@b.example'),
          );
          // Names that mailparser normalizes itself (white space of other scripts) are compared as it sees them.
          const bare = (text: string): string => text.replace(/[\s\ufeff]+/g, '');
          for (const [index, value] of values.entries()) {
            const asked = names[index] ?? '';
            if (/^[^"'\\,;:<>()@]*$/.test(asked)) assert.equal(bare(value.name), bare(asked));
          }
        }),
        { numRuns: 60 },
      );
    });
  });

  describe('reading', () => {
    it('unfolds and keeps what it found', () => {
      assert.deepEqual(parseHeaders('A: b\r\n c\r\nD:e\nF : g \r\n\r\nH: body'), [
        { name: 'A', value: 'b c', raw: 'A: b\r\n c\r\n' },
        { name: 'D', value: 'e', raw: 'D:e\n' },
        { name: 'F', value: 'g', raw: 'F : g \r\n' },
      ]);
    });

    it('leaves out what has no name', () => {
      assert.deepEqual(
        parseHeaders('junk\r\n: x\r\nA: b').map((field) => field.name),
        ['A'],
      );
      assert.deepEqual(parseHeaders(Buffer.from('')), []);
    });

    it('never throws', () => {
      fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => void parseHeaders(text)));
    });
  });
});
