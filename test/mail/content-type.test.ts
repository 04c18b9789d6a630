import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readContentType } from '../../src/mail/content-type.ts';

describe('Content-Type', () => {
  for (const [value, type, params, reason] of [
    [null, 'text/plain', {}, 'no field (RFC 2045 section 5.2)'],
    ['nonsense', 'text/plain', {}, 'no type'],
    ['Text/HTML', 'text/html', {}, 'compared without regard to case'],
    ['a/b; Charset=utf-8', 'a/b', { charset: 'utf-8' }, 'names as well'],
    ['a/b; boundary="x; y"', 'a/b', { boundary: 'x; y' }, 'a semicolon in quotes'],
    ['a/b; name="x\\"y"', 'a/b', { name: 'x"y' }, 'an escaped quote'],
    ['a/b;x=1;x=2', 'a/b', { x: '1' }, 'twice: the first one'],
    ['a/b; name*0="ab"; name*1="cd"', 'a/b', { name: 'abcd' }, 'continued (RFC 2231 section 3)'],
    ["a/b; name*=utf-8'en'%C3%A9", 'a/b', { name: 'é' }, 'encoded (RFC 2231 section 4)'],
    ["a/b; name*=utf-8''%zz", 'a/b', { name: '%zz' }, 'encoded wrongly'],
    ['multipart/mixed;\n\tboundary=b', 'multipart/mixed', { boundary: 'b' }, 'folded'],
  ] as const) {
    it(`${JSON.stringify(value)}: ${reason}`, () => {
      const read = readContentType(value);
      assert.deepEqual([read.type, Object.fromEntries(read.params)], [type, params]);
    });
  }

  it('never throws', () => {
    const piece = fc.constantFrom('a/b', ';', '=', '"', '\\', '*0', '*', "'", '%C3', ' ', 'x');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        assert.match(readContentType(pieces.join('')).type, /\//);
      }),
    );
  });
});
