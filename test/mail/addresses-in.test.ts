import assert from 'node:assert/strict';
import fc from 'fast-check';
import { addressesIn } from '../../src/mail/addresses-in.ts';

const found = (text: string): string[] => addressesIn(text).map(({ address }) => address);

describe('addresses in prose', () => {
  for (const [text, expected, reason] of [
    ['', [], 'none'],
    ['write to a@b.example.', ['a@b.example'], 'a full stop ends the sentence'],
    ['<a@b.example>: unknown', ['a@b.example'], 'in brackets'],
    ['<a@localhost>', ['a@localhost'], 'in brackets a host needs no dot'],
    ['a@localhost', [], 'outside them it does'],
    ['a@b.example,c@d.example', ['a@b.example', 'c@d.example'], 'a list'],
    ["to='a@b.example'", ['a@b.example'], 'quoted'],
    ['rcpt=a@b.example', ['a@b.example'], 'named'],
    ['c=US;dda:SMTP=a@b.example;', ['a@b.example'], 'in an X.400 address'],
    ['rfc822;a@b.example', ['a@b.example'], 'typed'],
    ['mailto:a@b.example', ['a@b.example'], 'linked'],
    ['<mailto:a@b.example>', ['a@b.example'], 'linked in brackets'],
    ['"a b"@c.example', ['"a b"@c.example'], 'a quoted local part'],
    ['<josé@b.example>', ['josé@b.example'], 'outside ASCII, in brackets'],
    ['宛先：a@b.exampleへ', ['a@b.example'], 'no space around it'],
    ['a+tag=x@b.example', ['a+tag=x@b.example'], 'what a local part may have'],
    ['@b.example a@ @', [], 'halves'],
    ['a@-', [], 'nor this'],
  ] as const) {
    it(`${JSON.stringify(text)}: ${reason}`, () => {
      assert.deepEqual(found(text), expected);
    });
  }

  it('says where they stand, brackets included', () => {
    assert.deepEqual(addressesIn('x <a@b.example>: y'), [{ address: 'a@b.example', start: 2, end: 15 }]);
  });

  it('never throws, and gives what stands there', () => {
    const piece = fc.constantFrom('a', '@', '.', '<', '>', '"', ' ', 'b.example', ';', "'", 'é');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        const text = pieces.join('');
        for (const { address, start, end } of addressesIn(text)) {
          assert.ok(address.includes('@') && text.slice(start, end).includes(address));
        }
      }),
    );
  });
});
