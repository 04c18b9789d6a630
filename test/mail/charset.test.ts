import assert from 'node:assert/strict';
import fc from 'fast-check';
import { decodeCharset, decodeTransfer, decodeWords } from '../../src/mail/charset.ts';

const latin1 = (...bytes: number[]): string => Buffer.from(bytes).toString('latin1');

describe('charsets', () => {
  for (const [octets, charset, text, reason] of [
    ['plain', null, 'plain', 'ASCII is ASCII in all of them'],
    [latin1(0xc3, 0xa9), 'UTF-8', 'é', 'the name in any case'],
    [latin1(0xe9), 'iso-8859-1', 'é', 'one octet a character'],
    [latin1(0x82, 0xa0), 'shift_jis', 'あ', 'two octets a character'],
    ['\x1b$B$"\x1b(B', 'ISO-2022-JP', 'あ', 'escape sequences, all of ASCII'],
    ['\x1b$B$"\x1b(B', null, 'あ', 'which tell themselves apart without a name'],
    [latin1(0xc3, 0xa9), null, 'é', 'unnamed: UTF-8 where it is well-formed'],
    [latin1(0xe9), 'us-ascii', 'é', 'said to be ASCII and is not: windows-1252'],
    [latin1(0xe9), 'no-such-charset', 'é', 'an unknown name'],
    [latin1(0xff), 'utf-8', '\ufffd', 'broken octets are shown as such'],
  ] as const) {
    it(`decodes ${JSON.stringify(octets)} of ${String(charset)}: ${reason}`, () => {
      assert.equal(decodeCharset(octets, charset), text);
    });
  }
});

describe('transfer encodings', () => {
  for (const [octets, encoding, expected, reason] of [
    ['a=3Db=\nc', 'Quoted-Printable', 'a=bc', 'escapes and soft breaks'],
    ['a= \t\nb', 'quoted-printable', 'ab', 'space after a soft break got there on the way'],
    ['a=ZZ', 'quoted-printable', 'a=ZZ', 'no escape: left as it is'],
    ['aGVs\nbG8=', 'base64', 'hello', 'in lines'],
    ['x', '8bit', 'x', 'as it is'],
    ['x', 'uuencode', 'x', 'not known'],
    ['x', null, 'x', 'none'],
  ] as const) {
    it(`${String(encoding)}, ${JSON.stringify(octets)}: ${reason}`, () => {
      assert.equal(decodeTransfer(octets, encoding), expected);
    });
  }
});

describe('encoded words', () => {
  for (const [value, text, reason] of [
    ['plain', 'plain', 'nothing to decode'],
    ['=?utf-8?q?caf=C3=A9_1?=', 'café 1', 'Q, with the underscore for a space'],
    ['=?UTF-8?B?Y2Fmw6k=?=', 'café', 'B'],
    ['=?utf-8?q?a?= =?utf-8?q?b?= c', 'ab c', 'space between two of them does not count (RFC 2047 section 6.2)'],
    ['=?utf-8?q?gr=C3?= =?UTF-8?b?vMOfZQ==?= x', 'grüße x', 'cut inside a character'],
    ['=?utf-8?q?=C3?= =?iso-8859-1?q?=BC?=', '\ufffd¼', 'a piece of a character is nothing beside another charset'],
    ['=?utf-8?q?a?= b =?utf-8?q?c?=', 'a b c', 'a word between two of them'],
    ['=?utf-8?q?a?= =?b', 'a =?b', 'space before what is no encoded word'],
    ['=?utf-8*en?q?a?=', 'a', 'with a language (RFC 2231 section 5)'],
    ['=?utf-8?x?a?=', '=?utf-8?x?a?=', 'an encoding that is none'],
  ] as const) {
    it(`${JSON.stringify(value)}: ${reason}`, () => {
      assert.equal(decodeWords(value), text);
    });
  }

  it('never throws', () => {
    const piece = fc.constantFrom('=?', '?=', '?q?', '?b?', 'utf-8', 'shift_jis', '=C3', ' ', 'x', '_');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        assert.equal(typeof decodeWords(pieces.join('')), 'string');
      }),
    );
  });
});
