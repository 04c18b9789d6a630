/** Generates mails that no person would write and that every engine gets some day: the same seed gives the same mails. */
import { createCipheriv } from 'node:crypto';
import fc from 'fast-check';

export interface SampleAttachment {
  filename: string;
  content: Buffer;
  contentType: string | null;
  contentId: string | null;
  disposition: 'attachment' | 'inline' | null;
}

/** The content of a mail; null if it is not given. */
export interface SampleMail {
  /** For the reader of a failure. */
  label: string;
  fromName: string | null;
  toName: string | null;
  subject: string;
  html: string | null;
  text: string | null;
  attachments: readonly SampleAttachment[];
}

/** The lengths at which some rule of RFC 2045, 2047, 5321 or 5322 begins to hold. */
const EDGES = [1, 72, 73, 74, 75, 76, 77, 78, 79, 509, 510, 511, 512, 996, 997, 998, 999, 1000, 1001, 2048, 4096, 8192];

/** End-of-data forms, dots, mbox and MIME look-alikes, escapes, controls, scripts of every direction. */
const LINES = [
  '',
  '.',
  '..',
  '...',
  '. ',
  '.x',
  '..x',
  '.=',
  '=.',
  'QUIT',
  'DATA',
  'From someone',
  '>From someone',
  '--',
  '--=_',
  '--=_x--',
  '=_',
  '=',
  '==',
  '=20',
  '=3D',
  '=\t',
  '=0',
  ' ',
  '\t',
  '  \t ',
  'ends in spaces   ',
  'ends in tab\t',
  '=?utf-8?q?=41?=',
  '=?utf-8?B?QQ==?=',
  'Content-Type: text/plain',
  'begin 644 a',
  ' .',
  '\t.',
  '\0',
  'a\0b',
  '\x01\x1a\x1b[31m',
  '\x7f',
  '\u0080\u0085\u009f',
  '\u2028\u2029',
  '\ufeff',
  'caf\u00e9',
  '\u00e9'.repeat(80),
  'e' + '\u0301'.repeat(300),
  'Z\u0351\u036b\u0343a\u0329l\u0347',
  '👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇪🇺',
  '😀'.repeat(60),
  'שלום עולם',
  'مرحبا بالعالم',
  'abc \u202edcba\u202c',
  '\u2066x\u2069\u200f\u200e',
  '漢字かなカナ한글',
  '\u{10ffff}\uffff',
  '𝒳𝒴',
] as const;

const LINE_ENDS = ['\n', '\r\n', '\r', '\n\r', '\r\r\n', '\n\n', '\r\n.\r\n', '\n.\n', '\r.\r', '\n.\r\n', '\r\n.\r'];

const FILE_NAMES = [
  'plain.txt',
  'two words.pdf',
  'größe.pdf',
  '請求書.pdf',
  '👍🏽.png',
  'שלום.doc',
  'a"b.txt',
  "it's.txt",
  'a;b=c.txt',
  'a,b.txt',
  '100%.txt',
  '%41.txt',
  "utf-8''x.txt",
  '=?utf-8?Q?x?=.txt',
  '.hidden',
  '..',
  'no extension',
  'x.tar.gz',
  ' leading and trailing ',
  'e\u0301.txt',
  '\u202etxt.gpj',
  `${'l'.repeat(250)}.txt`,
  `${'ü'.repeat(124)}.pdf`,
  '😀'.repeat(60),
  '(comment).txt',
  '<a@b>.txt',
  'a:b*c?.txt',
  '`~!@#$^&_+{}|[].txt',
  '\u2028.txt',
  'x'.repeat(70),
  "'",
  '*',
  '"',
];

const CONTENT_TYPES = [
  null,
  null,
  null,
  'application/octet-stream',
  'text/plain',
  'text/plain; charset=iso-8859-1',
  'text/html; charset=utf-8',
  'text/calendar; method=REQUEST; charset="utf-8"',
  'application/x-posthorn; a="semi;colon"; b=c',
  'image/png',
  'IMAGE/PNG',
  'message/rfc822',
  'application/pdf; name="a.pdf"',
];

const NAMES = [
  'Ana',
  'Acme, Inc.',
  'O"Neil',
  "O'Neil",
  'back\\slash',
  'Jörg Müller',
  'محمد',
  '山田 太郎',
  '😀 Shop',
  'a@b.test',
  '<x>',
  '(comment)',
  '=?utf-8?Q?x?=',
  'e\u0301'.repeat(20),
  'two  spaces',
  'dots. and: colons;',
  'n'.repeat(200),
  'ü'.repeat(200),
  'long words '.repeat(30).trim(),
  'a long name for Zoë & Cie '.repeat(8).trim(),
  '\u202eabc',
  'Dr. X [y]',
  '.',
  '"',
  '\\',
];

const anyText = fc.string({ unit: 'binary', maxLength: 120 });
const graphemes = fc.string({ unit: 'grapheme', maxLength: 120 });
const ascii = fc.string({ unit: 'binary-ascii', maxLength: 200 });

const repeated = (length: number, unit: string): string =>
  unit
    .repeat(Math.ceil(length / unit.length))
    .slice(0, length)
    .toWellFormed();
