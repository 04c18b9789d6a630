import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  fieldOf,
  fieldsOf,
  MOST_BYTES,
  octetsOf,
  ownPartsOf,
  partsOf,
  readHead,
  readMail,
  textOf,
  wordsOf,
  type MailPart,
} from '../../src/mail/mime-read.ts';

const mail = (text: string): MailPart => readMail(Buffer.from(text));
const shape = (part: MailPart): unknown =>
  part.parts.length === 0 ? part.type : [part.type, ...part.parts.map(shape)];

const REPORT = `From: a@b.example
Subject: =?utf-8?q?Z=C3=BCrich?=
Content-Type: multipart/report; boundary="b"

preamble
--b
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

caf=E9
--b
Content-Type: message/rfc822

Message-ID: <1@b.example>
Content-Type: multipart/alternative; boundary=bb

--bb

plain
--bb
Content-Type: text/html

<p>html
--bb--
--b--
epilogue
`;

describe('reading a mail', () => {
  it('finds all parts, and those that are its own', () => {
    const read = mail(REPORT);
    assert.deepEqual(shape(read), [
      'multipart/report',
      'text/plain',
      ['message/rfc822', ['multipart/alternative', 'text/plain', 'text/html']],
    ]);
    assert.deepEqual(
      [...partsOf(read)].map(({ type }) => type),
      ['multipart/report', 'text/plain', 'message/rfc822', 'multipart/alternative', 'text/plain', 'text/html'],
    );
    assert.deepEqual(
      [...ownPartsOf(read)].map(({ type }) => type),
      ['multipart/report', 'text/plain', 'message/rfc822'],
    );
  });

  it('decodes what a part says', () => {
    const [, first] = [...partsOf(mail(REPORT))];
    assert.ok(first !== undefined);
    assert.equal(textOf(first), 'café');
    assert.equal(octetsOf(first), 'caf\xe9');
    assert.equal(wordsOf(mail(REPORT).headers, 'subject'), 'Zürich');
  });

  for (const [end, name] of [
    ['\r\n', 'CRLF'],
    ['\r', 'CR'],
  ] as const) {
    it(`reads ${name} line ends as LF`, () => {
      assert.deepEqual(mail(REPORT.replaceAll('\n', end)), mail(REPORT));
    });
  }

  for (const [text, expected, reason] of [
    ['', 'text/plain', 'nothing at all'],
    ['no head', 'text/plain', 'no header'],
    ['\n\nSubject: x\n\ny', 'text/plain', 'blank lines before the head'],
    ['Content-Type: multipart/mixed\n\n--b\n\nx', 'multipart/mixed', 'no boundary: one leaf'],
    ['Content-Type: multipart/mixed; boundary=b\n\nx', 'multipart/mixed', 'a boundary that never comes'],
    ['Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx', ['multipart/mixed', 'text/plain'], 'no end'],
    [
      'Content-Type: multipart/mixed; boundary=b\n\n--bb\n\nx\n--b\n\ny\n--b--\n',
      ['multipart/mixed', 'text/plain'],
      'a longer boundary is another one',
    ],
    ['Content-Type: message/rfc822\n\nContent-Type: a/b\n\n', ['message/rfc822', 'a/b'], 'a mail in a mail'],
    [
      `Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n${Buffer.from('Content-Type: a/b\r\n\r\nx').toString('base64')}`,
      ['message/rfc822', 'a/b'],
      'encoded, which RFC 2046 forbids and some do',
    ],
  ] as const) {
    it(`takes ${reason}`, () => {
      assert.deepEqual(shape(mail(text)), expected);
    });
  }

  it('goes so deep and no further', () => {
    const deep = Array.from(
      { length: 50 },
      (_, at) => `Content-Type: multipart/mixed; boundary=b${String(at)}x\n\n--b${String(at)}x\n`,
    );
    const types = [...partsOf(mail(`${deep.join('')}\nx`))];
    assert.equal(types.length, 9);
  });

  it('makes a hundred parts at most', () => {
    const many = `Content-Type: multipart/mixed; boundary=b\n\n${'--b\n\nx\n'.repeat(5000)}`;
    assert.ok([...partsOf(mail(many))].length <= 100);
  });

  it('reads the first 512 KiB', () => {
    const read = readMail(Buffer.alloc(MOST_BYTES * 2, 'x\n'));
    assert.ok(read.body.length <= MOST_BYTES);
  });

  it('reads a view into other memory', () => {
    const around = Buffer.from('xxxxSubject: y\n\nzzzz');
    assert.equal(fieldOf(readMail(around.subarray(4, 16)).headers, 'subject'), 'y');
  });

  it('never throws on any bytes', () => {
    const piece = fc.oneof(
      fc.constantFrom(
        'Content-Type: multipart/mixed; boundary=b\n',
        '\n',
        '\r',
        '--b',
        '--b--',
        'message/rfc822',
        ': ',
        '=?',
        '\0',
      ),
      fc.string({ unit: 'binary', maxLength: 20 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 50 }), (pieces) => {
        for (const part of partsOf(readMail(Buffer.from(pieces.join(''), 'latin1')))) textOf(part);
      }),
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
        assert.ok([...partsOf(readMail(bytes))].length > 0);
      }),
    );
  });
});

describe('fields', () => {
  const head = readHead('\nTo: a\nX: 1\nx: 2\n folded\nName: J\xc3\xb6rg\n\nTo: body');

  it('are found by name, in their order', () => {
    assert.equal(fieldOf(head, 'to'), 'a');
    assert.equal(fieldOf(head, 'none'), null);
    assert.deepEqual(fieldsOf(head, new Set(['x'])), ['1', '2 folded']);
  });

  it('may hold UTF-8 (RFC 6532)', () => {
    assert.equal(fieldOf(head, 'name'), 'Jörg');
  });
});
