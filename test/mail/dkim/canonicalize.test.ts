import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { relaxedBody, relaxedBodyHash, relaxedHeader, simpleBody } from '../../../src/mail/dkim/canonicalize.ts';
import { corpus, NO_CORPORA } from '../../support/harness/corpora.ts';

const body = (text: string): string => relaxedBody(Buffer.from(text, 'latin1')).toString('latin1');

/** RFC 6376 section 3.4.4 line by line, slow and plain: the yardstick for the quick one. */
function byTheBook(text: string): string {
  const lines = text.split('\r\n').map((line) => line.replace(/[ \t]+/g, ' ').replace(/ $/, ''));
  while (lines.at(-1) === '') lines.pop();
  return lines.map((line) => `${line}\r\n`).join('');
}

describe('mail/dkim/canonicalize', () => {
  /** [body, relaxed, reason] */
  const rows: readonly (readonly [string, string, string])[] = [
    ['', '', 'nothing stays nothing'],
    ['\r\n\r\n', '', 'only empty lines'],
    [' \t\r\n', '', 'only white space'],
    ['a', 'a\r\n', 'a line end is added'],
    ['a \t\r\n\t b\r\n', 'a\r\n b\r\n', 'white space at the end goes, at the front is one space'],
    ['a  \t b\r\n', 'a b\r\n', 'a run is one space'],
    ['a\r\n\r\nb\r\n\r\n', 'a\r\n\r\nb\r\n', 'empty lines inside stay'],
    ['a ', 'a\r\n', 'white space at the very end'],
    ['a\r\n \r\n', 'a\r\n', 'a blank last line'],
    ['a\tb\r\n', 'a b\r\n', 'one tab is a space'],
    ['a \nb\r\n', 'a \nb\r\n', 'a bare LF ends no line'],
    ['\u00ff\u0000\r\n', '\u00ff\u0000\r\n', 'octets are left alone'],
  ];
  for (const [input, expected, reason] of rows) {
    it(`relaxes ${JSON.stringify(input)}: ${reason}`, () => {
      assert.equal(body(input), expected);
    });
  }

  it('agrees with the book on any body', () => {
    const pieces = fc.array(fc.constantFrom(' ', '\t', '\r\n', '\r', '\n', 'a', '=')).map((all) => all.join(''));
    fc.assert(
      fc.property(pieces, (text) => {
        assert.equal(body(text), byTheBook(text));
      }),
      { numRuns: 1000 },
    );
  });

  it('hashes the relaxed form', () => {
    assert.equal(
      relaxedBodyHash(Buffer.alloc(0)),
      '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=',
      'RFC 6376 section 3.4.4',
    );
    assert.equal(relaxedBodyHash(Buffer.from('a  b')), createHash('sha256').update('a b\r\n').digest('base64'));
  });

  it('relaxes a header field', () => {
    assert.equal(relaxedHeader('Subject:\r\n\ta  b\r\n'), 'subject:a b\r\n');
    assert.equal(relaxedHeader('X:'), 'x:\r\n');
    assert.equal(relaxedHeader('X: \r\n'), 'x:\r\n');
  });

  it('agrees with the corpus', function () {
    const path = corpus('dkim/canonicalization.json');
    if (path === null) return this.skip(NO_CORPORA);
    const { cases } = JSON.parse(readFileSync(path, 'utf8')) as {
      cases: { part: string; algorithm: string; in: string; out: string; agrees_with_rfc6376_reading?: boolean }[];
    };
    let checked = 0;
    for (const entry of cases) {
      if (entry.agrees_with_rfc6376_reading === false) continue;
      const simple = simpleBody(Buffer.from(entry.in, 'latin1')).toString('latin1');
      const relaxed = entry.part === 'header' ? relaxedHeader(entry.in) : body(entry.in);
      assert.equal(entry.algorithm === 'simple' ? simple : relaxed, entry.out, JSON.stringify(entry));
      checked++;
    }
    assert.ok(checked > 30);
  });
});
