import assert from 'node:assert/strict';
import fc from 'fast-check';
import { survey } from '../../src/mail/body-facts.ts';
import { base64Length, encodeText, measureText, quotedOctets } from '../../src/mail/transfer-encoding.ts';
import type { TextEnd } from '../../src/mail/transfer-encoding.ts';

/** Decoders by the book (RFC 2045 6.7, 6.8), written apart from the encoder. */
function decode(encoding: string, octets: Buffer): string {
  const wire = octets.toString('latin1');
  if (encoding === 'base64') return Buffer.from(wire.replaceAll('\r\n', ''), 'base64').toString('utf8');
  if (encoding === '7bit') return wire;
  return unquoted(wire).toString('utf8');
}

function unquoted(wire: string): Buffer {
  const octets = wire
    .replaceAll('=\r\n', '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(octets, 'latin1');
}

const canonical = (text: string): string => text.toWellFormed().replace(/\r\n|\r|\n/g, '\r\n');

function assertOnWire(octets: Buffer, encoding: string, end: TextEnd): void {
  const wire = octets.toString('latin1');
  assert.match(wire, /^(?:[\t\x20-\x7e]|\r\n)*$/, 'ASCII and CRLF only');
  for (const line of wire.split('\r\n')) {
    assert.ok(line.length <= 76, `${String(line.length)} columns`);
    assert.doesNotMatch(line, /[ \t]$/, 'white space at a line end');
    if (encoding === 'quoted-printable') assert.doesNotMatch(line, /=(?![0-9A-F]{2}|$)/);
  }
  if (end === 'message') assert.ok(wire.endsWith('\r\n'));
}

function check(text: string, end: TextEnd): string {
  const measured = measureText(text);
  const octets = encodeText(measured, end);
  assertOnWire(octets, measured.encoding, end);
  assert.ok(octets.length <= measured.bound, `${String(octets.length)} octets, bound ${String(measured.bound)}`);
  if (measured.isRelaxed) assert.ok(survey(octets).isRelaxed);
  const decoded = decode(measured.encoding, octets);
  const expected = canonical(text);
  const gains = end === 'message' && measured.encoding === '7bit' && !expected.endsWith('\r\n');
  assert.equal(decoded, gains ? `${expected}\r\n` : expected);
  return measured.encoding;
}

describe('mail/transfer-encoding', () => {
  for (const [text, encoding] of [
    ['plain text\r\n', '7bit'],
    ['x\r\rx\r\n\n', '7bit'],
    ['a = b \n', 'quoted-printable'],
    ['für alle\r\n', 'quoted-printable'],
    ['für alle, ', 'quoted-printable'],
    ['Привет\n', 'base64'],
  ] as const)
    it(`encodes ${JSON.stringify(text)} again and again as it encodes it once: ${encoding}`, () => {
      for (const end of ['message', 'part'] as const) {
        assert.equal(check(text.repeat(30_000), end), encoding);
        assert.equal(check(`${text.repeat(30_000)}\r`, end), encoding);
      }
    });

  /** [text, encoding, reason] */
  const rows: readonly (readonly [string, string, string])[] = [
    ['hello', '7bit', 'plain'],
    ['', '7bit', 'nothing'],
    ['a\tb\nc\r\nd\re', '7bit', 'any line ends, tabs'],
    ['x'.repeat(76), '7bit', 'the longest line'],
    ['x'.repeat(77), 'quoted-printable', 'a longer one'],
    [`short\n${'x'.repeat(2000)}\nshort`, 'quoted-printable', 'a longer one in the middle'],
    ['trailing \nspace', 'quoted-printable', 'white space at a line end'],
    ['tab\t', 'quoted-printable', 'white space at the end'],
    ['nul \u0000 and \u0007 and \u007f', 'quoted-printable', 'control characters'],
    ['Zahlung für Mai', 'quoted-printable', 'mostly ASCII'],
    ['Привет, мир', 'base64', 'mostly not ASCII'],
    ['='.repeat(200), 'base64', 'every character escaped'],
    ['--=_boundary', 'quoted-printable', 'what could be a boundary'],
    [`${' '.repeat(500)}x`, 'quoted-printable', 'only spaces in a line'],
    [
      `${'x'.repeat(74)} \n${'x'.repeat(73)} \n${'x'.repeat(72)} \n`,
      'quoted-printable',
      'an escape where the line is full',
    ],
    [`a\ud800${'b'.repeat(20)}`, 'quoted-printable', 'half a surrogate pair'],
  ];
  for (const [text, encoding, reason] of rows) {
    it(`takes ${encoding} for ${JSON.stringify(text).slice(0, 40)}: ${reason}`, () => {
      assert.equal(check(text, 'part'), encoding);
      check(text, 'message');
    });
  }

  it('keeps a character on one line of quoted-printable', () => {
    for (let shift = 0; shift < 80; shift++) {
      const text = `${'x'.repeat(shift)}${'€'.repeat(3)}${'x'.repeat(200)}`;
      const wire = encodeText(measureText(text), 'part').toString('latin1');
      assert.equal(wire.split('=E2=82=AC').length, 4, wire);
    }
  });

  it('gives every text back', () => {
    const dense = fc
      .array(fc.constantFrom('a', ' ', '\t', '\n', '\r', '\r\n', '=', '.', 'ü', '€', '😀', '\u0000', 'x'.repeat(70)))
      .map((all) => all.join(''));
    fc.assert(
      fc.property(
        fc.oneof(dense, fc.string({ unit: 'binary', maxLength: 400 })),
        fc.constantFrom<TextEnd>('message', 'part'),
        (text, end) => {
          check(text, end);
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('gives all octets back that are quoted, also those that are not UTF-8', () => {
    const piece = fc.oneof(
      fc.constantFrom('a', '=', ' ', '\r\n', '\r', '\n', 'ü', '😀', 'x'.repeat(49)).map((text) => Buffer.from(text)),
      fc.integer({ min: 0x80, max: 0xff }).map((octet) => Buffer.of(octet)),
      fc.constantFrom(0xac, 0xe2).map((octet) => Buffer.alloc(100, octet)),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        const strange = Buffer.concat(pieces);
        const given = Buffer.concat([strange, Buffer.from(`\r\n${'x'.repeat(99)}`.repeat(strange.length / 20 + 1))]);
        const wire = quotedOctets(given);
        assert.ok(wire);
        assertOnWire(wire, 'quoted-printable', 'part');
        assert.deepEqual(unquoted(wire.toString('latin1')), given);
      }),
      { numRuns: 1000 },
    );
  });

  it('knows the length of base64', () => {
    for (const octets of [0, 1, 56, 57, 58, 114, 1000]) {
      const lines =
        Buffer.alloc(octets)
          .toString('base64')
          .match(/.{1,76}/g) ?? [];
      assert.equal(base64Length(octets), lines.map((line) => `${line}\r\n`).join('').length);
    }
  });
});