const unit = fc.constantFrom('x', 'word ', '.', '=', ' ', 'é', '👍', 'a\u0301', '<p>', '\t', '-');
const edgeLine = fc.tuple(fc.constantFrom(...EDGES), unit).map(([length, of]) => repeated(length, of));
const longLine = fc.tuple(fc.integer({ min: 2000, max: 100_000 }), unit).map(([length, of]) => repeated(length, of));

const line = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...LINES) },
  { weight: 4, arbitrary: fc.oneof(ascii, graphemes, anyText) },
  { weight: 2, arbitrary: edgeLine },
  { weight: 1, arbitrary: longLine },
);
/** An empty body is none, so it has a character at least. */
const body = fc
  .array(fc.tuple(line, fc.constantFrom(...LINE_ENDS)), { minLength: 1, maxLength: 20, size: 'max' })
  .chain((lines) => {
    const whole = lines.flat().join('');
    return fc.constantFrom(whole, `<p>${whole}</p>`, `${whole}end`);
  });
const bodies = fc.oneof(
  fc.record({ html: body, text: fc.constant(null) }),
  fc.record({ html: fc.constant(null), text: body }),
  fc.record({ html: body, text: body }),
);

const withoutBreaks = (text: string): string => text.replace(/[\r\n\0]/g, '');
const subject = fc
  .oneof(fc.constantFrom(...LINES), graphemes, anyText, ascii, edgeLine, fc.constantFrom(...NAMES))
  .map((text) => Array.from(withoutBreaks(text)).slice(0, 997).join(''))
  .map((text) => (/[^\p{Cc}\s]/u.test(text) ? text : `${text}x`));
const name = fc
  .oneof(fc.constantFrom(...NAMES), graphemes)
  .map((text) => text.replace(/[\x00-\x1f\x7f-\x9f]/g, ''))
  .map((text) => (text.trim() === '' ? null : text));

const fileName = fc
  .oneof({ weight: 3, arbitrary: fc.constantFrom(...FILE_NAMES) }, { weight: 1, arbitrary: graphemes.map(fileNameOf) })
  .filter((text) => Buffer.byteLength(text) <= 255);

function fileNameOf(text: string): string {
  return `${text.replace(/[/\\\p{Cc}]/gu, '').slice(0, 30)}.txt`;
}

const INNER = `From: a@acme.test\r\nSubject: inside\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\nContent-Type: message/rfc822\r\n\r\nSubject: deeper\r\nContent-Type: multipart/alternative; boundary="y"\r\n\r\n--y\r\n\r\n.\r\n--y--\r\n\r\n--x--\r\n`;
const content = fc.oneof(
  fc.constant(Buffer.alloc(0)),
  fc.uint8Array({ maxLength: 500 }).map((octets) => Buffer.from(octets)),
  body.map((text) => Buffer.from(text)),
  fc
    .constantFrom(INNER, INNER.replaceAll('\r\n', '\n'), INNER.replace('inside', 'ünside'))
    .map((text) => Buffer.from(text)),
);

/** Octets that do not compress: AES in counter mode of zeros. */
function noise(seed: number, length: number): Buffer {
  const start = Buffer.alloc(16);
  start.writeUInt32BE(seed);
  return createCipheriv('aes-128-ctr', Buffer.alloc(16), start).update(Buffer.alloc(length));
}

const largeContent = fc
  .tuple(fc.nat(), fc.integer({ min: 500_000, max: 4_000_000 }))
  .map(([seed, length]) => noise(seed, length));

const attachment = (octets: fc.Arbitrary<Buffer>): fc.Arbitrary<SampleAttachment> =>
  fc.record({
    filename: fileName,
    content: octets,
    contentType: fc.constantFrom(...CONTENT_TYPES),
    contentId: fc.option(fc.stringMatching(/^[A-Za-z0-9._@+-]{1,78}$/)),
    disposition: fc.constantFrom('attachment', 'inline', null),
  });
const attachments = fc.oneof(
  { weight: 24, arbitrary: fc.constant<SampleAttachment[]>([]) },
  { weight: 16, arbitrary: fc.array(attachment(content), { minLength: 1, maxLength: 4 }) },
  { weight: 4, arbitrary: fc.array(attachment(content), { minLength: 20, maxLength: 50, size: 'max' }) },
  { weight: 1, arbitrary: fc.array(attachment(largeContent), { minLength: 1, maxLength: 2 }) },
);

const mail = fc
  .record({ fromName: name, toName: name, subject, content: bodies, attachments })
  .map(({ content: { html, text }, attachments: files, ...rest }) => ({
    ...rest,
    html,
    text,
    // A Content-ID is unique in its message.
    attachments: files.map((file, at) =>
      file.contentId === null ? file : { ...file, contentId: `${String(at)}.${file.contentId}`.slice(0, 78) },
    ),
  }));

export function oddMails(count: number, seed: number): SampleMail[] {
  return fc
    .sample(mail, { numRuns: count, seed })
    .map((one, at) => ({ label: `odd mail ${String(at)} of seed ${String(seed)}`, ...one }));
}
